"""Links between the documents lead to files and sections that exist, and files that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("models/**/*.md"), *ROOT.glob("client/*.md")]
)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")

NAMING = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
_FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`\s]+)`")
_PATH = re.compile(r"(?!/)(?!.*://).*/(.+\.(css|html|ipynb|js|jsonl?|md|pdf|png|py|svg|toml|txt|ya?ml))?")
_FOLDERS = ("", "realm_core", "webapp", "workers")  # paths in the documents begin below one of these
# What a path begins with that is in no checkout: the data folder, its folders, and what commands write.
_MADE = ("var/", "logs/", "corpora/", "indexes/", "runs/", "before-restore/", "tuned/", "bm25/", "predictions/")


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


def missing_files(document: Path, root: Path = ROOT) -> list[str]:
    """Paths in backticks that do not exist; and in a table about a folder, the modules that are not in it.

    Such a table stands below a paragraph that begins with the folder, and the first cell of a row may name a folder in
    it. A path may be a pattern (`results/*.json`).
    """
    missing, about = [], ""
    for line in _FENCED.sub("", document.read_text(encoding="utf-8")).splitlines():
        names = _QUOTED.findall(line)
        inner: list[str] = []
        if line.startswith("#"):
            about = ""
        elif line.startswith("|"):
            inner = [
                f"{about}{name}" for name in ["", *_QUOTED.findall(line.split("|")[1])] if not name or name[-1] == "/"
            ]
        elif names and line.startswith("`") and names[0].endswith("/"):
            about = names[0]
        for name in names:
            module = bool(about and inner) and name.endswith(".py")
            folders = inner if module and "/" not in name else [*_FOLDERS, *inner]
            checked = module or (_PATH.fullmatch(name) and not name.startswith(_MADE))
            if checked and not any(any((root / folder).glob(name)) for folder in folders):
                missing.append(name)
    return missing


@pytest.mark.parametrize("document", NAMING, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_is_named_exists(document: Path) -> None:
    assert missing_files(document) == []


def test_a_file_that_is_named_and_missing_is_found(tmp_path: Path) -> None:
    for name in ("workers/app.py", "webapp/jobs/form.py", "docs/a.md", "realm_core/text/joins.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a.md").write_text(
        "`text/joins.py` `text/gone.py` `docs/*.md` `docs/*.svg` `jobs/` `gone/` `logs/web.log` `/api/v1/` `a/b`\n"
        "`other.py`\n\n`workers/`:\n\n| `app.py`, `joins.py` | `text/joins.py` |\n\n# Other\n\n| `joins.py` |\n\n"
        "`webapp/` has\n\n| `jobs/` | `form.py`, `app.py` |\n"
    )
    assert missing_files(tmp_path / "a.md", tmp_path) == ["text/gone.py", "docs/*.svg", "gone/", "joins.py", "app.py"]


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
