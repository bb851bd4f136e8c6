"""Addresses of corpora, models and indexes, and in REST of all records that jobs make."""

from django.urls import path

from webapp.artefacts import api, views
from webapp.artefacts.removing_views import remove_artefact, remove_questions
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion

console = [
    path("models/", views.model_list, name="manage-models"),
    path("models/add/", views.add_shipped, name="manage-model-add"),
    path("models/<int:pk>/", views.model_page, name="manage-model"),
    path("models/<int:pk>/remove/", remove_artefact, {"kind": ModelVersion}, name="manage-model-remove"),
    path("models/<int:pk>/pin/", views.pin, {"kind": ModelVersion}, name="manage-model-pin"),
    path("indexes/", views.index_list, name="manage-indexes"),
    path("indexes/<int:pk>/", views.index_page, name="manage-index"),
    path(
        "indexes/<int:pk>/remove/",
        remove_artefact,
        {"kind": IndexGeneration},
        name="manage-index-remove",
    ),
    path("indexes/<int:pk>/pin/", views.pin, {"kind": IndexGeneration}, name="manage-index-pin"),
    path("corpora/", views.corpus_list, name="manage-corpora"),
    path("corpora/<int:pk>/", views.corpus_page, name="manage-corpus"),
    path(
        "corpora/<int:pk>/remove/",
        remove_artefact,
        {"kind": CorpusSnapshot},
        name="manage-corpus-remove",
    ),
    path("questions/<int:pk>/remove/", remove_questions, name="manage-questions-remove"),
    path("spans/<int:pk>/", views.spans_page, name="manage-spans"),
]

rest = api.addresses()
