"""Measuring a tagger: reading a CoNLL file, and counting."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.runs.activity import Activity
from realm_core.salient.measure import Measurement, TaggedSentence, add, measure_file, read_conll
from realm_core.salient.spans import TaggedSpan as Span
from realm_core.salient.taggers import TaggerOptions

CONLL = """-DOCSTART- O

The I-ORG
Mad I-ORG
Capsule I-ORG
was O
in B-MISC
1999 I-MISC
2000 B-MISC

Paris NNP I-LOC
"""


def test_a_file_gives_sentences_and_names(tmp_path: Path) -> None:
    path = tmp_path / "names.conll"
    path.write_text(CONLL)
    first, second = read_conll(path)
    assert first.text == "The Mad Capsule was in 1999 2000"
    assert [first.text[name.start : name.end] for name in first.names] == ["The Mad Capsule", "in 1999", "2000"]
    assert second == TaggedSentence("Paris", (Span(0, 5, "LOC"),))


def test_counts_by_hand() -> None:
    measurement = Measurement()
    sentence = TaggedSentence("The Alps lie in Austria and Italy", (Span(0, 8, "LOC"), Span(16, 23, "LOC")))
    add(measurement, sentence, [Span(4, 8, "LOC"), Span(16, 23, "GPE"), Span(28, 33, "GPE")])
    exact, trimmed, overlap = measurement.exact, measurement.trimmed, measurement.overlap
    assert (exact.precision, exact.recall) == (1 / 3, 1 / 2)
    assert exact.f1 == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert (trimmed.precision, trimmed.recall) == (2 / 3, 1) == (overlap.precision, overlap.recall)
    assert dict(measurement.by_label["GPE"]) == {"predicted": 2, "overlap": 1, "trimmed": 1}


def test_a_tagger_that_finds_nothing_scores_nothing() -> None:
    measurement = Measurement()
    add(measurement, TaggedSentence("Mars", (Span(0, 4, "LOC"),)), [])
    assert (measurement.exact.precision, measurement.exact.recall, measurement.exact.f1) == (0, 0, 0)


def test_a_whole_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "names.conll"
    path.write_text(CONLL)
    measure_file(path, TaggerOptions("dates").tagger(), Activity(tmp_path / "run"))
    result = read_json(tmp_path / "run" / "result.json")
    assert result["exact"] == {"precision": 1 / 2, "recall": 1 / 4, "f1": pytest.approx(1 / 3)}
    assert result["overlap"] == {"precision": 1, "recall": 1 / 2, "f1": pytest.approx(2 / 3)}
    assert "2 sentences" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Paris", "line 1: a token and its tag"),
        ("\n\n", "no sentences"),
        ('{"title": "Paris", "text": "A town."}', "names.conll is no CoNLL file: no line"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "names.conll"
    with pytest.raises(RealmError, match="does not exist"):
        read_conll(path)
    path.write_text(content)
    with pytest.raises(RealmError, match=message):
        read_conll(path)
