"""The form that starts a job, generated from the kind in `webapp.kinds`.

The form only parses what a person typed; the service that starts jobs validates it, and its messages are shown beside
the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.db import models
from django.http import QueryDict
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.text import Truncator

from realm_core.errors import printable
from realm_core.settings import ANY, FILE, Setting
from webapp.jobs import service as jobs
from webapp.kinds import KINDS, Input, Kind, ParameterError
from webapp.models import (
    Deployment,
    Job,
    Purpose,
)
from webapp.sources.service import sources
from webapp.storage.places import sources_dir

_FEW: Final = 6  # up to so many settings are all shown at once
_MOST_DIGITS: Final = 18  # such a number fits into an id column, and into a setting
_UNREADABLE: Final = object()  # in the place of a value: every check refuses it, and none takes it for a default
_FROM_FEEDBACK: Final = "; feedback that was accepted is among them once a set was made of it, under Questions"
_QUOTED: Final = 80  # characters of a wrong line that are shown
# Settings that people often change, of a job and of a stage of one; the others are folded away. They are named here and
# not where they are declared: most are fields of several tasks, and a stage shows fewer of them than a job of the task.
_SHOWN_FIRST: Final = frozenset(
    "name source file corpus_name steps epochs batch learning_rate query_lr reader_lr head_lr pairs k refresh "
    "refresh_every retriever normalisation sample why leave_out_measured".split()
)
_SHOWN_FIRST_OF_STAGE: Final = frozenset("steps epochs batch k refresh_every".split())


class CountsField(forms.CharField):
    """Whole numbers by name, one per line: `plain-train = 2`."""

    widget = forms.Textarea

    def prepare_value(self, value: object) -> object:
        if isinstance(value, dict):
            return "\n".join(f"{name} = {count}" for name, count in value.items())
        return value

    def to_python(self, value: object) -> Any:
        counts = {}
        for line in str(value or "").splitlines():
            name, equals, count = (part.strip() for part in line.partition("="))
            if not line.strip():
                continue
            if not name or not equals or not _is_number(count):
                shown = Truncator(line.strip()).chars(_QUOTED)
                raise forms.ValidationError(f"“{shown}” is not NAME = NUMBER.")
            counts[name] = int(count)
        return counts


class RecordsField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # Django's has none at run time
    """Several records; invalid ids are refused before the query, because the database limits their size."""

    widget = forms.CheckboxSelectMultiple

    def clean(self, value: Any) -> Any:
        if any(not _is_number(str(one)) for one in value or ()):
            raise forms.ValidationError(self.error_messages["invalid_choice"])
        return super().clean(value)


@dataclass(frozen=True)
class SettingsGroup:
    """Settings of one section. often: shown at once; seldom: folded away.

    unfold: whether a folded setting is wrong, or differs from its default.
    """

    title: str
    often: list[forms.BoundField]
    seldom: list[forms.BoundField]
    unfold: bool


@dataclass(frozen=True)
class MissingRecords:
    """Records that a kind needs but that do not exist. page: where they are made."""

    what: str
    page: str
    how: str


class JobForm(forms.Form):
    """Records and settings of one kind of job."""

    def __init__(self, kind: Kind, data: QueryDict | None, initial: Mapping[str, Any]) -> None:
        super().__init__(data, initial=dict(initial))
        self.kind = kind
        self._inputs = {one.name for one in kind.inputs}
        for one in kind.inputs:
            self.fields[one.name] = _record_field(one)
        for setting in kind.described():
            self.fields[setting.name] = _setting_field(setting)
            self.initial.setdefault(setting.name, setting.default)
        # If there is one choice it is preselected.
        for one in kind.inputs:
            if one.required and one.name not in self.initial and one.choices().count() == 1:
                only = one.choices().values_list("pk", flat=True)[0]
                self.initial[one.name] = [only] if one.many else only

    def parameters(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, value in self.cleaned_data.items():
            if name not in self._inputs:
                given[name] = value
            elif isinstance(value, models.QuerySet):
                given[name] = [record.pk for record in value]
            else:
                given[name] = value.pk if value else None
        return given

    def refuse(self, error: ParameterError) -> None:
        """Show the errors beside fields that have none yet."""
        wrong = set(self.errors)
        for name, says in error.errors.items():
            if name not in wrong:
                self.add_error(name if name in self.fields else None, says[:1].upper() + says[1:])

    def refuse_the_rest(self) -> None:
        """Show the errors of the readable fields beside those of the others, so that all are mended at once."""
        unreadable = {name: _UNREADABLE for name in self.errors if name in self.fields}
        try:
            self.kind.read({**self.parameters(), **unreadable})
        except ParameterError as error:
            self.refuse(error)

    def records(self) -> list[forms.BoundField]:
        """Fields of the job's records."""
        return [self[one.name] for one in self.kind.inputs]

    def groups(self) -> list[SettingsGroup]:
        """Fields of the settings: of the job as a whole, and of each of its stages."""
        by_section: dict[str, list[Setting]] = {}
        for one in self.kind.described():
            by_section.setdefault(_section(one.name), []).append(one)
        return [self._group(section, settings) for section, settings in by_section.items()]

    def _group(self, section: str, settings: list[Setting]) -> SettingsGroup:
        shown_first = _SHOWN_FIRST_OF_STAGE if section else _SHOWN_FIRST
        often = [one for one in settings if len(settings) <= _FEW or _within(one.name) in shown_first]
        seldom = [one for one in settings if one not in often]
        return SettingsGroup(
            KINDS[section].title if section else "Settings",
            [self[one.name] for one in often],
            [self[one.name] for one in seldom],
            any(self[one.name].errors or self[one.name].initial != one.default for one in seldom),
        )

    def missing(self) -> list[MissingRecords]:
        """Records that must be made first."""
        return [_missing(one) for one in self.kind.inputs if one.required and not one.choices().exists()]


