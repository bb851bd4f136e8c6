"""What pages that htmx asks for share."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

STOP_POLLING: Final = 286  # htmx swaps the content in and asks no more


class HtmxRequest(HttpRequest):
    """A request as django-htmx's middleware hands it on."""

    htmx: HtmxDetails
