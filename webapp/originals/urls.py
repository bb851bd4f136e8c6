"""Addresses of kept PDFs."""

from django.urls import path

from webapp.originals import api, views

site = [
    path("documents/original/", views.original, name="document-original"),
]

rest = [
    path("originals/<any_text:document_id>", api.OriginalView.as_view(), name="api-original"),
]
