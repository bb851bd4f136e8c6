"""The language of a document that is read: stated, or told by its text; and what is said of it to who adds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from realm_core.text.language import MODELS_LANGUAGE, text_language
from realm_core.text.language_codes import language_code
from webapp.text import language_name

_BEGINNING: Final = "Its language is "


def settled(stated: str, text: str, corpus_language: str) -> tuple[str, tuple[str, ...]]:
    """The language of a document, and a sentence about it where that is to be known.

    stated: by the person or the file; empty: nobody says, so the text tells. The corpus's where that tells nothing.
    """
    told = text_language(text)
    language = stated or told or corpus_language
    return language, _said(stated, told, language, corpus_language)


def without(warnings: Sequence[str]) -> list[str]:
    """Warnings about a document without that about its language."""
    return [one for one in warnings if not one.startswith(_BEGINNING)]


def _said(stated: str, told: str | None, language: str, corpus_language: str) -> tuple[str, ...]:
    code = language_code(language)
    if stated and told and code and told != code and MODELS_LANGUAGE in (told, code):  # others are confused too easily
        note, read_as = f"given as {language_name(code)}, but its text seems to be in {language_name(told)}", told
    elif not stated and told and told != language_code(corpus_language):
        note, read_as = f"stated nowhere, and its text seems to be in {language_name(told)}", told
    elif code in ("", MODELS_LANGUAGE):
        return ()
    else:
        note, read_as = language_name(code), code
    if read_as == MODELS_LANGUAGE:
        return (f"{_BEGINNING}{note}.",)
    models = language_name(MODELS_LANGUAGE)
    return (f"{_BEGINNING}{note}: the model was trained on {models} alone and may read it badly.",)
