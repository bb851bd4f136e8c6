"""Converters of parts of addresses."""

from django.urls import register_converter
from django.urls.converters import StringConverter


class AnyTextConverter(StringConverter):
    """Text of any characters. Django's `path` matches no line break, so an address with one would find no view."""

    regex = "(?s:.+)"


register_converter(AnyTextConverter, "any_text")
