"""Responses with images."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from django.utils.cache import patch_cache_control

_KEPT_S: Final = 24 * 3600  # a diagram's address names the last row that it shows


def image(svg: str) -> HttpResponse:
    """An SVG whose address changes with its content, so browsers may cache it."""
    response = HttpResponse(svg, content_type="image/svg+xml; charset=utf-8")
    patch_cache_control(response, private=True, max_age=_KEPT_S, immutable=True)
    return response
