"""Addresses of questions and their answers."""

from django.urls import path

from webapp.asking import api, batch_api, history_views, kept_api, views

site = [
    path("", views.ask, name="ask"),
    path("answers/<uuid:answer_id>/", views.answer, name="answer"),
    path("answers/<uuid:answer_id>/again/", views.again, name="answer-again"),
    path("history/", history_views.history, name="history"),
    path("history/forget/", history_views.forget, name="history-forget"),
]

rest = [
    path("ask", api.AskView.as_view(), name="api-ask"),
    path("retrieve", api.RetrieveView.as_view(), name="api-retrieve"),
    path("ask/batch", batch_api.BatchView.as_view(), name="api-batch"),
    path("answers", kept_api.AnswersView.as_view(), name="api-answers"),
    path("answers/<uuid:answer_id>", kept_api.AnswerView.as_view(), name="api-answer"),
]
