"""Addresses of the REST API, version 1."""

from django.urls import path, re_path

from webapp.api import problems, views

urlpatterns = [
    path("ask", views.AskView.as_view(), name="api-ask"),
    path("retrieve", views.RetrieveView.as_view(), name="api-retrieve"),
    path("fill", views.FillView.as_view(), name="api-fill"),
    path("answers/<uuid:answer_id>", views.AnswerView.as_view(), name="api-answer"),
    path("blocks/<str:block_id>", views.BlockView.as_view(), name="api-block"),
    path("schema/", views.SchemaView.as_view(), name="api-schema"),
    path("docs/", views.DocsView.as_view(url_name="api-schema"), name="api-docs"),
    re_path("", problems.not_found),
]
