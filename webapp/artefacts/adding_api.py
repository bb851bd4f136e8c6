"""What a client may add to the lists of records over REST: a model that comes with the source, a question set."""

from __future__ import annotations

from typing import Any

from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.artefacts import examples, shipped
from webapp.artefacts import serializers as shown
from webapp.models import QuestionSet
from webapp.questions import service as questions
from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.base import OperatorView
from webapp.rest.operation import FORM, given, operation, sent


class AddingModels(OperatorView):
    @operation(
        "add_model",
        "Add a model that comes with the source",
        "The first run adds one of them. 200: it was there already; 400: there is none of that name, and "
        "`errors` has those that there are.",
        takes=shown.NewModelSerializer,
        gives={200: shown.ModelDetailSerializer, 201: shown.ModelDetailSerializer},
        problems=[422],
        examples=[
            sent("The smaller one", {"shipped": "realm-mini"}),
            given("Model", {**examples.MODEL, **examples.MODEL_MORE}, 200, 201),
        ],
    )
    def post(self, _request: Request, body: dict[str, Any]) -> Response:
        if body["shipped"] not in (names := shipped.shipped_models()):
            raise InvalidRequest(FieldError("shipped", f"Must be one of {', '.join(names)}."))
        model, new = shipped.record_shipped(body["shipped"], by=self.operator)
        return self.made(shown.ModelDetailSerializer, model, "api-model", new=new)


class AddingQuestionSets(OperatorView):
    parser_classes = [MultiPartParser]

    @operation(
        "add_question_set",
        "Add a question set",
        "From a file: JSON lines, a question each, or a table. It is read whole, and refused (422) with the line that "
        "is wrong, or the question that is in a set of the other purpose. 200: it was there already.",
        takes={FORM: shown.NewQuestionSetSerializer},
        gives={200: shown.QuestionSetSerializer, 201: shown.QuestionSetSerializer},
        problems=[422, 507],
        examples=[given("Question set", examples.QUESTION_SET, 200, 201)],
    )
    def post(self, _request: Request, body: dict[str, Any]) -> Response:
        file, purpose = body["file"], body["purpose"]
        name = body["name"] or questions.name_after(file.name)
        new = not QuestionSet.objects.filter(name=name).exists()
        content = questions.lines_of(file.read(), file.name, purpose)
        left_out, origin = body["leave_out_measured"], body["origin"]
        made = questions.record(content, name, purpose, origin=origin, leave_out_measured=left_out, by=self.operator)
        return self.made(shown.QuestionSetSerializer, made, "api-question-set", new=new)
