"""Addresses of collections."""

from django.urls import path

from webapp.collections import api, views

console = [
    path("documents/collections/", views.collection_list, name="manage-collections"),
    path("documents/collections/collection/", views.edit_collection, name="manage-collection"),
]

rest = [path("collections", api.CollectionsView.as_view(), name="api-collections")]
