"""Addresses of source files."""

from django.urls import path

from webapp.sources import views

console = [
    path("corpora/files/", views.source_list, name="manage-sources"),
    path("corpora/files/remove/", views.remove_source, name="manage-source-remove"),
]
