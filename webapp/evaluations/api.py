"""The questions of an evaluation, over REST. `artefacts/api.py` lists evaluations."""

from __future__ import annotations

from typing import Any, Final

from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from realm_core.errors import RealmError
from webapp.evaluations.outcomes import ALL_CAUSES, QuestionOutcome, outcomes
from webapp.evaluations.serializers import PredictionSerializer
from webapp.models import Evaluation
from webapp.refusals import Missing
from webapp.rest.base import OperatorView
from webapp.rest.lists import PAGING, offset_in, offset_links, page_example, page_response
from webapp.rest.operation import operation
from webapp.rest.parameters import by_word, value_of

_PREDICTION: Final[dict[str, Any]] = {
    "number": 3,
    "outcome": "wrong",
    "question": "Who wrote the screenplay of 2001: A Space Odyssey?",
    "answers": ["Arthur C. Clarke", "Stanley Kubrick"],
    "prediction": "1968",
    "given": False,
    "probability": 0.12,
    "no_answer_probability": 0.61,
    "confidence": 0.08,
    "answer_rank": 1,
    "blocks": ["2001: A Space Odyssey", "HAL 9000"],
    "cause": "misread",
}
_OUTCOME: Final = by_word("outcome", list(QuestionOutcome))
_CAUSE: Final = by_word("cause", ALL_CAUSES)


class PredictionsView(OperatorView):
    """The questions of one evaluation."""

    @operation(
        "predictions",
        "List the questions of an evaluation",
        "What was said, what is right, and whether it was given, in the order in which they were asked.",
        parameters=[*PAGING, _OUTCOME.parameter, _CAUSE.parameter],
        gives=page_response("PredictionPage", PredictionSerializer),
        examples=[page_example("Questions", _PREDICTION, "evaluations/7/predictions")],
    )
    def get(self, request: Request, record_id: int) -> Response:
        evaluation = get_object_or_404(Evaluation, pk=record_id)
        start, size = offset_in(request)
        outcome, cause = value_of(request, _OUTCOME), value_of(request, _CAUSE)
        try:
            found = outcomes(evaluation).of(QuestionOutcome(outcome) if outcome else None, cause)
        except (RealmError, OSError) as error:
            raise Missing(str(error)) from None
        links = offset_links(request, start, size, len(found))
        return Response({**links, "results": PredictionSerializer(found[start : start + size], many=True).data})
