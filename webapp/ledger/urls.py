"""Addresses of changes, and of the kept answers that they touched."""

from django.urls import path

from webapp.ledger import api, views

console = [
    path("documents/changes/", views.change_list, name="manage-document-changes"),
    path("documents/changes/<int:pk>/", views.change_page, name="manage-document-change-page"),
    path("documents/changes/<int:pk>/again/", views.ask_again, name="manage-document-change-again"),
]

rest = [
    path("document-changes", api.DocumentChangesView.as_view(), name="api-document-changes"),
    path("document-changes/<int:change_id>/answers", api.ChangeAnswersView.as_view(), name="api-change-answers"),
]
