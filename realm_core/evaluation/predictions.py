"""The predictions of one evaluation, appended to a file: JSON lines after a header line that describes them.

    {"format": 1, "identity": {…}, "model": "realm-mini", "questions": "plain-dev", "n": 183}
    {"question": …, "prediction": …, "right": …, …}
    …

Lines are only appended. A process killed at any time leaves complete lines and perhaps an incomplete last one; the next
run truncates that and continues after the complete ones. If an upgrade has changed the code meanwhile, or causes are
wanted and were not, or the other way round, it begins anew.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from filelock import lock_descriptor

from realm_core.errors import RealmError
from realm_core.evaluation.why import Why
from realm_core.files import disk_errors, parse_json
from realm_core.questions.answers import holds_answer

FORMAT = 1
CODE, WHY = "code", "why"  # in the identity
_MISSING = object()


@dataclass(frozen=True)
class Header:
    """The header of a file of predictions.

    identity:  everything that decides the predictions: hashes and options. Another identity needs another file.
    model, questions: their names, for tables. n: the number of questions.
    """

    identity: dict[str, Any]
    model: str
    questions: str
    n: int


@dataclass(frozen=True)
class Prediction:
    """The prediction for one question.

    probability: of the best candidate, p(y|x). given: whether it was likely enough to be given as the answer.
    right: whether the best candidate is right, given or not; of a question without answers, whether none was given.
    confidence: of the answer, the estimated probability that such a candidate is right; None in files made before
    answers had it.
    answer_rank: rank of the first retrieved block that holds an answer, None if none does.
    blocks: titles of the blocks read, the one that contributes most first. block_ids: theirs; none in files made before
    their ids were kept. ms: its share of the time of its batch.
    why: why it is right or wrong; None if the evaluation was not asked for it.
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
    block_ids: tuple[str, ...] = ()

    @property
    def is_answerable(self) -> bool:
        return bool(self.answers)

    @property
    def contains_answer(self) -> bool:
        """Whether the best candidate is right, or a right answer is a part of it."""
        return self.right or holds_answer(self.prediction, self.answers, self.answer_type)

    def found_within(self, k: int) -> bool:
        """Whether one of the best k blocks holds an answer."""
        return self.answer_rank is not None and self.answer_rank <= k


class PredictionFile:
    """A file to append predictions to; `with` locks it. `count`: the number of its predictions.

    begun_anew: whether there were some, but not all, that other code has made, or with causes where now there are
    none, or without; they are gone.
    `RealmError` if the file has another identity, is in use, or is no file of predictions.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._first_line = _line({"format": FORMAT, **dataclasses.asdict(header)})
        self._header = header
        self._file: IO[bytes] | None = None
        self.count = 0
        self.begun_anew = False

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
        if self._first_line.startswith(first):  # empty, with an incomplete header, or with this header
            complete_bytes = len(first) if first == self._first_line else 0
        else:
            found = _header(first, self._path)
            wanted = self._header.identity
            differing = [
                name
                for name in {**wanted, **found.identity}
                if wanted.get(name, _MISSING) != found.identity.get(name, _MISSING)
            ]
            self.begun_anew = bool(differing) and set(differing) <= {CODE, WHY}
            if differing and not self.begun_anew:
                raise RealmError(
                    f"{self._path} holds predictions of another evaluation "
                    f"(it differs in {', '.join(differing)}); choose another file."
                )
            complete_bytes = len(first)
        for line in file:
            if not line.endswith(b"\n"):
                break
            _prediction(line, f"{self._path}, line {self.count + 2}")
            self.count += 1
            complete_bytes += len(line)
        if self.begun_anew:
            if self.count >= self._header.n:
                other = "without their causes" if self._header.identity.get(WHY) else "with their causes"
                what = "of other code" if CODE in differing else other
                raise RealmError(f"{self._path} holds the predictions {what}, all of them; choose another file.")
            self.count = complete_bytes = 0
        if self.count > self._header.n:
            raise RealmError(
                f"{self._path} holds {self.count:,} predictions of {self._header.n:,} questions; remove it."
            )
        file.truncate(complete_bytes)
        if complete_bytes == 0:
            file.write(self._first_line)
            file.flush()

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        """On a full disk this fails as the write did: it is retried once."""
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
    """The header of a file of predictions; `RealmError` if it is no such file."""
    try:
        with open(path, "rb") as file:
            return _header(file.readline(), path)
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist.") from None


def read_predictions(path: Path) -> Iterator[Prediction]:
    """The predictions of a file, one at a time; `RealmError` if a line is none, and if some are missing."""
    header, count = read_header(path), 0
    with open(path, "rb") as file:
        file.readline()
        for count, line in enumerate(file, start=1):
            yield _prediction(line, f"{path}, line {count + 1}")
    if count != header.n:
        raise RealmError(f"{path} holds {count:,} of {header.n:,} predictions; repeat its evaluation to complete them.")


def _line(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def _row(line: bytes) -> Any:
    row = parse_json(line)
    _line(row)  # raises for lone surrogates in JSON, which could not be written again
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
        raise RealmError(f"{path} has no header of predictions of format {FORMAT}.") from None
    return header


def _prediction(line: bytes, where: str) -> Prediction:
    try:
        row = _row(line)
        why = Why.from_dict(row["why"]) if row.get("why") is not None else None
        lists = {name: tuple(row[name]) for name in ("answers", "blocks", "block_ids") if name in row}
        return Prediction(**{**row, **lists, "why": why})
    except (RealmError, ValueError, TypeError, KeyError, AttributeError):  # no object at all, for one
        raise RealmError(f"{where}: not a prediction.") from None
