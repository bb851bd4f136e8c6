"""The one Django application."""

from django.apps import AppConfig


class WebappConfig(AppConfig):
    """Pages, REST API and records."""

    name = "webapp"
    verbose_name = "Question answering"
