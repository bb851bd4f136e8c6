"""Addresses of blocks and articles."""

from django.urls import path

from webapp.articles import api, views

site = [
    path("blocks/<str:block_id>/", views.block, name="block"),
]

rest = [
    path("blocks/<str:block_id>", api.BlockByIdView.as_view(), name="api-block"),
    path("blocks/<str:block_id>/article", api.ArticleView.as_view(), name="api-article"),
]
