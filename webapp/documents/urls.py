"""Addresses of documents."""

from django.urls import path

from webapp.access.roles import Action
from webapp.bodies import allow_larger_body
from webapp.documents import api, edit_views, views
from webapp.documents.inputs import LARGEST_FILE_BYTES

_uploads = allow_larger_body(LARGEST_FILE_BYTES, Action.EDIT)

console = [
    path("documents/", views.document_list, name="manage-documents"),
    path("documents/add/", edit_views.add_document, name="manage-document-add"),
    path("documents/bring/", views.bring_documents, name="manage-documents-bring"),
    path("documents/fold/", views.fold_documents, name="manage-documents-fold"),
    path("documents/document/", views.document_page, name="manage-document"),
    path("documents/document/change/", edit_views.change_document, name="manage-document-change"),
    path("documents/document/remove/", edit_views.remove_document, name="manage-document-remove"),
    path("documents/document/restore/", edit_views.restore_document, name="manage-document-restore"),
]

rest = [
    path("documents", _uploads(api.DocumentsView.as_view()), name="api-documents"),
    path("documents/bulk", _uploads(api.BulkView.as_view()), name="api-documents-bulk"),
    # A DELETE of the address above would need a body: OpenAPI 3.0 has clients ignore it, and what is between them and
    # this server may drop or refuse it (RFC 9110, section 9.3.5).
    path("documents/bulk/remove", api.BulkRemovalView.as_view(), name="api-documents-bulk-remove"),
    # Before the document itself, whose id may have any characters.
    path("documents/<any_text:document_id>/touched", _uploads(api.TouchedView.as_view()), name="api-document-touched"),
    path("documents/<any_text:document_id>/restore", api.RestoreView.as_view(), name="api-document-restore"),
    path("documents/<any_text:document_id>", _uploads(api.DocumentView.as_view()), name="api-document"),
]
