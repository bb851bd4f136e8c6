"""What a kind of job needs: records that it works on, and settings.

Everything that knows the parameters of jobs knows them from here: the forms, the REST API and its schema, the page of a
job, and the workers' command lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import models

from realm_core.errors import RealmError
from realm_core.settings import Setting, SettingError, Settings, check_alone, describe, make, printable, quoted
from webapp.models import Job, JobKind, Queue


class ParameterError(RealmError):
    """Parameters are wrong. errors: what is, by the parameter's name ("" for what concerns several)."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(" ".join(f"{name}: {says}" if name else says for name, says in errors.items()))
        self.errors = dict(errors)


@dataclass(frozen=True)
class Input:
    """Records that a job works on, given by their ids.

    record:   what they are.
    help:     what they are for, without a capital and without a full stop.
    many:     a list of them, at least one. required: whether it may be left out.
    limit_to: a filter, as `QuerySet.filter` takes it.
    """

    name: str
    record: type[models.Model]
    help: str
    many: bool = False
    required: bool = True
    limit_to: Mapping[str, object] = field(default_factory=dict)

    def choices(self) -> models.QuerySet[Any]:
        """The records that may be given."""
        return self.record._default_manager.filter(**self.limit_to)

    def find(self, value: object) -> Any:
        """The record of an id (of a list of ids, those records; None for none), or a SettingError."""
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
            says = f"names no {self.record._meta.verbose_name} that can be used: {quoted(key)}."
            raise SettingError(self.name, says)
        return found

    def _id(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise SettingError(self.name, f"must be an id, not {quoted(value)}.")
        return value


@dataclass(frozen=True)
class Given:
    """Parameters that were read: the records, and the settings of each class."""

    records: Mapping[str, Any]
    settings: Mapping[type[Settings], Any]

    def __getitem__(self, name: str) -> Any:
        return self.records[name]


@dataclass(frozen=True)
class Kind:
    """One kind of job.

    about:    what it does, a sentence or two for whoever starts one.
    settings: classes whose settings it has; their names do not overlap.
    sections: the same for each of its stages, which are jobs of other kinds: a setting is called KIND.SETTING then.
    check:    raises ParameterError where records and settings do not fit together.
    by_hand:  whether a person may start one (a part of another job is started by that job).
    """

    kind: JobKind
    title: str
    about: str
    queue: Queue
    inputs: tuple[Input, ...] = ()
    settings: tuple[type[Settings], ...] = ()
    sections: Mapping[str, type[Settings]] = field(default_factory=dict)
    check: Callable[[Given], None] = lambda _given: None
    by_hand: bool = True

    def described(self) -> Iterator[Setting]:
        """All its settings, in order."""
        for prefix, kind in self._classes():
            yield from (replace(one, name=prefix + one.name) for one in describe(kind))

    def read(self, parameters: Mapping[str, Any]) -> Given:
        """Records and settings from parameters as JSON has them; settings that are left out have their defaults.

        Raises ParameterError, which names every parameter that is wrong.
        """
        errors: dict[str, str] = {}
        records, values = {}, dict(parameters)
        for one in self.inputs:
            try:
                records[one.name] = one.find(values.pop(one.name, None))
            except SettingError as error:
                errors[error.name] = error.says
        made: dict[type[Settings], Any] = {}
        for prefix, kind in self._classes():
            own = {one.name: values.pop(prefix + one.name) for one in describe(kind) if prefix + one.name in values}
            for name, value in own.items():  # each alone first, so that all that are wrong are named
                try:
                    check_alone(kind, name, value)
                except SettingError as error:
                    errors[prefix + error.name] = error.says
            if not errors:
                try:
                    made[kind] = make(kind, own)
                except SettingError as error:
                    errors[prefix + error.name] = error.says
        for name in values:
            errors[printable(name)] = "is no parameter of this kind of job."
        if errors:
            raise ParameterError(errors)
        given = Given(records, made)
        self.check(given)
        return given

    def written(self, given: Given) -> dict[str, Any]:
        """The parameters as a job's row keeps them: every setting with its value."""
        parameters: dict[str, Any] = {}
        for one in self.inputs:
            record = given[one.name]
            parameters[one.name] = [each.pk for each in record] if one.many else record and record.pk
        for prefix, kind in self._classes():
            settings = given.settings[kind]
            parameters |= {prefix + one.name: getattr(settings, one.name) for one in describe(kind)}
        return parameters

    def of(self, job: Job) -> Given:
        """The parameters of a job; ParameterError where a record has gone."""
        return self.read(job.parameters)

    def _classes(self) -> Iterator[tuple[str, type[Settings]]]:
        """(what stands before their names, settings)."""
        yield from (("", kind) for kind in self.settings)
        yield from ((f"{name}.", kind) for name, kind in self.sections.items())
