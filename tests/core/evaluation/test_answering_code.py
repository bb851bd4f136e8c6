"""The identity of the code that answers: whatever changes an answer changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

import realm_core
from realm_core.corpus import wordnet
from realm_core.evaluation import answering_code
from realm_core.index import lexical
from realm_core.questions import answers
from realm_core.serving import provenance
from realm_core.serving.english import topics
from realm_core.text import spelling


def test_the_code_is_all_that_an_answer_depends_on() -> None:
    """Constants and rules, also those that a batch of questions never runs."""
    hashed = {Path(file).resolve() for file in answering_code.files()}
    for module in (lexical, wordnet, topics, provenance, spelling, answers):
        assert Path(str(module.__file__)).resolve() in hashed
    root = Path(realm_core.__file__).parent
    assert root / "index" / "wordpiece_counts.safetensors" in hashed
    below = {path for room in ("text", "index", "serving") for path in (root / room).rglob("*.py")}
    assert below <= hashed


def test_a_changed_constant_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path(str(lexical.__file__))
    changed = tmp_path / own.name
    changed.write_text(own.read_text().replace("NAME_WEIGHT: Final = 4.0", "NAME_WEIGHT: Final = 3.0"))
    assert changed.read_text() != own.read_text()
    before = answering_code.answering_code.__wrapped__()
    assert before == answering_code.answering_code.__wrapped__()
    files = [changed if path == own else path for path in answering_code.files()]
    monkeypatch.setattr(answering_code, "files", lambda: files)
    assert answering_code.answering_code.__wrapped__() != before
