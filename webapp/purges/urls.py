"""Addresses of purges."""

from django.urls import path

from webapp.purges import api, views

console = [
    path("documents/document/purge/", views.purge_document, name="manage-document-purge"),
    path("documents/purges/<uuid:pk>/", views.purge_page, name="manage-purge"),
]

rest = [
    path("purges", api.PurgesView.as_view(), name="api-purges"),
    path("purges/<uuid:purge_id>", api.PurgeView.as_view(), name="api-purge"),
]
