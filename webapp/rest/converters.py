"""Converters of parts of addresses."""

from django.urls import register_converter


class AnyTextConverter:
    """Text of any characters. Django's `path` matches no line break, so an address with one would find no view."""

    regex = "(?s:.+)"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(AnyTextConverter, "any_text")
