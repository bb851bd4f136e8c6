"""The one Django application."""

from django.apps import AppConfig


class WebappConfig(AppConfig):
    """Pages, REST API and records."""

    name = "webapp"
    verbose_name = "Question answering"

    def ready(self) -> None:
        """Register the project's checks, signal receivers and converters of addresses."""
        from webapp import checks  # noqa: F401  # importing it is what registers them
        from webapp.accounts import sessions  # noqa: F401  # the same
        from webapp.deployments import measuring  # noqa: F401  # the same
        from webapp.evaluations import calibrating  # noqa: F401  # the same
        from webapp.rest import converters  # noqa: F401  # the same
