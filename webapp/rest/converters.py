"""Converters of parts of addresses."""

from django.urls import register_converter


class AnyTextConverter:
    """Text of any characters: Django's `path` stops before a line break, whose address would then be nobody's."""

    regex = "(?s:.+)"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(AnyTextConverter, "any_text")
