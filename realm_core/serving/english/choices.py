"""Questions that name their answers: "Which is longer, the Nile or the Danube?", "Is a bat a bird or a mammal?".

The reader would mark other words, too ("White Nile", "winged mammals"). So a span answers only if it has one of the
options, and that option is displayed. "or" may also belong to the subject of the question ("birds kept for meat, eggs
or feathers"): a choice asks for yes or no, compares, or has its options behind a colon or after "what, …".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

from realm_core.corpus.records import Span
from realm_core.text.folding import folded, folded_places
from realm_core.text.wordpieces import Encoded

_ARTICLE: Final = r"(?:an?|the)"
_OPTION: Final = r"[^\s,:;?()\"“”]+"  # one word of it
_WORDS: Final = rf"{_OPTION}(?: {_OPTION}){{0,3}}"
_TWO_OR_MORE: Final = rf"(?P<options>(?:{_WORDS}, ){{0,3}}{_WORDS},? or {_WORDS})"
_AFTER_MARK: Final = re.compile(rf"(?::|\b(?:what|which|who),|\b\w+er,|\b(?:more|less|first)\b[^,:]*,) {_TWO_OR_MORE}$")
# Without a comma, "or" has as many words on both sides: "an insect or an arachnid", "older rome or athens".
_WITH_ARTICLES: Final = re.compile(
    rf"\b(?P<first>{_ARTICLE} (?:(?!{_ARTICLE} ){_OPTION} ){{1,3}})or (?P<second>{_ARTICLE} {_WORDS})$"
)
_WITHOUT: Final = re.compile(rf"(?P<first>{_OPTION}) or (?P<second>{_OPTION})$")
_ASKS_YES_OR_NO: Final = re.compile(
    r"(?:is|are|was|were|do|does|did|has|have|had)\b"
    r"|(?!.*\b(?:what|which|who|when|where|why|how)\b).*\b(?:was|were|is|are) (?:he|she|it|they)\b"
)
_COMPARES: Final = re.compile(r"\b(?:\w{2,}(?<!oth)(?<!ov)(?<!und)er|more|less) (?=\S+(?: \S+)? or )")
_ASKS: Final = re.compile(r"\b(?:what|which|who|whom|whose|when|where|why|how|should|would|could|can|name)\b")
_NO_OPTION: Final = frozenset("what not else other otherwise whether opposed so neither".split())
_KEYWORDS: Final = 5  # most, in a choice without verb and question word: "barentsz dutch or german"


@dataclass(frozen=True)
class Choices:
    """The options of a question, folded, without articles; none if it is no choice."""

    options: tuple[str, ...] = ()

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, question: str) -> Choices:
        text = " ".join(folded(question).split()).rstrip(" ?.!")
        if " or " not in text or '"' in text or "“" in text:
            return cls()
        options = _options_in(text)
        return cls() if _NO_OPTION & set(" ".join(options).split()) else cls(options)

    def chosen_in(self, text: str, start: int, end: int) -> Span | None:
        """The place of the only option in text[start:end]; None if it has none or several."""
        found = self._found(text[start:end]) if self.options else []
        if len({option for option, _ in found}) != 1:
            return None
        first, last = found[0][1]
        return start + first, start + last

    def spans_without(self, body: Encoded, text: str, longest: int) -> Tensor:
        """bool [L, M]: the spans of a block that do not name exactly one option."""
        found = self._found(text)
        starts_L = torch.tensor([start for start, _ in body.offsets])
        ends_L = torch.tensor([end for _, end in body.offsets])
        # The ends of spans, [L, M]; arbitrary if behind the last wordpiece.
        ends_LM = torch.nn.functional.pad(ends_L, (0, longest - 1)).unfold(0, longest, 1)
        named_LM = torch.zeros(ends_LM.shape, dtype=torch.int32)
        for option in {option for option, _ in found}:
            own = [span for named, span in found if named == option]
            within = torch.stack([(starts_L[:, None] <= first) & (last <= ends_LM) for first, last in own])
            named_LM += within.any(0)
        return named_LM != 1

    def _found(self, text: str) -> list[tuple[str | None, Span]]:
        """The options in a text, each with its place there."""
        plain, places = folded_places(text)
        found = _any_of(self.options).finditer(plain)
        return [
            (one.lastgroup, (places[one.start()], max(places[one.end()], places[one.end() - 1] + 1))) for one in found
        ]


def _options_in(text: str) -> tuple[str, ...]:
    if marked := _AFTER_MARK.search(text):
        return tuple(map(_bare, re.split(r",? or |, ", marked["options"])))
    is_keywords = not _ASKS.search(text) and len(text.split()) <= _KEYWORDS
    if not (is_keywords or _ASKS_YES_OR_NO.match(text) or _COMPARES.search(text)):
        return ()
    for pattern in (_WITH_ARTICLES, _WITHOUT):
        if pair := pattern.search(text):
            return _bare(pair["first"]), _bare(pair["second"])
    return ()


@lru_cache(maxsize=256)
def _any_of(options: tuple[str, ...]) -> re.Pattern[str]:
    """Options as groups, the longest first, singular or plural: "mammal", "mammals"."""
    order = sorted(range(len(options)), key=lambda place: -len(options[place]))
    return re.compile("|".join(rf"(?P<o{place}>\b{re.escape(_singular(options[place]))}s?\b)" for place in order))


def _bare(option: str) -> str:
    return re.sub(rf"^{_ARTICLE} ", "", option.strip())


def _singular(option: str) -> str:
    return option.removesuffix("s") if len(option) > 4 else option
