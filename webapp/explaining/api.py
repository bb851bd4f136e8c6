"""Explanations of wrong answers, over REST."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.collections import access_of
from webapp.asking.examples import ANSWER
from webapp.asking.history import readable_answer
from webapp.explaining import service as why
from webapp.explaining.serializers import RightAnswerSerializer, WhySerializer
from webapp.rest.authentication import MayExplain
from webapp.rest.base import PublicView
from webapp.rest.operation import given, operation, sent
from webapp.rest.throttle import AskThrottle

_WHY: Final[dict[str, Any]] = {
    "cause": "outweighed",
    "detail": "Block 2 (Arthur C. Clarke) says “Arthur C. Clarke”, which has 19.0\N{NO-BREAK SPACE}% over all blocks; "
    "“Stanley Kubrick” outweighs it with 52.0\N{NO-BREAK SPACE}%, most of it from block 1 (2001: A Space Odyssey).",
    "chosen": {
        "text": "Stanley Kubrick",
        "probability": 0.52,
        "block_id": ANSWER["evidence"][0]["block_id"],
        "title": "2001: A Space Odyssey",
    },
    "right": {
        "text": "Arthur C. Clarke",
        "probability": 0.19,
        "block_id": "2f1e0d9c8b7a69584736251403f2e1d0",
        "title": "Arthur C. Clarke",
    },
    "no_answer_probability": None,
    "rank": None,
    "looked_at": None,
}


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
        examples=[sent("The right answer", {"answer": "Arthur C. Clarke"}), given("Why", _WHY)],
    )
    def post(self, request: Request, answer_id: UUID, body: dict[str, Any]) -> Response:
        asked = readable_answer(request, answer_id, "deployment__index__corpus")
        explained = why.explain(asked, body["answer"], access_of(request.user))
        return Response({"detail": explained.detail, **asdict(explained.why)})
