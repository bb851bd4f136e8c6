"""Addresses of masked sentences."""

from django.urls import path

from webapp.filling import api, views

site = [
    path("fill/", views.fill, name="fill"),
]

rest = [
    path("fill", api.FillView.as_view(), name="api-fill"),
]
