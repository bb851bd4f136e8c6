"""The questions of an evaluation, over REST. `artefacts/api.py` lists evaluations."""

from __future__ import annotations

from typing import Final

from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from realm_core.errors import RealmError
from webapp.evaluations import examples
from webapp.evaluations.outcomes import QuestionOutcome, outcomes
from webapp.evaluations.serializers import PredictionSerializer
from webapp.models import Evaluation
from webapp.refusals import FieldError, InvalidRequest, Missing
from webapp.rest.base import OperatorView
from webapp.rest.lists import PAGING, offset_in, offset_links, page_example, page_response
from webapp.rest.operation import operation
from webapp.rest.parameters import by_word

_OUTCOME: Final = by_word("outcome", list(QuestionOutcome))


class PredictionsView(OperatorView):
    """The questions of one evaluation."""

    @operation(
        "predictions",
        "List the questions of an evaluation",
        "What was said, what is right, and whether it was given, in the order in which they were asked.",
        parameters=[*PAGING, _OUTCOME.parameter],
        gives=page_response("PredictionPage", PredictionSerializer),
        examples=[page_example("Questions", examples.PREDICTION, "evaluations/7/predictions")],
    )
    def get(self, request: Request, record_id: int) -> Response:
        evaluation = get_object_or_404(Evaluation, pk=record_id)
        start, size = offset_in(request)
        wanted = request.query_params.get(_OUTCOME.name)
        try:
            show = None if wanted is None else QuestionOutcome(_OUTCOME.read(wanted))
        except ValueError as error:
            raise InvalidRequest(FieldError(_OUTCOME.name, str(error))) from None
        try:
            found = outcomes(evaluation).of(show)
        except (RealmError, OSError) as error:
            raise Missing(str(error)) from None
        links = offset_links(request, start, size, len(found))
        return Response({**links, "results": PredictionSerializer(found[start : start + size], many=True).data})