def starting_values(kind: Kind, job: Job | None, query: Mapping[str, str]) -> dict[str, Any]:
    """The form's initial values: an earlier job's parameters, or those in the address and the deployed records.

    If the address names a model, an index or a corpus, the other records are not preset.
    """
    names = {one.name for one in kind.inputs} | {one.name for one in kind.described()}
    values = {name: _typable(value) for name, value in (jobs.carried_over(job) if job else {}).items()}
    values |= {name: value for name, value in query.items() if name in names}
    if job is None and not values.keys() & {"index", "model", "corpus"}:
        values |= _deployed(kind)
    for one in kind.inputs:  # removed records are not offered
        value = values.get(one.name)
        ids = [pk for pk in (value if isinstance(value, list) else [value]) if _is_number(str(pk))]
        there = list(one.choices().filter(pk__in=ids).values_list("pk", flat=True))
        values[one.name] = there if one.many else (there[0] if there else None)
        if not there:
            del values[one.name]
    return values


def _deployed(kind: Kind) -> dict[str, Any]:
    """The active deployment's records that the kind needs; of optional ones the index, and a model that did not build
    it."""
    active = Deployment.active()
    if active is None:
        return {}
    records = {"index": active.index_id, "model": active.model_id, "corpus": active.index.corpus_id}
    wanted = {one.name for one in kind.inputs if one.required} | {"index"}
    if active.model_id != active.index.model_id:
        wanted.add("model")
    return {one.name: records[one.name] for one in kind.inputs if one.name in records.keys() & wanted}


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _typable(value: Any) -> Any:
    """A parameter for a form, its text made printable."""
    if isinstance(value, dict):
        return {printable(str(name)): count for name, count in value.items()}
    return printable(value) if isinstance(value, str) else value


def _record_field(one: Input) -> forms.Field:
    options: dict[str, Any] = {
        "queryset": one.choices(),
        "required": one.required,
        "label": _label(one.name),
        "help_text": one.help + (_FROM_FEEDBACK if one.limit_to.get("purpose") == Purpose.LEARN else ""),
        "error_messages": {"invalid_choice": "It is not there any more; choose another."},
    }
    if one.many:
        return RecordsField(**options)
    return forms.ModelChoiceField(empty_label="Choose …" if one.required else "None", **options)


