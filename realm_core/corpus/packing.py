"""Packs sentences greedily into blocks of at most 288 wordpieces, title and special tokens included.

join(z) is [CLS] title [SEP] body [SEP]: three special tokens, the title (truncated to `MAX_TITLE_WORDPIECES`, as the
model does), and the body, which gets the rest. Nothing is dropped: the blocks of an article contain, in order, every
character that is not white space.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from realm_core.corpus.records import Article, Span
from realm_core.text.sentences import sentence_spans
from realm_core.text.wordpieces import Wordpieces

MAX_WORDPIECES = 288
MAX_TITLE_WORDPIECES = 64
SPECIAL_TOKENS = 3
# Prose has four to six characters per wordpiece, but any run of letters without a space can be a single [UNK],
# so the characters of a block are limited as well.
MAX_BLOCK_CHARACTERS = 6000

# How full a block must be for a section to begin another one: half, or an eighth where the section has a heading, with
# which it is understood without the sections before it.
_HALF_FILLED, _LEAST_FILLED = 1 / 2, 1 / 8

_Unit = tuple[int, int, int]  # start, end (characters), wordpieces

_RUN = re.compile(r"\S+")


class Packer:
    """Packs articles into blocks.

    max_wordpieces: the limit on join(z), special tokens and title included.
    """

    def __init__(self, wordpieces: Wordpieces, max_wordpieces: int = MAX_WORDPIECES) -> None:
        if max_wordpieces < SPECIAL_TOKENS + MAX_TITLE_WORDPIECES + 8:
            raise ValueError(f"{max_wordpieces} wordpieces leave no room for a body beside a long title.")
        self._wordpieces = wordpieces
        self._max_wordpieces = max_wordpieces

    def pack(self, articles: Sequence[Article]) -> list[list[Span]]:
        """The blocks of each article, as (start, end) characters of its text, in order.

        Many articles per call: tokenising many short strings at once is several times faster.
        """
        sentences_of = [_sentences(article) for article in articles]
        texts = [article.title for article in articles]
        for article, sentences in zip(articles, sentences_of, strict=True):
            texts.extend(article.text[start:end] for start, end in sentences)
        counts = self._wordpieces.count(texts)
        packed: list[list[Span]] = []
        next_sentence = len(articles)
        for article, sentences, title_count in zip(articles, sentences_of, counts, strict=False):
            own_counts = counts[next_sentence : next_sentence + len(sentences)]
            next_sentence += len(sentences)
            budget = self._max_wordpieces - SPECIAL_TOKENS - min(title_count, MAX_TITLE_WORDPIECES)
            packed.append(self._pack_one(article, sentences, own_counts, budget))
        return packed

    def _pack_one(self, article: Article, sentences: list[Span], counts: list[int], budget: int) -> list[Span]:
        section_starts = {
            section.start: _LEAST_FILLED if article.says_heading(section) else _HALF_FILLED
            for section in article.sections
        }
        blocks: list[Span] = []
        block_start = block_end = held = 0
        for start, end, count in _fitting(article.text, sentences, counts, budget, self._split):
            # A section starts a new block once the current one is filled enough: a block should have one topic, but
            # many tiny sections should not become many tiny blocks.
            at_section = held >= section_starts.get(start, math.inf) * budget
            if block_end and (held + count > budget or end - block_start > MAX_BLOCK_CHARACTERS or at_section):
                blocks.append((block_start, block_end))
                block_end = 0
            if not block_end:
                block_start, held = start, 0
            block_end = end
            held += count
        if block_end:
            blocks.append((block_start, block_end))
        return blocks

    def _split(self, text: str, start: int, end: int, budget: int) -> Iterator[_Unit]:
        """A sentence that is too long, split at spaces; what is still too long is split at punctuation."""
        runs = [(start + match.start(), start + match.end()) for match in _RUN.finditer(text[start:end])]
        counts = self._wordpieces.count([text[s:e] for s, e in runs])
        return _fitting(text, runs, counts, budget, self._split_run)

    def _split_run(self, text: str, start: int, end: int, budget: int) -> Iterator[_Unit]:
        """A run without spaces, split between words and punctuation marks; a word that is too long, in halves."""
        encoded = self._wordpieces.encode([text[start:end]])[0]
        cuts = [0]
        for position in range(1, len(encoded.words)):
            if encoded.words[position] != encoded.words[position - 1] and encoded.offsets[position][0] > cuts[-1]:
                cuts.append(encoded.offsets[position][0])
        cuts.append(end - start)
        spans = [(start + a, start + b) for a, b in pairwise(cuts)]
        counts = self._wordpieces.count([text[s:e] for s, e in spans])
        return _fitting(text, spans, counts, budget, self._halve)

    def _halve(self, text: str, start: int, end: int, budget: int) -> list[_Unit]:
        count = self._wordpieces.count([text[start:end]])[0]
        if (count <= budget and end - start <= MAX_BLOCK_CHARACTERS) or end - start == 1:
            return [(start, end, count)]
        middle = (start + end) // 2
        return [*self._halve(text, start, middle, budget), *self._halve(text, middle, end, budget)]


def _fitting(
    text: str, spans: Sequence[Span], counts: Sequence[int], budget: int, split: Callable[..., Iterable[_Unit]]
) -> Iterator[_Unit]:
    """The spans that fit into a block, with their wordpieces; what is too long as `split` divides it."""
    for (start, end), count in zip(spans, counts, strict=True):
        if count <= budget and end - start <= MAX_BLOCK_CHARACTERS:
            yield start, end, count
        else:
            yield from split(text, start, end, budget)


def _sentences(article: Article) -> list[Span]:
    """The article's sentences; none crosses the boundary of a section."""
    bounds = sorted({0, len(article.text), *(section.start for section in article.sections)})
    if len(bounds) <= 2:
        return sentence_spans(article.text)
    spans: list[Span] = []
    for first, last in pairwise(bounds):
        spans.extend((first + start, first + end) for start, end in sentence_spans(article.text[first:last]))
    return spans
