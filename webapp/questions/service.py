"""Question sets: records files of questions with answers, and makes sets from feedback.

A set is validated as a whole before it is recorded, and copied into the data folder, so that it never changes. Sets to
train on and sets to measure by have no question in common: figures on training questions would mean nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, transaction
from django.db.models import Prefetch
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.files import disk_errors, replaced
from realm_core.questions.answers import normalise_answer
from realm_core.questions.question_file import Question, read_questions
from webapp.access.collections import access_of
from webapp.asking.history import answers_without
from webapp.feedback.service import TEACHES, accepted_count, evidence_of, right_answer
from webapp.models import AuditEntry, EvidenceBlock, Feedback, Purpose, QuestionSet, Review
from webapp.questions import tables
from webapp.storage.places import portable, questions_dir, resolve

LARGEST_FILE_BYTES = 64 * 2**20  # of an upload; larger ones are recorded on the server
_LONGEST_NAME = 100
_NAME = re.compile(rf"[A-Za-z0-9][\w.-]{{0,{_LONGEST_NAME - 1}}}", re.ASCII)
_UNFIT = re.compile(r"[^\w.-]+", re.ASCII)
_AT_ONCE = 500  # rows of feedback read from the database together, each with the blocks of its answer
_SHOWN = 80  # characters of a question shown in a message


def record_file(
    path: Path,
    purpose: str,
    *,
    name: str = "",
    origin: str = "",
    leave_out_measured: bool = False,
) -> QuestionSet:
    """Record the questions of a file under `name` (default: `name_after` the file). As `record`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RealmError(f"{path} cannot be read: {error.strerror}.") from None
    content = lines_of(content, path.name, purpose)
    return record(content, name or name_after(path.name), purpose, origin=origin, leave_out_measured=leave_out_measured)


def name_after(file_name: str) -> str:
    """A set's name after its file's, without the ending: accents go, what else it cannot have becomes a dash."""
    plain = unicodedata.normalize("NFKD", PurePath(file_name).stem).encode("ascii", "ignore").decode()
    return _UNFIT.sub("-", plain).strip("-._")[:_LONGEST_NAME] or "questions"


def lines_of(content: bytes, file_name: str, purpose: str) -> bytes:
    """What a file has as JSON lines: a table's rows, where it is one by its name. RealmError as `tables.as_lines`."""
    return tables.as_lines(content, file_name, answerable=_answerable(purpose))


def typed_lines(text: str, purpose: str) -> bytes:
    """What was typed as JSON lines. RealmError as `tables.typed_lines`."""
    return tables.typed_lines(text, answerable=_answerable(purpose))


def _answerable(purpose: str) -> bool | None:
    """As for `read_questions`: sets to measure by may have questions without an answer."""
    return True if purpose == Purpose.LEARN else None


def record(
    content: bytes,
    name: str,
    purpose: str,
    *,
    origin: str = "",
    leave_out_measured: bool = False,
    by: User | str | None = None,
) -> QuestionSet:
    """Record questions, JSON lines in realm_core's format; a set recorded earlier is found again.

    purpose: of `Purpose`. origin: source and licence. by: as in the audit trail.
    leave_out_measured: for a training set, omit the questions that are in a set to measure by.
    RealmError for a bad name or line, a name that other questions have, and a question that is in a set of the other
    purpose.
    """
    if purpose not in Purpose.values:
        raise RealmError(f"The purpose must be one of {', '.join(Purpose.values)}, not {purpose!r}.")
    if not _NAME.fullmatch(name):
        raise RealmError(f"{name!r} cannot be a question set's name: letters, digits, dots, dashes, 100 at most.")
    questions = _read(content, name, answerable=_answerable(purpose))
    other = Purpose.MEASURE if purpose == Purpose.LEARN else Purpose.LEARN
    shared = _by_normalised_question(other)
    if leave_out_measured and other == Purpose.MEASURE:
        lines = [line for line in content.splitlines(keepends=True) if line.strip()]
        kept = [i for i, question in enumerate(questions) if normalise_answer(question.question) not in shared]
        content, questions = b"".join(lines[i] for i in kept), [questions[i] for i in kept]
        if not questions:
            raise RealmError(f"Every question of {name} is in a set to measure by, too; none is left.")
    digest = hashlib.sha256(content).hexdigest()
    path = questions_dir() / f"{name}.jsonl"
    known = QuestionSet.objects.filter(name=name).first()
    if known is not None:
        if (known.sha256, known.purpose) != (digest, purpose):
            raise RealmError(f"There is a question set {known} already; choose another name.")
        _write(content, resolve(known.path))  # restores a lost file
        return known
    if both := [one.question for one in questions if normalise_answer(one.question) in shared]:
        more = f" and {len(both) - 1:,} more of its {len(questions):,} questions are" if len(both) > 1 else " is"
        holder = f"{shared[normalise_answer(both[0])]}{' or another one' if len(both) > 1 else ''}"
        unless = ", unless these are left out" if purpose == Purpose.LEARN else ""
        raise RealmError(
            f"“{both[0][:_SHOWN]}”{more} in {holder}, too; a set to train on and a set to measure by must have no "
            f"question in common{unless}."
        )
    try:
        with transaction.atomic():
            made = QuestionSet.objects.create(
                name=name,
                purpose=purpose,
                path=portable(path),
                sha256=digest,
                questions=len(questions),
                origin=origin[:200],
                created_by=by if isinstance(by, User) else None,
            )
            AuditEntry.record("questions.add", made, by=by, sha256=digest, origin=origin)
            _write(content, path)  # within the transaction, so no row exists without its file
    except IntegrityError:
        raise RealmError(f"Another question set called {name} was added at the same moment.") from None
    return made