def _setting_field(one: Setting) -> forms.Field:
    options: dict[str, Any] = {"label": _with_unit(_label(_within(one.name)), one), "help_text": _help_text(one)}
    if one.kind is bool:
        return forms.BooleanField(required=False, **options)
    if one.kind is dict:
        return CountsField(required=False, widget=forms.Textarea({"rows": 2}), **options)
    if one.limit == FILE:
        return _file_field(options)
    if one.kind is list:
        choices = [(choice, one.limit.called[choice]) for choice in one.limit.choices]
        widget = forms.CheckboxSelectMultiple
        return forms.MultipleChoiceField(choices=choices, required=False, widget=widget, **options)
    if one.limit.choices:
        return forms.ChoiceField(choices=[(choice, choice) for choice in one.limit.choices], **options)
    if one.kind is str:
        return forms.CharField(required=False, **options)
    field, step, shape = (forms.IntegerField, "1", ".0f") if one.kind is int else (forms.FloatField, "any", "g")
    edges = {"min": one.limit.low, "max": one.limit.high}
    bounds = {name: f"{edge:{shape}}" for name, edge in edges.items() if edge is not None}
    return field(widget=forms.NumberInput({"step": step, **bounds}), required=not one.optional, **options)


def _file_field(options: dict[str, Any]) -> forms.Field:
    """A choice of the files in the folder of sources."""
    there = sources()
    files = [(one.name, f"{one.name} ({filesizeformat(one.size_bytes)})") for one in there]
    if there:
        options["help_text"] = f"What lies in {sources_dir()}; none for a package."
    else:
        options["help_text"] = (
            f"Nothing lies in {sources_dir()} yet. To ingest a file, add it under Corpora › Files to ingest, or put it "
            "there, and open this page again; a package needs none."
        )
    gone = {"invalid_choice": "It is not there any more; choose another."}
    return forms.ChoiceField(choices=[("", "None"), *files], required=False, error_messages=gone, **options)


def _help_text(one: Setting) -> str:
    """A setting's help, limits and default."""
    says = [one.help]
    if one.limit != ANY and not one.limit.choices:
        says.append(one.limit.says)
    if one.kind is dict:
        says.append("a line each: name = number")
    elif one.kind is list:
        return one.help  # the choices are visible in the field
    elif one.default is not None and (one.kind is not str or one.limit.choices):
        says.append(f"default {_formatted(one.default)}")
    return " · ".join(says)


def _section(name: str) -> str:
    return name.rpartition(".")[0]


def _within(name: str) -> str:
    """A setting's name without its section."""
    return name.rpartition(".")[2]


def _label(name: str) -> str:
    section, within = _section(name), _within(name)
    within = re.sub(r"\blr\b", "learning rate", within.replace("_", " "))
    if section:
        return f"{section}: {within}"
    return within if len(within) == 1 else within.capitalize()


def _with_unit(label: str, one: Setting) -> str:
    return f"{label} ({one.unit_to_show})" if one.unit_to_show else label


def _missing(one: Input) -> MissingRecords:
    records = one.records
    if records.made_by is not None:
        address = reverse("manage-job-new", args=[records.made_by.value])
        return MissingRecords(records.what, address, KINDS[records.made_by].task.label())
    purpose = Purpose(str(one.limit_to["purpose"]))
    return MissingRecords(f"{records.what} {purpose.label}", reverse("manage-questions"), "upload one")


def differing(kind: Kind, parameters: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(name, value) of a job's settings: first the changed ones, then those with default values."""
    own: list[tuple[str, str]] = []
    default: list[tuple[str, str]] = []
    for one in kind.described():
        if one.name in parameters:
            value = parameters[one.name]
            label = _with_unit(_label(one.name), one)
            # Choices are called as in the form.
            shown = [one.limit.called.get(it, it) for it in value] if isinstance(value, list) else value
            (default if value == one.default else own).append((label, _formatted(shown)))
    return own, default


def _formatted(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    if isinstance(value, dict):
        return json.dumps(value) if value else "–"
    if isinstance(value, list):
        return ", ".join(map(printable, map(str, value)))
    return printable(str(value)) if value not in ("", None) else "–"
