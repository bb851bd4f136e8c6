"""The command line of a task and its settings in TOML, both generated from the task's declaration.

    parser ── add_options ──▶ arguments ── task_of ──▶ Task ── argv ──▶ the same arguments for another process

A task's own `settings` come from `--config FILE.toml` and `--set KEY=VALUE`; every other field is an option.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from realm_core.errors import RealmError, quoted
from realm_core.files import read_text
from realm_core.settings import ANY, SettingError, Settings, bare_type, describe, extra, flat, make, section_of
from realm_core.task import Task, artefact_of

T = TypeVar("T", bound=Settings)
AnyTask = TypeVar("AnyTask", bound=Task)

_LONGEST_TOML = 1 << 15  # characters; tomllib's time grows with the square of the number of parts of a dotted key


def add_options(parser: argparse.ArgumentParser, task: type[Task], *, without: Collection[str] = ()) -> None:
    """The options of a task. without: fields that the caller sets."""
    for name, info in task.model_fields.items():
        if section := section_of(info):
            parser.formatter_class = argparse.RawDescriptionHelpFormatter
            parser.epilog = f"settings and their defaults:\n{explain(section)}"  # argparse unescapes no %% in an epilog
            parser.add_argument("--config", type=Path, help="TOML file of settings")
            parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
        elif extra(info).get("flag") != "" and name not in without:
            _add_option(parser, name, info)


def task_of(task: type[AnyTask], arguments: argparse.Namespace) -> AnyTask:
    """The task that a command line describes; RealmError, which names the option, for errors."""
    options = vars(arguments)
    values: dict[str, Any] = {}
    for name, info in task.model_fields.items():
        if section := section_of(info):
            values[name] = read_settings(section, options["config"], options["set"])
        elif name in options:
            values[name] = tuple(options[name]) if get_origin(info.annotation) is tuple else options[name]
    try:
        made = make(task, values)
    except SettingError as error:
        wrong = task.model_fields.get(error.name)
        name = error.name if wrong is None or extra(wrong).get("positional") else _flag(error.name, wrong)
        raise RealmError(f"{name} {error.says}") from None
    for name, why in made.unused().items():
        if name in options:
            raise RealmError(f"{_flag(name, task.model_fields[name])} {why}.")
    return made


def argv(task: Task) -> list[str]:
    """The arguments of `python -m realm_core` for this task, with every given setting."""
    words, unused = [task.activity or task.kind], task.unused()
    places: list[str] = []
    for name, info in type(task).model_fields.items():
        value = getattr(task, name)
        if isinstance(value, Settings):
            words += [f"--set={key}={in_toml(one)}" for key, one in flat(value).items() if one is not None]
        elif name in unused or extra(info).get("flag") == "":
            continue
        elif name not in task.model_fields_set or value in (None, ""):
            continue  # the other process has the same default
        elif extra(info).get("positional"):
            places += map(str, value) if isinstance(value, tuple) else [str(value)]
        elif isinstance(value, bool):
            words += [_flag(name, info)] if value is not info.default else []
        elif isinstance(value, tuple | list):
            words += [_flag(name, info), *map(str, value)] if value else []
        else:
            words.append(f"{_flag(name, info)}={value}")
    return [words[0], *places, *words[1:]]


def _add_option(parser: argparse.ArgumentParser, name: str, info: FieldInfo) -> None:
    kind, _optional, _metadata = bare_type(info)
    options: dict[str, Any] = {"help": _help(kind, info).replace("%", "%%"), "default": argparse.SUPPRESS}
    if get_origin(kind) in (tuple, list):
        options["nargs"] = "+" if info.is_required() or get_origin(kind) is list else "*"
        kind = get_args(kind)[0]
        while hasattr(kind, "__metadata__"):
            kind = get_args(kind)[0]
    if kind is bool:
        options["action"] = argparse.BooleanOptionalAction if info.default else "store_true"
    elif get_origin(kind) is Literal:
        options["choices"] = get_args(kind)
    else:
        options["type"] = kind
        if unit := extra(info).get("unit"):
            options["metavar"] = unit.upper()
    if extra(info).get("positional"):
        del options["default"]
        parser.add_argument(name, **options)
    else:
        # An action for both --NAME and --no-NAME is given the first.
        flag = _flag(name, info).replace("--no-", "--", 1) if info.default is True else _flag(name, info)
        parser.add_argument(flag, dest=name, required=info.is_required(), **options)


def _help(kind: Any, info: FieldInfo) -> str:
    help = str(info.description)
    if artefact := artefact_of(info.annotation, info):
        found = extra(info).get("found")
        return f"{help}: {artefact.file}" + (f" (default: found {found})" if found else "")
    if info.default is True:
        return f"{help} (default)"
    counts = kind in (int, float) or get_origin(kind) is Literal
    return help if info.is_required() or info.default is None or not counts else f"{help} (default {info.default})"


def _flag(name: str, info: FieldInfo) -> str:
    word = name.replace("_", "-")
    return extra(info).get("flag") or (f"--no-{word}" if info.default is True else f"--{word}")


# ---- settings in TOML


def read_settings(kind: type[T], path: Path | None, overrides: Sequence[str] = ()) -> T:
    """Settings of `kind` from a TOML file (None: defaults) and `key=value` overrides (values in TOML's notation).

    Raises RealmError for a file that cannot be read, and as `make` does; a key of a section is SECTION.KEY.
    """
    values: dict[str, Any] = {} if path is None else read_toml(path)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise RealmError(f"{quoted(override)} is not an override; write KEY=VALUE.")
        section, _, name = key.strip().rpartition(".")
        try:
            parsed = parse_toml(f"value = {value}")["value"]
        except RealmError:
            raise RealmError(f"{quoted(override)}: {quoted(value)} is not a TOML value (texts need quotes).") from None
        own = values.setdefault(section, {}) if section else values
        if not isinstance(own, dict):
            raise SettingError(section, f"must be a table of settings, not {quoted(own)}.")
        own[name] = parsed
    return make(kind, values)


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file, or a RealmError with its error."""
    text = read_text(path)
    try:
        return parse_toml(text)
    except RealmError as error:
        raise RealmError(f"{path} {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text, or a RealmError that starts with "is not valid TOML"."""
    if len(text) > _LONGEST_TOML:
        raise RealmError(f"is not valid TOML: it is longer than {_LONGEST_TOML:,} characters.")
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for numbers with thousands of digits, which Python refuses
        raise RealmError(f"is not valid TOML: {str(error).rstrip('.')}.") from None
    except RecursionError:
        raise RealmError("is not valid TOML: its lists or tables are nested too deeply.") from None


def in_toml(value: Any) -> str:
    """A setting in TOML's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{in_toml(key)} = {in_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")  # JSON's notation except for DEL
    return repr(value)


def explain(kind: type[Settings]) -> str:
    """A line for each setting: its default with its unit, help and limits."""
    return "\n".join(_explained(kind))


def _explained(kind: type[Settings]) -> Iterator[str]:
    for one in describe(kind):
        unit = f" {one.unit_to_show}" if one.unit_to_show else ""
        default = "" if one.default is None else f" = {in_toml(one.default)}{unit}"
        limit = "" if one.limit is ANY else f" ({one.limit.says})"
        yield f"  {one.name}{default}: {one.help}{limit}"