def measured_titles() -> list[str]:
    """The articles that sets to measure by are about; they are left out of training."""
    titles = {
        question.title
        for one in QuestionSet.objects.filter(purpose=Purpose.MEASURE)
        for question in read_questions(resolve(one.path), answerable=None)
        if question.title
    }
    return sorted(titles)


def feedback_questions(hidden: Collection[str]) -> list[dict[str, Any]]:
    """Accepted feedback as rows of a question file, the newest first.

    hidden: collections; answers that were read from them are left out.

    The label is the given answer if it was called right, else the better answer from the feedback. The context is the
    text of a block that holds it: the block that the feedback names, read or not, or else the best of those read.
    Left out are questions of sets to measure by, and feedback that only names a block: training needs an answer.

    A row also has the ids of the answers (`answer_ids`) and of the named blocks (`block_ids`); readers of question
    files ignore both.
    """
    measured = _by_normalised_question(Purpose.MEASURE)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    evidence = Prefetch("answer__evidence", EvidenceBlock.objects.order_by("rank"))
    accepted = Feedback.objects.filter(TEACHES, review=Review.ACCEPTED).select_related("answer")
    if hidden:
        accepted = accepted.filter(answer__in=answers_without(hidden))
    for said in accepted.prefetch_related(evidence).iterator(chunk_size=_AT_ONCE):
        asked = said.answer
        answer = right_answer(said)
        normal = normalise_answer(asked.question)
        if not normalise_answer(answer) or normal in measured:
            continue
        block = evidence_of(said, hidden)
        row = rows.setdefault(
            (normal, block.block_id if block else ""),
            {"question": asked.question, "answers": [], "answer_ids": [], "block_ids": []}
            | ({"title": block.title, "context": block.text} if block else {}),
        )
        more = {"answers": answer, "answer_ids": str(asked.pk), "block_ids": said.block_id}
        for name, value in more.items():
            if value and value not in row[name]:
                row[name].append(value)
    return list(rows.values())


def as_lines(rows: list[dict[str, Any]]) -> bytes:
    """Rows in the format of question files: JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def feedback_export(by: User | AnonymousUser) -> tuple[str, bytes]:
    """A name for the file, and `feedback_questions` that a person may read as one."""
    return f"feedback-{timezone.now():%Y-%m-%d}.jsonl", as_lines(feedback_questions(access_of(by).hidden))


@dataclass(frozen=True)
class RecordedFeedback:
    """A set made of feedback. left_out: feedback on answers that were read from private collections.

    measured: other feedback that was left out, because models are measured by its questions.
    """

    made: QuestionSet
    left_out: int
    measured: int


def record_feedback(name: str, *, by: User | str | None) -> RecordedFeedback:
    """Record `feedback_questions` as a set to learn from, without those of any private collection.

    Every curator sees a set, whoever made it. RealmError where there are none, and as `record`.
    """
    private = access_of(AnonymousUser()).hidden  # to somebody without an account
    rows = feedback_questions(private)
    left_out, measured = accepted_count() - accepted_count(private), _measured_count(private)
    if not rows:
        others = [f"{left_out:,} on answers from private collections"] if left_out else []
        others += [f"{measured:,} on questions that models are measured by"] if measured else []
        besides = f", besides {' and '.join(others)}" if others else ""
        raise RealmError(f"No feedback that can be trained on has been accepted yet{besides}.")
    made = record(as_lines(rows), name, Purpose.LEARN, origin="what people said of answers", by=by)
    return RecordedFeedback(made, left_out, measured)


def _measured_count(hidden: Collection[str]) -> int:
    """How much accepted feedback is on questions that models are measured by. hidden: as for `feedback_questions`."""
    measured = _by_normalised_question(Purpose.MEASURE)
    accepted = Feedback.objects.filter(TEACHES, review=Review.ACCEPTED, answer__in=answers_without(hidden))
    asked = accepted.values_list("answer__question", flat=True)
    return sum(normalise_answer(question) in measured for question in asked.iterator())


def _read(content: bytes, name: str, *, answerable: bool | None) -> list[Question]:
    """The questions, or the error of the first bad line, in which the file is NAME.jsonl.

    answerable: as for `read_questions`.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.jsonl"
        file.write_bytes(content)
        try:
            return read_questions(file, answerable=answerable)
        except RealmError as error:
            raise RealmError(str(error).replace(f"{folder}/", "")) from None


def _write(content: bytes, path: Path) -> None:
    """Write a file, complete or not at all."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path, by_several=True) as temporary:
        temporary.write_bytes(content)


def _by_normalised_question(purpose: Purpose) -> dict[str, QuestionSet]:
    """Every normalised question of the sets with this purpose, and a set that has it."""
    return {
        normalise_answer(question.question): one
        for one in QuestionSet.objects.filter(purpose=purpose)
        for question in read_questions(resolve(one.path), answerable=None)
    }
