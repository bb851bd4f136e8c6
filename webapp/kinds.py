"""The kinds of job: the tasks of `realm_core` that have a queue, with records instead of paths.

Forms, the REST API and its schema, the page of a job and the workers get the parameters of jobs from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from django.db import models

from realm_core.errors import RealmError, printable, quoted
from realm_core.settings import Setting, SettingError, describe, flat, nested, try_make
from realm_core.task import DeclaredInput, Task, artefacts, undecided
from realm_core.tasks import JOBS
from webapp.models import CorpusSnapshot, IndexGeneration, JobKind, ModelVersion, Purpose, QuestionSet, SpanSet
from webapp.storage.places import resolve


@dataclass(frozen=True)
class RecordKind:
    """The records of one kind of artefact.

    list: the last part of their list's address. what: one of them, in a sentence. made_by: the kind of job.
    """

    model: type[models.Model]
    list: str
    what: str
    made_by: JobKind | None


# By the tasks' name of the artefact.
RECORDS: Final = {
    "corpus": RecordKind(CorpusSnapshot, "corpora", "a corpus", JobKind.INGEST),
    "index": RecordKind(IndexGeneration, "indexes", "an index", JobKind.INDEX),
    "model": RecordKind(ModelVersion, "models", "a model", JobKind.WARMSTART),
    "questions": RecordKind(QuestionSet, "question-sets", "a question set", None),
    "spans": RecordKind(SpanSet, "span-sets", "salient spans of a corpus", JobKind.SPANS),
}


class ParameterError(RealmError):
    """Invalid parameters. errors: messages by the parameter's name ("" for several together)."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(" ".join(f"{name}: {says}" if name else says for name, says in errors.items()))
        self.errors = dict(errors)


