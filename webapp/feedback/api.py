"""Feedback over REST: the caller's own feedback on a kept answer."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.http import Http404
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from webapp.asking.history import asker_of, readable_answer
from webapp.feedback import service as feedback
from webapp.feedback.service import LONGEST_ANSWER
from webapp.models import Feedback, Review
from webapp.rest.authentication import MayGiveFeedback
from webapp.rest.base import PublicView
from webapp.rest.operation import given, operation, sent
from webapp.rest.serializers import StrictBooleanField, StrictCharField, StrictSerializer
from webapp.rest.throttle import AskThrottle

_SAID: Final = {
    "right": False,
    "block_id": "0f6c3d9c4be1f2a35c6e0d7a8b91e2c4",
    "better_answer": "Stanley Kubrick",
}
_KEPT: Final = _SAID | {
    "answer": "4f5e3c1a-0d2b-4c8e-9a67-1b2c3d4e5f60",
    "review": "waiting",
    "changed_at": "2026-01-31T12:00:00.000000Z",
}


class SaidSerializer(StrictSerializer):
    """The caller's feedback; at least one of the three fields. Omitted fields count as not said."""

    right = StrictBooleanField(allow_null=True, default=None, help_text="Whether the answer is right.")
    block_id = StrictCharField(
        default="",
        allow_blank=True,
        help_text="The block with the right evidence: one that was read, or another of the same corpus.",
    )
    better_answer = StrictCharField(
        default="",
        allow_blank=True,
        trim_whitespace=False,
        help_text=f"The right answer: at most {LONGEST_ANSWER} characters.",
    )


class FeedbackSerializer(serializers.ModelSerializer[Feedback]):
    """The caller's feedback, and whether a curator has accepted it."""

    review = serializers.ChoiceField(Review.choices, read_only=True)

    class Meta:
        model = Feedback
        fields = ["answer", "right", "block_id", "better_answer", "review", "changed_at"]
        read_only_fields = fields


class FeedbackView(PublicView):
    permission_classes = [AllowAny, MayGiveFeedback]

    def get_throttles(self) -> list[BaseThrottle]:
        """Writing counts for the rate limit, together with questions."""
        return [AskThrottle()] if self.request.method == "POST" else []

    @operation(
        "feedback",
        "Read one's own feedback on an answer",
        "404 if there is none.",
        gives=FeedbackSerializer,
        examples=[given("Feedback", _KEPT)],
    )
    def get(self, request: Request, answer_id: UUID) -> Response:
        said = asker_of(request).feedback_on(readable_answer(request, answer_id))
        if said is None:
            raise Http404
        return Response(FeedbackSerializer(said).data)

    @operation(
        "giveFeedback",
        "Give feedback on an answer",
        "Replaces earlier feedback. An account has one feedback per answer; without an account, "
        "the session of the cookie has. A curator decides whether it is trained on; changing it lets it "
        "wait anew.",
        takes=SaidSerializer,
        gives={200: FeedbackSerializer, 201: FeedbackSerializer},
        problems=[429],
        examples=[sent("Wrong, and what is right", _SAID), given("Feedback", _KEPT, 201)],
    )
    def post(self, request: Request, answer_id: UUID, body: dict[str, Any]) -> Response:
        answer = readable_answer(request, answer_id)
        said, first = feedback.give_feedback(asker_of(request, create=True), answer, **body)
        return Response(FeedbackSerializer(said).data, status=201 if first else 200)

    @operation(
        "takeFeedbackBack",
        "Delete one's own feedback on an answer",
        "404 if there is none.",
        gives=None,
    )
    def delete(self, request: Request, answer_id: UUID) -> Response:
        if not feedback.withdraw(asker_of(request), readable_answer(request, answer_id)):
            raise Http404
        return Response(status=204)
