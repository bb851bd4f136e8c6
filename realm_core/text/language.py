"""The language of a question, where it is not that of the models, and that of a document's text.

py3langid (naive Bayes over n-grams of bytes) chooses among the languages that questions or texts are likely to be in. A
wrong notice is worse than none, so it counts only from a probability on at which none of our English questions,
keywords and foreign names among them, was taken for another language but one (docs/results.md;
`tests/core/text/test_language.py`). Of a text, pieces from all over it must agree: of one in two languages neither is
that of the document.
"""

from __future__ import annotations

import re
from collections import Counter
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MODELS_LANGUAGE = "en"  # of the questions and texts that the shipped models were trained on
_OF_QUESTIONS: Final = ("de", "en", "es", "fr", "it", "nl", "pt")
# Words that questions begin with, of which none is English. “Was”, “wie” and “wat” are, or are typed for English ones.
_FIRST_WORDS: Final = {
    "de": "wer wem wessen wann wo warum wieso weshalb woher wohin wieviel welche welcher welches welchen welchem",
    "es": "quién quien quiénes qué que cuál cual cuándo cuando dónde donde cómo como cuánto cuántos cuantos cuántas",
    "fr": "qui que qu'est quand où quel quelle quels quelles pourquoi comment combien",
    "it": "chi dove quando perché quanto quanti quale quali",
    "nl": "wanneer waar waarom welke hoeveel",
    "pt": "quem onde quando como quanto quantos qual quais",
}
# Of questions in other scripts than Latin. None of these is one in English, whose notice would be wrong.
_IN_OTHER_SCRIPTS: Final = ("ar", "bn", "el", "fa", "he", "hi", "ja", "ko", "ru", "ta", "th", "uk", "ur", "zh")
_LATIN: Final = re.compile(r"[A-Za-z\u00aa-\u02af\u1e00-\u1eff\ua720-\ua7ff\uab30-\uab6f\uff21-\uff5a]")
_NONE: Final = "zxx"  # of what is in no language: figures, data, program listings
# Without dialects and the smallest languages: one text in ten of a large language is near one of these, too.
_OF_TEXTS: Final = (
    *("af", "ar", "az", "be", "bg", "bn", "br", "bs", "ca", "cs", "cy", "da", "de", "el", "en", "eo", "es", "et", "eu"),
    *("fa", "fi", "fr", "fy", "ga", "gd", "gl", "he", "hi", "hr", "hu", "hy", "id", "ig", "is", "it", "ja", "ka", "kk"),
    *("km", "kn", "ko", "ky", "la", "lb", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "my", "ne", "nl", "nn", "no", "pa"),
    *("pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "tg", "th", "tk", "tl", "tr", "tt", "ug"),
    *("uk", "ur", "uz", "vi", "zh", _NONE),
)
_SURE: Final = 0.9
_AGREEING: Final = 0.75  # of the pieces
_FEWEST_LETTERS: Final = 50
_PIECE: Final = 300  # characters
_MOST_PIECES: Final = 10
_GOLDEN: Final = 0.618


def foreign_language(question: str) -> str | None:
    """The code of a question's language, None if it is the models' own or uncertain."""
    language: str
    if _in_other_script(question):
        language, probability = _identifier(_IN_OTHER_SCRIPTS).classify(question)
        return language if probability >= _SURE else None
    if len(question.split()) < 3:  # a name says nothing of the language of who types it
        return None
    for languages in filter(None, (_of_first_word(question), _OF_QUESTIONS)):
        language, probability = _identifier(languages).classify(question)
        if language != MODELS_LANGUAGE and probability >= _SURE:
            return language
    return None


def _in_other_script(question: str) -> bool:
    """Whether hardly a letter of a question is Latin: one in English may name what is in another script."""
    letters = [letter for letter in question if letter.isalpha()]
    return 4 * sum(_LATIN.match(letter) is not None for letter in letters) < len(letters)


def _of_first_word(question: str) -> tuple[str, ...]:
    """The models' language and those whose questions begin with this one's first word; nothing if none does.

    Among so few a short question with a foreign name in it (“Wer malte die Mona Lisa?”) is told, too, and English
    with a typing error (“wer is Paris”) stays English.
    """
    first = question.split()[0].lower().lstrip("¿")
    languages = tuple(code for code, words in _FIRST_WORDS.items() if first in words.split())
    return (MODELS_LANGUAGE, *languages) if languages else ()


def text_language(text: str) -> str | None:
    """The code of a text's language, also if it is the models' own; None if it is too short or uncertain."""
    pieces = _pieces(text)
    if sum(map(str.isalpha, "".join(pieces))) < _FEWEST_LETTERS:
        return None
    guesses = map(_identifier(_OF_TEXTS).classify, pieces)
    sure = Counter(language for language, probability in guesses if probability >= _SURE)
    language, agreeing = max(sure.items(), key=lambda one: one[1], default=(_NONE, 0))
    return language if language != _NONE and agreeing >= _AGREEING * len(pieces) else None


def _pieces(text: str) -> list[str]:
    """Pieces of a text, from all over it."""
    number = min(_MOST_PIECES, max(1, len(text) // _PIECE))
    if number == 1:
        return [text]
    length = len(text) / number
    # Each elsewhere in its part: at even distances all could be in one of two languages that take turns.
    starts = [int(length * place + (length - _PIECE) * (place * _GOLDEN % 1)) for place in range(number)]
    return [text[start : start + _PIECE] for start in starts]


@cache
def _identifier(languages: tuple[str, ...]) -> LanguageIdentifier:
    identifier = copy(_loaded())  # the tables are shared
    identifier.set_languages(list(languages))
    return identifier


@cache
def _loaded() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
