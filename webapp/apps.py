"""The one Django application."""

from django.apps import AppConfig


class WebappConfig(AppConfig):
    """Pages, REST API and records."""

    name = "webapp"
    verbose_name = "Question answering"

    def ready(self) -> None:
        """Register the project's checks."""
        from webapp import checks  # noqa: F401  # importing it is what registers them
