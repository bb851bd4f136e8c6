"""Explanations of wrong answers, over REST."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.collections import access_of
from webapp.asking.history import readable_answer
from webapp.explaining import examples
from webapp.explaining import service as why
from webapp.explaining.serializers import RightAnswerSerializer, WhySerializer
from webapp.rest.authentication import MayExplain
from webapp.rest.base import PublicView
from webapp.rest.operation import given, operation, sent
from webapp.rest.throttle import AskThrottle


class WhyView(PublicView):
    """Why a kept answer is wrong, for signed-in callers who know the right one."""

    permission_classes = [MayExplain]
    throttle_classes = [AskThrottle]

    @operation(
        "why",
        "Why an answer is wrong",
        "Given the right answer, says where it was lost: not in the corpus, not retrieved, misread, "
        "outweighed, withheld. Nothing is stored. Ranks are known as long as the model and the index of the answer "
        "are deployed. They are those of today's corpus; `detail` says where documents changed since the answer. "
        "Whether a block holds the right answer is said of the corpus as it was, or, where that is not kept, as it is "
        "today.",
        takes=RightAnswerSerializer,
        gives=WhySerializer,
        problems=[429],
        examples=[sent("The right answer", {"answer": "Arthur C. Clarke"}), given("Why", examples.WHY)],
    )
    def post(self, request: Request, answer_id: UUID, body: dict[str, Any]) -> Response:
        asked = readable_answer(request, answer_id, "deployment__index__corpus")
        explained = why.explain(asked, body["answer"], access_of(request.user))
        return Response({"detail": explained.detail, **asdict(explained.why)})
