"""Predictions of one evaluation, kept as they come: JSON lines behind a line that says what they are of.

    {"format": 1, "identity": {…}, "model": "realm-mini", "questions": "plain-dev", "n": 183}
    {"question": …, "prediction": …, "right": …, …}
    …

Lines are only ever appended. Whoever was killed at any instant leaves whole lines and perhaps a torn last one; the
next run cuts that off and goes on behind the whole ones.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from filelock import lock_descriptor

from realm_core.errors import RealmError
from realm_core.evaluation.why import Why
from realm_core.files import disk_errors, parse_json

FORMAT = 1


@dataclass(frozen=True)
class Header:
    """What the predictions of a file are of.

    identity:  everything that decides what is predicted: hashes and options. Another identity is another file.
    model, questions: what they are called, for tables. n: how many questions there are.
    """

    identity: dict[str, Any]
    model: str
    questions: str
    n: int


@dataclass(frozen=True)
class Prediction:
    """What was said to one question.

    probability: of the best candidate, p(y|x). given: whether it was likely enough to be given as the answer.
    right: whether the best candidate is right, given or not. confidence: how often such a candidate is right, as the
    answer says; None in files that were made before answers said so.
    answer_rank: rank of the first retrieved block that holds an answer, None if none of those looked at does.
    blocks: titles of the blocks read, the one that says most first. ms: its share of the time of its batch.
    why: why it is right or wrong; None where the evaluation was not asked for it.
    """

    question: str
    answers: tuple[str, ...]
    answer_type: str
    prediction: str
    probability: float
    no_answer_probability: float | None
    given: bool
    right: bool
    answer_rank: int | None
    blocks: tuple[str, ...]
    ms: float
    confidence: float | None = None
    why: Why | None = None

    def found_within(self, k: int) -> bool:
        """Whether one of the best k blocks holds an answer."""
        return self.answer_rank is not None and self.answer_rank <= k


class PredictionFile:
    """A file that predictions are appended to; `with` locks it. `count`: how many it holds so far.

    `RealmError` where the file is another's: of another identity, in use, or not of predictions at all.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._first_line = _line({"format": FORMAT, **dataclasses.asdict(header)})
        self._header = header
        self._file: IO[bytes] | None = None
        self.count = 0

    def __enter__(self) -> PredictionFile:
        with disk_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._path, "a+b")  # closed by _close
            try:
                self._prepare(self._file)
            except BaseException:
                self._close()
                raise
        return self

    def _prepare(self, file: IO[bytes]) -> None:
        if not lock_descriptor(file.fileno(), blocking=False):
            raise RealmError(f"{self._path} is being written by another evaluation.")
        file.seek(0)
        first = file.readline()
        if self._first_line.startswith(first):  # empty, its first line torn, or ours already
            whole = len(first) if first == self._first_line else 0
        else:
            found = _header(first, self._path)
            differing = [
                name for name, value in self._header.identity.items() if found.identity.get(name, value) != value
            ]
            if found.identity != self._header.identity:
                raise RealmError(
                    f"{self._path} holds predictions of another evaluation "
                    f"({', '.join(differing) or 'identity'}: not the same); choose another file."
                )
            whole = len(first)
        for line in file:
            if not line.endswith(b"\n"):
                break
            _prediction(line, f"{self._path}, line {self.count + 2}")
            self.count += 1
            whole += len(line)
        if self.count > self._header.n:
            raise RealmError(
                f"{self._path} holds {self.count:,} predictions of {self._header.n:,} questions; remove it."
            )
        file.truncate(whole)
        if whole == 0:
            file.write(self._first_line)
            file.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        """Where the disk is full this fails as the line did that could not be written: it is tried once more."""
        assert self._file is not None
        with disk_errors(self._path):
            self._file.close()

    def extend(self, predictions: Iterable[Prediction]) -> None:
        """Append predictions, each at once."""
        assert self._file is not None
        for prediction in predictions:
            with disk_errors(self._path):
                self._file.write(_line(dataclasses.asdict(prediction)))
                self._file.flush()
            self.count += 1


def read_header(path: Path) -> Header:
    """What the predictions of a file are of; `RealmError` when it is not such a file."""
    try:
        with open(path, "rb") as file:
            return _header(file.readline(), path)
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist.") from None


def read_predictions(path: Path) -> Iterator[Prediction]:
    """The predictions of a file, one at a time; `RealmError` where a line is none, and if some are missing."""
    header, count = read_header(path), 0
    with open(path, "rb") as file:
        file.readline()
        for count, line in enumerate(file, start=1):
            yield _prediction(line, f"{path}, line {count + 1}")
    if count != header.n:
        raise RealmError(f"{path} holds {count:,} of {header.n:,} predictions; run its evaluation again to go on.")


def _line(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def _row(line: bytes) -> Any:
    row = parse_json(line)
    _line(row)  # raises where JSON has smuggled half a character in: what is read here is written and shown again
    return row


def _header(line: bytes, path: Path) -> Header:
    try:
        row = _row(line)
        if row.pop("format") != FORMAT:
            raise ValueError
        header = Header(**row)
        if not isinstance(header.identity, dict) or type(header.n) is not int:
            raise TypeError
    except (RealmError, ValueError, TypeError, KeyError, AttributeError):
        raise RealmError(f"{path} does not begin as a file of predictions of format {FORMAT} does.") from None
    return header


def _prediction(line: bytes, where: str) -> Prediction:
    try:
        row = _row(line)
        why = Why.from_dict(row["why"]) if row.get("why") is not None else None
        return Prediction(**{**row, "answers": tuple(row["answers"]), "blocks": tuple(row["blocks"]), "why": why})
    except (RealmError, ValueError, TypeError, KeyError):
        raise RealmError(f"{where}: not a prediction.") from None
