"""Addresses of documents."""

from django.urls import path

from webapp.access.roles import Action
from webapp.bodies import takes
from webapp.documents import api

_uploads = takes(api.BODY_BYTES, Action.OPERATE)

rest = [
    path("documents", _uploads(api.DocumentsView.as_view()), name="api-documents"),
    path("documents/bulk", _uploads(api.BulkView.as_view()), name="api-documents-bulk"),
    path("documents/<path:document_id>", _uploads(api.DocumentView.as_view()), name="api-document"),
]
