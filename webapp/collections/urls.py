"""Addresses of collections."""

from django.urls import path

from webapp.collections import api, views

console = [
    path("documents/collections/", views.collection_list, name="manage-collections"),
    path("documents/collections/collection/", views.edit_collection, name="manage-collection"),
    path("documents/collections/collection/remove/", views.remove_collection, name="manage-collection-remove"),
]

rest = [
    path("collections", api.CollectionsView.as_view(), name="api-collections"),
    path("collections/<any_text:name>", api.CollectionView.as_view(), name="api-collection"),
]
