"""Kept answers over REST: the caller's own, and any by its address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.fields import DateTimeField
from rest_framework.request import Request
from rest_framework.response import Response

from realm_core.text.language import foreign_language
from webapp.asking import examples
from webapp.asking import service as asking
from webapp.asking.history import listed_answers, readable_answer
from webapp.asking.serializers import AnswerSerializer, ListedAnswerSerializer
from webapp.models import AskedAnswer, Deployment, GoneBlock, IndexGeneration
from webapp.rest.base import UNCHANGED, UNLESS, AskingView, CachedView
from webapp.rest.lists import RecordList
from webapp.rest.operation import given, operation
from webapp.rest.parameters import by_id, by_time, by_truth
from webapp.serving import rights
from webapp.serving.living import answering_view, foreign_language_of

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView

_LIST: Final = RecordList(
    filters=(
        by_id("deployment", Deployment),
        by_truth("answered", "answer_text__isnull", "Whether an answer was found.", inverted=True),
        by_truth(
            "evidence_changed", "evidence_changed", "Whether blocks of its evidence were changed or removed since."
        ),
        *by_time(),
    ),
    orders=("created_at", "latency_ms"),
    address="answers",
    kind=ListedAnswerSerializer,
    example=examples.LISTED_ANSWER,
    page_name="AnswerPage",
)
_time: Final = DateTimeField().to_representation  # as records have it


def answer_json(asked: AskedAnswer, without: list[str] | None = None) -> dict[str, Any]:
    """The answer object of API and command line: as stored, or recomputed `without` some blocks."""
    reading = asking.without(asked, without).as_dict() if without else asked.reading
    view = answering_view()
    evidence = with_rights(reading["evidence"], asked.deployment.index, view)
    return {
        "id": str(asked.pk),
        "created_at": _time(asked.created_at),
        "without": without or [],
        "collections": asked.collections,
        "filters": asked.filters,
        "evidence_gone": [
            {"block_id": block_id, "kind": change.kind, "at": _time(change.at)}
            for block_id, change in sorted(GoneBlock.in_evidence(asked).items())
        ],
        "purged_at": None if asked.purged_at is None else _time(asked.purged_at),
        "question_language": foreign_language(asked.question),
        "passage_language": _passage_language(reading, view),
        "corpus_share": asked.deployment.index.corpus.share,
        # The time of rendering is known only afterwards, and this response must not change later.
        "serving_ms": {stage: spent_ms for stage, spent_ms in asked.serving_ms.items() if stage != "render"},
        **reading,
        "evidence": evidence,
    }


def with_rights(
    passages: Sequence[Mapping[str, Any]], index: IndexGeneration, view: CorpusView | None
) -> list[dict[str, Any]]:
    """Blocks as they are told, each with its licence and attribution. index: of what answered."""
    found = rights.of_passages(passages, index, view)
    return [{**one, **asdict(found[one["block_id"]])} for one in passages]


def _passage_language(reading: Mapping[str, Any], view: CorpusView | None) -> str | None:
    """The code of the language of the best passage with the answer, where the models do not know it."""
    if reading["answer"] is None:
        return None
    best = next(one["block_id"] for one in reading["evidence"] if one["start"] is not None)
    return foreign_language_of(best, view)


class AnswersView(AskingView):
    @_LIST.operation(
        "answers", "List one's own answers", "Those of the account or, without one, of the cookie's session."
    )
    def get(self, request: Request) -> QuerySet[AskedAnswer]:
        return listed_answers(request)


class AnswerView(CachedView):
    @operation(
        "answer",
        "A kept answer",
        "The answer never changes; `evidence_gone` lists the blocks that are no longer searched, "
        "`purged_at` says when passages were purged from it. With `without`, the answer as if those blocks had not "
        "been read: priors renormalised and everything recomputed in closed form; the kept answer does not change.",
        parameters=[
            OpenApiParameter(
                "without", OpenApiTypes.STR, many=True, description="Id of a block of the evidence to leave out."
            ),
            UNLESS,
        ],
        gives={200: AnswerSerializer, **UNCHANGED},
        examples=[given("Answer", examples.ANSWER)],
    )
    def get(self, request: Request, answer_id: UUID) -> Response:
        asked = readable_answer(request, answer_id, "deployment__index__corpus")
        return Response(answer_json(asked, list(dict.fromkeys(request.query_params.getlist("without")))))
