"""Measures a tagger: precision, recall and F1 of the names in a CoNLL file, regardless of their labels.

A line is a token and, in its last column, its tag (B-X, I-X or O; an I-X after another label also begins a name); an
empty line ends a sentence. Three matching rules: `exact`, the same characters; `trimmed`, the same after the file's
names are trimmed like the tagger's (no leading "the"); `overlap`, at least one common character.
"""

from __future__ import annotations

import operator
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.files import read_text
from realm_core.runs.activity import Activity
from realm_core.salient.spans import OUTSIDE, TaggedSpan, Tagger, joined_words, trimmed

_SENTENCES_AT_ONCE = 64


@dataclass(frozen=True)
class TaggedSentence:
    """Tokens joined by spaces, with the sentence's names."""

    text: str
    names: tuple[TaggedSpan, ...]


@dataclass
class MatchCounts:
    """right: predictions that match a gold name; found: gold names that a prediction matches."""

    right: int = 0
    found: int = 0
    predicted: int = 0
    gold: int = 0

    @property
    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.found / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass
class Measurement:
    """All counts over a file. by_label: predicted, overlap and trimmed matches of each label of the tagger."""

    exact: MatchCounts = field(default_factory=MatchCounts)
    trimmed: MatchCounts = field(default_factory=MatchCounts)
    overlap: MatchCounts = field(default_factory=MatchCounts)
    by_label: dict[str, Counter[str]] = field(default_factory=dict)
    sentences: int = 0
    words: int = 0
    seconds: float = 0.0


def measure_file(path: Path, tagger: Tagger, activity: Activity) -> Measurement:
    """Measure, print a table, and write the figures as the activity's result."""
    sentences = read_conll(path)
    tagger.spans([sentences[0].text])  # loads the model
    measurement = Measurement()
    for start in range(0, len(sentences), _SENTENCES_AT_ONCE):
        activity.check()
        part = sentences[start : start + _SENTENCES_AT_ONCE]
        texts = [sentence.text for sentence in part]
        started = time.perf_counter()
        found = tagger.spans(texts)
        measurement.seconds += time.perf_counter() - started
        for sentence, spans in zip(part, found, strict=True):
            add(measurement, sentence, spans)
        activity.progress(start + len(part), len(sentences), "sentences")
    for line in _table(measurement):
        activity.say(line)
    activity.result(
        {
            **{
                rule: {"precision": count.precision, "recall": count.recall, "f1": count.f1}
                for rule, count in _by_rule(measurement)
            },
            "by_label": {label: dict(counts) for label, counts in measurement.by_label.items()},
            "sentences_per_s": measurement.sentences / measurement.seconds,
            "words_per_s": measurement.words / measurement.seconds,
        }
    )
    return measurement


def read_conll(path: Path) -> list[TaggedSentence]:
    """The sentences of a CoNLL file; `RealmError` names a line that is not of that format."""
    lines = read_text(path).split("\n")
    sentences = list(_sentences(path, lines))
    if not sentences:
        raise RealmError(f"{path} contains no sentences.")
    if not any(tag == OUTSIDE for rows in sentences for _, tag in rows):
        raise RealmError(f"{path} is no CoNLL file: no line ends in the tag {OUTSIDE}, that of tokens outside names.")
    return [_sentence(rows) for rows in sentences]


def add(measurement: Measurement, sentence: TaggedSentence, predicted: Sequence[TaggedSpan]) -> None:
    gold = [(span.start, span.end) for span in sentence.names]
    cut = [(s.start, s.end) for s in (trimmed(sentence.text, name) for name in sentence.names) if s is not None]
    places = [(span.start, span.end) for span in predicted]
    _count(measurement.exact, places, gold, operator.eq)
    _count(measurement.trimmed, places, cut, operator.eq)
    _count(measurement.overlap, places, gold, _overlapping)
    for span, place in zip(predicted, places, strict=True):
        counts = measurement.by_label.setdefault(span.label, Counter())
        counts["predicted"] += 1
        counts["overlap"] += any(_overlapping(place, other) for other in gold)
        counts["trimmed"] += place in cut
    measurement.sentences += 1
    measurement.words += sentence.text.count(" ") + 1


def _count(
    count: MatchCounts,
    predicted: list[tuple[int, int]],
    gold: list[tuple[int, int]],
    matches: Callable[[tuple[int, int], tuple[int, int]], bool],
) -> None:
    count.right += sum(any(matches(place, other) for other in gold) for place in predicted)
    count.found += sum(any(matches(place, other) for other in predicted) for place in gold)
    count.predicted += len(predicted)
    count.gold += len(gold)


def _overlapping(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _sentences(path: Path, lines: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Tokens and tags of each sentence."""
    rows: list[tuple[str, str]] = []
    for number, line in enumerate([*lines, ""], 1):
        columns = line.split()
        if len(columns) == 1:
            raise RealmError(f"{path}, line {number}: a token and its tag are expected, not {line.strip()!r}.")
        if columns and columns[0] != "-DOCSTART-":
            rows.append((columns[0], columns[-1]))
        elif rows:
            yield rows
            rows = []


def _sentence(rows: Sequence[tuple[str, str]]) -> TaggedSentence:
    words = []
    position = 0
    for token, tag in rows:
        prefix, _, label = tag.rpartition("-")
        words.append((position, position + len(token), prefix, label))
        position += len(token) + 1
    return TaggedSentence(" ".join(token for token, _ in rows), tuple(joined_words(words)))


def _by_rule(measurement: Measurement) -> list[tuple[str, MatchCounts]]:
    return [("exact", measurement.exact), ("trimmed", measurement.trimmed), ("overlap", measurement.overlap)]


def _table(measurement: Measurement) -> Iterator[str]:
    yield f"{'':14}precision  recall      F1"
    for rule, count in _by_rule(measurement):
        yield f"{rule:14}{count.precision:9.1%}{count.recall:8.1%}{count.f1:8.1%}"
    yield f"{'':14}predicted  overlap  trimmed"
    for label, counts in sorted(measurement.by_label.items(), key=lambda item: -item[1]["predicted"]):
        share = {rule: counts[rule] / counts["predicted"] for rule in ("overlap", "trimmed")}
        yield f"{label:14}{counts['predicted']:9,}{share['overlap']:9.1%}{share['trimmed']:9.1%}"
    yield (
        f"{measurement.sentences:,} sentences, {measurement.sentences / measurement.seconds:,.0f} a second "
        f"({measurement.words / measurement.seconds:,.0f} words)"
    )
