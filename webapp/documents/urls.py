"""Addresses of the corpus's documents and their changes."""

from django.urls import path

from webapp.documents import ledger_views, views

console = [
    path("documents/", views.document_list, name="manage-documents"),
    path("documents/add/", views.add_document, name="manage-document-add"),
    path("documents/document/", views.document_page, name="manage-document"),
    path("documents/document/change/", views.change_document, name="manage-document-change"),
    path("documents/document/remove/", views.remove_document, name="manage-document-remove"),
    path("documents/changes/", ledger_views.change_list, name="manage-document-changes"),
    path("documents/changes/<int:pk>/", ledger_views.change_page, name="manage-document-change-page"),
]
