"""Masked sentences over REST."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.filling import examples
from webapp.filling import service as filling
from webapp.filling.serializers import FillingSerializer, SentenceSerializer
from webapp.rest.base import AskingView, checked, problem_responses
from webapp.rest.throttle import AskThrottle


class FillView(AskingView):
    """Fill a masked sentence."""

    throttle_classes = [AskThrottle]

    @extend_schema(
        operation_id="fill",
        summary="Fill the masks of a sentence",
        description="What a pre-trained model predicts for each [MASK]: without retrieval (from the null block), "
        "from the best block, and from the null block and the k − 1 best blocks together. Nothing is stored. A model "
        "without an encoder of masked sentences fills a single gap with its reader, from the k − 1 best blocks: then "
        "no figure is without retrieval, `masks` is empty, and `filled_by` is `reader`.",
        request=SentenceSerializer,
        responses={200: FillingSerializer, **problem_responses(400, 403, 413, 415, 422, 429, 503)},
        examples=[
            OpenApiExample("Sentence", value=examples.SENTENCE, request_only=True),
            OpenApiExample("Filling", value=examples.FILLING, response_only=True, status_codes=["200"]),
        ],
    )
    def post(self, request: Request) -> Response:
        wanted = filling.checked(**checked(request, SentenceSerializer))
        return Response(filling.fill(wanted, asker=request.user).as_dict())
