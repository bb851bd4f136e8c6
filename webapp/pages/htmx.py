"""What all views for htmx share."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

STOP_POLLING: Final = 286  # htmx inserts the content and stops polling


class HtmxRequest(HttpRequest):
    """A request after django-htmx's middleware."""

    htmx: HtmxDetails
