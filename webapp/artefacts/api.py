"""Lists of corpora, models, indexes, question sets, span sets and evaluations, and their records, over REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Model, Prefetch, QuerySet
from django.http import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.roles import Action
from webapp.artefacts import examples, removing
from webapp.artefacts import serializers as shown
from webapp.artefacts.adding_api import AddingModels, AddingQuestionSets
from webapp.bodies import allow_larger_body
from webapp.models import CorpusSnapshot, Evaluation, IndexGeneration, ModelVersion, Purpose, QuestionSet, SpanSet
from webapp.questions.service import LARGEST_FILE_BYTES
from webapp.rest.base import OperatorView
from webapp.rest.lists import RecordList
from webapp.rest.operation import given, operation
from webapp.rest.parameters import ListFilter, by_id, by_text, by_time, by_word


@dataclass(frozen=True)
class ListedRecords:
    """Records that are listed at /NAME and read at /NAME/ID.

    one: the name of one of them. related: records that refer to these, shown by their ids.
    filters: query parameters that select some of them, beside those of the time, which every list has.
    orders: fields to order them by.
    removable: whether DELETE removes one.
    adding: a view whose POST adds one, if that is possible. largest_file: that it may be sent; bytes.
    about: notes on reading one. example: one as listed; more: what reading it adds.
    """

    name: str
    one: str
    record: type[Model]
    serializer: type[serializers.ModelSerializer[Any]]
    detail: type[serializers.ModelSerializer[Any]]
    example: Mapping[str, Any]
    related: tuple[str | Prefetch[Any], ...] = ()
    filters: Sequence[ListFilter] = ()
    orders: Sequence[str] = ("created_at",)
    about: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    removable: bool = False
    adding: type[OperatorView] = OperatorView
    largest_file: int = 0


LISTED: Final = (
    ListedRecords(
        "corpora",
        "corpus",
        CorpusSnapshot,
        shown.CorpusSerializer,
        shown.CorpusSerializer,
        examples.CORPUS,
        removable=True,
        related=("indexes", "span_sets", "model_versions"),
        filters=(by_text("name", CorpusSnapshot), by_text("language", CorpusSnapshot)),
    ),
    ListedRecords(
        "models",
        "model",
        ModelVersion,
        shown.ModelSerializer,
        shown.ModelDetailSerializer,
        examples.MODEL,
        removable=True,
        adding=AddingModels,
        more=examples.MODEL_MORE,
        related=("children", "indexes", "evaluations"),
        filters=(by_id("parent", ModelVersion), by_id("corpus", CorpusSnapshot)),
    ),
    ListedRecords(
        "indexes",
        "index",
        IndexGeneration,
        shown.IndexSerializer,
        shown.IndexSerializer,
        examples.INDEX,
        removable=True,
        about="Also one whose files retention has removed, which is not listed any more.",
        related=("evaluations", "deployments", Prefetch("folded_from", IndexGeneration.every.all())),
        filters=(by_id("model", ModelVersion), by_id("corpus", CorpusSnapshot)),
    ),
    ListedRecords(
        "question-sets",
        "question-set",
        QuestionSet,
        shown.QuestionSetSerializer,
        shown.QuestionSetSerializer,
        examples.QUESTION_SET,
        removable=True,
        adding=AddingQuestionSets,
        largest_file=LARGEST_FILE_BYTES,
        related=("evaluations", "created_by"),
        filters=(by_word("purpose", Purpose.values),),
    ),
    ListedRecords(
        "span-sets",
        "span-set",
        SpanSet,
        shown.SpanSetSerializer,
        shown.SpanSetSerializer,
        examples.SPAN_SET,
        filters=(by_id("corpus", CorpusSnapshot),),
    ),
    ListedRecords(
        "evaluations",
        "evaluation",
        Evaluation,
        shown.EvaluationSerializer,
        shown.EvaluationDetailSerializer,
        examples.EVALUATION,
        more=examples.EVALUATION_MORE,
        filters=(
            by_id("model", ModelVersion),
            by_id("corpus", CorpusSnapshot),
            by_id("index", IndexGeneration),
            by_id("questions", QuestionSet),
        ),
        orders=("created_at", "exact_match", "recall_at_5"),
    ),
)


def addresses() -> list[URLPattern]:
    """The addresses of all lists and of their records."""
    return [pattern for listed in LISTED for pattern in (_list_address(listed), _one_address(listed))]


def _list_address(listed: ListedRecords) -> URLPattern:
    wanted = RecordList(
        filters=(*listed.filters, *by_time()),
        orders=listed.orders,
        address=listed.name,
        kind=listed.serializer,
        example=listed.example,
        page_name=f"{listed.record.__name__}Page",
    )

    base: Any = listed.adding  # a class that mypy does not know

    class ListView(base):  # type: ignore[misc]
        @wanted.operation(listed.name.replace("-", "_"), f"List {listed.name.replace('-', ' ')}")
        def get(self, _request: Request) -> QuerySet[Any]:
            return listed.record._default_manager.prefetch_related(*listed.related)

    view: Callable[..., HttpResponseBase] = ListView.as_view()
    if listed.largest_file:
        view = allow_larger_body(listed.largest_file, Action.OPERATE)(view)
    return path(listed.name, view, name=f"api-{listed.name}")


def _one_address(listed: ListedRecords) -> URLPattern:
    class OneView(OperatorView):
        @operation(
            listed.one.replace("-", "_"),
            f"Read one of the {listed.name.replace('-', ' ')}",
            listed.about,
            gives=listed.detail,
            examples=[given(listed.one.replace("-", " ").capitalize(), {**listed.example, **listed.more})],
        )
        def get(self, request: Request, record_id: int) -> Response:
            # `_base_manager` finds every record, also an index whose files were removed.
            records = listed.record._base_manager.prefetch_related(*listed.related)
            return Response(listed.detail(get_object_or_404(records, pk=record_id)).data)

    if listed.removable:

        class RemovableView(OneView):
            @operation(
                f"remove_{listed.one.replace('-', '_')}",
                f"Remove one of the {listed.name.replace('-', ' ')}, if nothing uses it",
                "Its files are removed. 409: something uses it; `detail` says what.",
                gives=None,
                problems=[409, 422],
            )
            def delete(self, request: Request, record_id: int) -> Response:
                removing.remove(get_object_or_404(listed.record._default_manager, pk=record_id), by=self.operator)  # type: ignore[arg-type]
                return Response(status=204)

        return path(f"{listed.name}/<int:record_id>", RemovableView.as_view(), name=f"api-{listed.one}")
    return path(f"{listed.name}/<int:record_id>", OneView.as_view(), name=f"api-{listed.one}")
