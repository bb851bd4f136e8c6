"""A number that is set says of what it is: it has a unit, or is one of the pure numbers listed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from realm_core.settings import Settings, bare_type, extra, section_of
from realm_core.task import Task
from realm_core.tasks import TASKS

PURE: Final = frozenset(
    (
        *("seed", "shard"),  # numbers that name something
        *("dimension", "low_rank", "rank"),  # of vectors and matrices
        *("scale", "score_scale", "lexical_weight", "weight_decay", "pairs", "teacher_share", "clip"),  # factors, norms
        *("learning_rate", "query_lr", "dense_lr", "reader_lr", "head_lr"),
        *("warmup", "dropout", "holdout", "keep_sentence", "mask_share", "casual", "allowed", "shares"),  # shares
        *("agreement", "min_probability", "not_here", "same_article", "false_premise"),  # probabilities
    )
)


def numbers(kind: type[Settings]) -> Iterator[tuple[str, FieldInfo]]:
    """The fields of a number, or of several, in sections too. Numbers by name say in their help of what they are."""
    for name, info in kind.model_fields.items():
        if section := section_of(info):
            yield from numbers(section)
        elif _number(bare_type(info)[0]):
            yield name, info


def _number(type_: Any) -> bool:
    of = get_args(type_)[0] if get_origin(type_) in (tuple, list) else type_
    return (get_args(of)[0] if hasattr(of, "__metadata__") else of) in (int, float)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.activity or task.kind)
def test_every_number_has_a_unit_or_is_pure(task: type[Task]) -> None:
    for name, info in numbers(task):
        unit = extra(info)["unit"]
        assert bool(unit) != (name in PURE), f"{name}: {info.description}"
        assert unit != str(info.description).split()[0], f"{name} says its unit twice: {unit} {info.description}"


def test_no_pure_number_is_listed_that_is_gone() -> None:
    assert {name for task in TASKS for name, info in numbers(task)} >= PURE
