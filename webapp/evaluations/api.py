"""The questions of an evaluation, over REST. `artefacts/api.py` lists evaluations."""

from __future__ import annotations

from typing import Final

from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from realm_core.errors import RealmError
from webapp.evaluations import examples
from webapp.evaluations.outcomes import ALL_CAUSES, QuestionOutcome, outcomes
from webapp.evaluations.serializers import PredictionSerializer
from webapp.models import Evaluation
from webapp.refusals import FieldError, InvalidRequest, Missing
from webapp.rest.base import OperatorView
from webapp.rest.lists import PAGING, offset_in, offset_links, page_example, page_response
from webapp.rest.operation import operation
from webapp.rest.parameters import ListFilter, by_word

_OUTCOME: Final = by_word("outcome", list(QuestionOutcome))
_CAUSE: Final = by_word("cause", ALL_CAUSES)


def _word(request: Request, one: ListFilter) -> str | None:
    """The value of a filter, if it was sent."""
    wanted = request.query_params.get(one.name)
    try:
        return None if wanted is None else str(one.read(wanted))
    except ValueError as error:
        raise InvalidRequest(FieldError(one.name, str(error))) from None


class PredictionsView(OperatorView):
    """The questions of one evaluation."""

    @operation(
        "predictions",
        "List the questions of an evaluation",
        "What was said, what is right, and whether it was given, in the order in which they were asked.",
        parameters=[*PAGING, _OUTCOME.parameter, _CAUSE.parameter],
        gives=page_response("PredictionPage", PredictionSerializer),
        examples=[page_example("Questions", examples.PREDICTION, "evaluations/7/predictions")],
    )
    def get(self, request: Request, record_id: int) -> Response:
        evaluation = get_object_or_404(Evaluation, pk=record_id)
        start, size = offset_in(request)
        outcome, cause = _word(request, _OUTCOME), _word(request, _CAUSE)
        try:
            found = outcomes(evaluation).of(QuestionOutcome(outcome) if outcome else None, cause)
        except (RealmError, OSError) as error:
            raise Missing(str(error)) from None
        links = offset_links(request, start, size, len(found))
        return Response({**links, "results": PredictionSerializer(found[start : start + size], many=True).data})
