"""Addresses of the API's description."""

from django.urls import path

from webapp.rest.reference import SchemaView, docs

rest = [
    path("schema/", SchemaView.as_view(), name="api-schema"),
    path("docs/", docs, name="api-docs"),
]
