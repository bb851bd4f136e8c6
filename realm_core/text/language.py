"""The language of a question, where it is not that of the models.

py3langid (naive Bayes over n-grams of bytes) chooses among the languages that questions are likely to be in. A wrong
notice is worse than none, so it counts only from a probability on at which none of our English questions, keywords and
foreign names among them, was taken for another language but one (docs/results.md; `tests/core/text/test_language.py`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MODELS_LANGUAGE = "en"  # of the questions and texts that the shipped models were trained on
LANGUAGES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "nl": "Dutch",
    "pt": "Portuguese",
}
_SURE = 0.9


def foreign_language(question: str) -> str | None:
    """The code of a question's language, None if it is the models' own or uncertain."""
    if len(question.split()) < 3:  # a name says nothing of the language of who types it
        return None
    language, probability = _identifier().classify(question)
    return language if language != MODELS_LANGUAGE and probability >= _SURE else None


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(list(LANGUAGES))
    return identifier
