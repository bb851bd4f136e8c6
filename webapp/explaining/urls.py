"""Addresses of explanations of wrong answers."""

from django.urls import path

from webapp.explaining import api, views

site = [
    path("answers/<uuid:answer_id>/why/", views.explain, name="answer-why"),
]

rest = [
    path("answers/<uuid:answer_id>/why", api.WhyView.as_view(), name="api-why"),
]
