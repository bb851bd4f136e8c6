"""The file of predictions: it grows line by line, is gone on with, and is nobody else's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.evaluation.predictions import PredictionFile, read_header, read_predictions
from realm_core.evaluation.why import Contender, Why
from tests.core.evaluation.material import header, prediction, prediction_file

PREDICTIONS = [prediction(number % 2 == 0, number / 10, question=f"Où est № {number}?\n") for number in range(6)]
HEADER = header(len(PREDICTIONS))


def whole(path: Path) -> bytes:
    return prediction_file(path, HEADER, PREDICTIONS).read_bytes()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "p.jsonl"
    whole(path)
    assert read_header(path) == HEADER
    assert list(read_predictions(path)) == PREDICTIONS


def test_why_is_read_back_and_files_without_it_are_files(tmp_path: Path) -> None:
    whys = [
        Why("not_in_corpus"),
        Why("outweighed", Contender("Mars", 0.4, "a", "Mars"), Contender("Nile", 0.3, "b", "Nile")),
        None,
    ]
    explained = [replace(prediction(), why=why) for why in whys]
    path = prediction_file(tmp_path / "p.jsonl", header(3), explained)
    assert list(read_predictions(path)) == explained
    lines = path.read_text().splitlines(keepends=True)
    for spoilt in ('"not_in_corpus"', '{"cause": "unheard of", "chosen": null, "right": null}', '{"cause": "right"}'):
        row = {**json.loads(lines[1]), "why": json.loads(spoilt)}
        path.write_text("".join([lines[0], json.dumps(row) + "\n", *lines[2:]]))
        with pytest.raises(RealmError, match="line 2: not a prediction"):
            list(read_predictions(path))
    older = [{name: value for name, value in json.loads(line).items() if name != "why"} for line in lines[1:]]
    path.write_text("".join([lines[0], *(json.dumps(row) + "\n" for row in older)]))
    assert list(read_predictions(path)) == [prediction()] * 3


def test_every_prediction_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"

    def watched() -> object:
        for number, one in enumerate(PREDICTIONS):
            assert path.read_bytes().count(b"\n") == 1 + number
            yield one

    with PredictionFile(path, HEADER) as file:
        file.extend(watched())  # type: ignore[arg-type]


def test_wherever_it_was_cut_off_it_ends_the_same(tmp_path: Path) -> None:
    content = whole(tmp_path / "whole.jsonl")
    path = tmp_path / "cut.jsonl"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with PredictionFile(path, HEADER) as file:
            assert file.count == max(0, content[:length].count(b"\n") - 1)
            file.extend(PREDICTIONS[file.count :])
        assert path.read_bytes() == content, length


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": "f" * 16}, "model"),
        ({"k": 6, "normalisation": "joint"}, "k, normalisation"),
        ({"questions": "other"}, "questions"),
        ({"sample": 3, "why": True}, "sample, why"),  # which the file lacks
    ],
)
def test_a_file_of_another_evaluation_is_refused_and_kept(
    tmp_path: Path, changed: dict[str, object], named: str
) -> None:
    path = tmp_path / "p.jsonl"
    content = whole(path)
    with (
        pytest.raises(RealmError, match=rf"p\.jsonl holds predictions of another evaluation \(it differs in {named}\)"),
        PredictionFile(path, header(6, **changed)),
    ):
        pass
    assert path.read_bytes() == content


def test_a_field_that_only_the_file_has_is_named(tmp_path: Path) -> None:
    path = prediction_file(tmp_path / "p.jsonl", header(1, k=6, why=True), [prediction()])
    with pytest.raises(RealmError, match=r"\(it differs in k, why\)"), PredictionFile(path, header(1)):
        pass


def test_a_name_is_not_the_identity(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    content = whole(path)
    with PredictionFile(path, header(6, called="renamed", of="renamed too")) as file:
        assert file.count == 6
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"a letter to a friend", b"a letter\nto a friend\n", b"{}\n", b"[1]\n", b"\xff\n"])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(RealmError, match="has no header of predictions"), PredictionFile(path, HEADER):
        pass
    assert path.read_bytes() == content


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    lines = whole(path).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"\0" * 40 + b"\n", *lines[4:]]))
    for opened in (lambda: PredictionFile(path, HEADER).__enter__(), lambda: list(read_predictions(path))):
        with pytest.raises(RealmError, match=r"p\.jsonl, line 4: not a prediction"):
            opened()
    path.write_bytes(b"".join([*lines[:3], b"1000\n", *lines[4:]]))
    with pytest.raises(RealmError, match=r"p\.jsonl, line 4: not a prediction"):
        list(read_predictions(path))


def test_half_a_character_is_refused_where_it_stands(tmp_path: Path) -> None:
    """JSON can name what UTF-8 cannot write."""
    path = tmp_path / "p.jsonl"
    lines = whole(path).splitlines(keepends=True)
    half = json.dumps(json.loads(lines[2]) | {"prediction": "\ud800"}).encode() + b"\n"
    path.write_bytes(b"".join([*lines[:2], half, *lines[3:]]))
    with pytest.raises(RealmError, match=r"p\.jsonl, line 3: not a prediction"):
        list(read_predictions(path))
    path.write_bytes(json.dumps(json.loads(lines[0]) | {"model": "\ud800"}).encode() + b"\n")
    with pytest.raises(RealmError, match="has no header of predictions"):
        read_header(path)


def test_more_predictions_than_questions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(whole(tmp_path / "whole.jsonl") + whole(tmp_path / "whole.jsonl").splitlines(keepends=True)[-1])
    with pytest.raises(RealmError, match="holds 7 predictions of 6 questions"), PredictionFile(path, HEADER):
        pass


def test_two_may_not_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    with (
        PredictionFile(path, HEADER),
        pytest.raises(RealmError, match="is being written by another"),
        PredictionFile(path, HEADER),
    ):
        pass
    with PredictionFile(path, HEADER) as file:
        file.extend(PREDICTIONS)


def test_an_unfinished_file_has_no_figures(tmp_path: Path) -> None:
    path = prediction_file(tmp_path / "p.jsonl", HEADER, PREDICTIONS[:4])
    with pytest.raises(RealmError, match="holds 4 of 6 predictions; repeat its evaluation"):
        list(read_predictions(path))
    with pytest.raises(RealmError, match="does not exist"):
        read_header(tmp_path / "no.jsonl")