class Input:
    """A parameter of a job that names records by id. limit_to: a filter for `QuerySet.filter`."""

    def __init__(self, described: DeclaredInput) -> None:
        self.name, self.help = described.name, described.help
        self.many, self.required, self.of = described.many, described.required, described.of
        self.become_one = described.become_one
        self.records = RECORDS[described.artefact.kind]
        self.record = self.records.model
        purpose = described.artefact.purpose
        self.limit_to: Mapping[str, object] = {"purpose": purpose} if purpose else {}

    def choices(self) -> models.QuerySet[Any]:
        return self.record._default_manager.filter(**self.limit_to)

    def find(self, value: object) -> Any:
        """The record with an id (for a list of ids, the records; None for none), or a SettingError."""
        if value is None or value == []:
            if self.required:
                raise SettingError(self.name, "is needed.")
            return [] if self.many else None
        if not self.many:
            return self._one(value)
        if not isinstance(value, list):
            raise SettingError(self.name, f"must be a list of ids, not {quoted(value)}.")
        return [self._one(one) for one in dict.fromkeys(map(self._id, value))]

    def _one(self, value: object) -> models.Model:
        key = self._id(value)
        found: models.Model | None = self.choices().filter(pk=key).first()
        if found is None:
            what = self.record._meta.verbose_name
            other = self.record._default_manager.filter(pk=key).first() if self.limit_to else None
            if other is not None:
                wanted = Purpose(str(self.limit_to["purpose"])).label
                raise SettingError(self.name, f"must be of a {what} {wanted}, not of {other}.")
            raise SettingError(self.name, f"names no {what} that can be used: {quoted(key)}.")
        return found

    def _id(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise SettingError(self.name, f"must be an id, not {quoted(value)}.")
        return value


@dataclass(frozen=True)
class Parameters:
    """Parsed parameters: the records, and the task that works on them."""

    records: Mapping[str, Any]
    task: Task

    def __getitem__(self, name: str) -> Any:
        return self.records[name]


class Kind:
    """One kind of job.

    kind: its name, in rows and addresses. title, about: for people. queue: whose workers run it. by_hand: whether a
    person may start one.
    """

    def __init__(self, task: type[Task]) -> None:
        self.task, self.kind, self.title, self.about = task, task.kind, task.title, task.about
        self.queue, self.by_hand = task.queue, task.by_hand

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The records that it works on."""
        return tuple(map(Input, artefacts(self.task)))

    def described(self) -> Iterator[Setting]:
        """All its settings, in order."""
        return describe(self.task)

    def read(self, parameters: Mapping[str, Any]) -> Parameters:
        """Records and task from JSON parameters; omitted settings have their defaults.

        Raises ParameterError, which names every wrong parameter.
        """
        errors: dict[str, str] = {}
        records: dict[str, Any] = {}
        values = dict(parameters)
        for one in self.inputs:
            try:
                records[one.name] = one.find(values.pop(one.name, None))
            except SettingError as error:
                errors[error.name] = error.says
        known = {one.name: one for one in self.described()}
        given = {name: values.pop(name) for name in list(values) if name in known}
        paths = {name: _paths(record) for name, record in records.items() if record}
        wanting = {one.name: (Path(),) if one.many else Path() for one in self.inputs if one.name in errors}
        fixed = {**undecided(self.task), **paths, **wanting}
        made, wrong = try_make(self.task, {**fixed, **nested(self.task, given)})
        for name, value in given.items():
            if name not in wrong and not known[name].limit.may_be_typed(value):
                wrong[name] = f"must be {known[name].limit.says}, not {quoted(value)}."
        unknown = dict.fromkeys(map(printable, values), "is no parameter of this kind of job.")
        # Fields that do not fit each other are reported beside wrong values, which count as left out here.
        right = {name: value for name, value in given.items() if not any(_is_of(one, name) for one in wrong)}
        likely = made or try_make(self.task, {**fixed, **nested(self.task, right)})[0]
        apart = {} if likely is None else self._apart(records, likely)
        if errors := {**apart, **wrong, **errors, **unknown}:
            raise ParameterError(errors)
        assert made is not None
        return Parameters(records, made)

    def written(self, given: Parameters) -> dict[str, Any]:
        """The parameters as stored in a job's row: every setting with its value."""
        parameters: dict[str, Any] = {}
        for one in self.inputs:
            record = given[one.name]
            parameters[one.name] = [each.pk for each in record] if one.many else record and record.pk
        return parameters | flat(given.task)

    def _apart(self, records: Mapping[str, Any], task: Task) -> dict[str, str]:
        """Errors of records that were not made from each other, and must be. records: those that were found."""
        errors: dict[str, str] = {}
        for one in self.inputs:
            given = records.get(one.name)
            if given is None or one.name in task.unused():
                continue
            model, corpus = (
                next((records[name] for name in one.of if name in names and records.get(name)), None)
                for names in (("model",), ("sentences", "corpus"))
            )
            for record in given if one.many else (given,):
                which = f"{record} " if one.many else ""
                if model and record.model.block_hash != model.block_hash:
                    says = f"{which}was built by {record.model}, which embeds blocks differently from {model}."
                    errors.setdefault(one.name, says)
                if corpus and record.corpus_id != corpus.pk:
                    are = "are" if one.name.endswith("s") else "is"
                    errors.setdefault(one.name, f"{which}{are} of {record.corpus}, not of {corpus}.")
            if one.become_one and (says := _why_apart(given)):
                errors.setdefault(one.name, says)
        return errors


KINDS: Final[dict[str, Kind]] = {name: Kind(task) for name, task in JOBS.items()}


def _is_of(wrong: str, name: str) -> bool:
    """Whether an error is of the setting `name`, or of one key of it."""
    return wrong == name or wrong.startswith(f"{name}.")


def _why_apart(indexes: Sequence[IndexGeneration]) -> str:
    """Why several indexes cannot become one, as `realm_core.living.joining` would say it later; else nothing."""
    first, *others = indexes
    for place, index in enumerate(others, 1):
        if index.corpus.name in {one.corpus.name for one in indexes[:place]}:
            return f"names two of the corpus {index.corpus.name}; what came from which could not be told."
        if index.model.block_hash != first.model.block_hash:
            return f"{index} was built by {index.model}, which embeds blocks differently from {first.model}."
    return ""


def startable() -> list[Kind]:
    """The kinds that a person may start."""
    return [kind for kind in KINDS.values() if kind.by_hand]


def _paths(record: Any) -> Any:
    return tuple(map(_paths, record)) if isinstance(record, list) else resolve(record.path)
