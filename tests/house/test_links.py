"""Links between the documents lead to files and sections that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("models/**/*.md"), *ROOT.glob("client/*.md")]
)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")


def sections(document: Path) -> set[str]:
    """What can be linked to, as GitHub names headings."""
    text = document.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return named | set(re.findall(r'<a id="([^"]+)">', text))


def dead_links(document: Path) -> list[str]:
    dead = []
    for match in _LINK.finditer(document.read_text(encoding="utf-8")):
        target = (document.parent / match[1]).resolve() if match[1] else document
        if not target.exists() or (match[2] and target.suffix == ".md" and match[2] not in sections(target)):
            dead.append(match[0])
    return dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_link_is_dead(document: Path) -> None:
    assert dead_links(document) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# One, two\n[here](#one-two) [b](b.md#section) [c](c.md) [web](https://example.org/#x)"
    )
    (tmp_path / "b.md").write_text('<a id="section"></a>')
    assert dead_links(tmp_path / "a.md") == ["](c.md)"]
    (tmp_path / "b.md").write_text("")
    assert dead_links(tmp_path / "a.md") == ["](b.md#section)", "](c.md)"]
