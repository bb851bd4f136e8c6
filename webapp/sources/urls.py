"""Addresses of source files."""

from django.urls import path

from webapp.access.roles import Action
from webapp.bodies import allow_larger_body
from webapp.sources import api, views
from webapp.sources.service import LARGEST_UPLOAD_BYTES

console = [
    path("corpora/files/", views.source_list, name="manage-sources"),
    path("corpora/files/remove/", views.remove_source, name="manage-source-remove"),
]

_uploads = allow_larger_body(LARGEST_UPLOAD_BYTES, Action.OPERATE)

rest = [
    path("source-files", _uploads(api.SourceFilesView.as_view()), name="api-source-files"),
    path("source-files/<str:name>", api.SourceFileView.as_view(), name="api-source-file"),
]
