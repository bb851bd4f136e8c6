"""Masked sentences over REST."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.filling import examples
from webapp.filling import service as filling
from webapp.filling.serializers import FillingSerializer, SentenceSerializer
from webapp.rest.base import AskingView
from webapp.rest.operation import given, operation, sent
from webapp.rest.throttle import AskThrottle


class FillView(AskingView):
    throttle_classes = [AskThrottle]

    @operation(
        "fill",
        "Fill the masks of a sentence",
        "What a pre-trained model predicts for each [MASK]: without retrieval (from the null block), "
        "from the best block, and from the null block and the k − 1 best blocks together. Nothing is stored. A model "
        "without an encoder of masked sentences fills a single gap with its reader, from the k − 1 best blocks: then "
        "no figure is without retrieval, `masks` is empty, and `filled_by` is `reader`.",
        takes=SentenceSerializer,
        gives=FillingSerializer,
        problems=[422, 429],
        examples=[sent("Sentence", examples.SENTENCE), given("Filling", examples.FILLING)],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        return Response(filling.fill(filling.checked(**body), asker=request.user).as_dict())
