"""A calibration is refused before it starts if its questions cannot show when to be silent, and an ablation if some
that it is measured by have no answer.

Importing this module registers it for the jobs that people start, by page and by REST alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from realm_core.questions.question_file import read_questions
from webapp.jobs.service import PREPARATIONS
from webapp.kinds import ParameterError
from webapp.models import JobKind, QuestionSet
from webapp.storage.places import resolve


def _prepare(parameters: Mapping[str, Any], _by: User) -> None:
    """ParameterError unless some of the questions have answers and some have none."""
    answerable = _answerable(parameters["questions"])
    if answerable != {True, False}:
        lacking = "without an answer (`[]`)" if answerable == {True} else "with answers"
        raise ParameterError(
            {"questions": f"must have some {lacking}, too: silence is weighed against right answers. Add such a set."}
        )


def _prepare_ablation(parameters: Mapping[str, Any], _by: User) -> None:
    """ParameterError unless all questions that its rows are measured by have answers."""
    if False in _answerable(parameters["dev"]):
        raise ParameterError({"dev": "must have an answer to each question: an ablation measures no silence."})


def _answerable(sets: list[int]) -> set[bool]:
    """Whether there are questions with answers, and without."""
    found = QuestionSet.objects.filter(pk__in=sets)
    return {bool(one.answers) for each in found for one in read_questions(resolve(each.path), answerable=None)}


PREPARATIONS[JobKind.CALIBRATE] = _prepare
PREPARATIONS[JobKind.ABLATE] = _prepare_ablation
