"""Addresses of operating and monitoring."""

from django.urls import path

from webapp.operations import health, views

site = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]

console = [
    path("", views.overview_page, name="manage"),
    path("status/", views.overview_status, name="manage-status"),
]
