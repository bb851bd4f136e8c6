"""Wiki links as salient spans: trimmed anchors of a dump's snapshot, with or without dates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from realm_core.corpus.ingest import ingest
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.runs.activity import Activity
from realm_core.salient.cache import SalientSpans
from realm_core.salient.extract import extract
from realm_core.salient.taggers import TaggerOptions
from realm_core.text.sentences import sentence_spans
from tests.core.conftest import Deployment
from tests.core.corpus.dumps import dump, page
from tests.core.processes import run

QUIET = Activity(quiet=True)
LINKS = TaggerOptions("links")
PAGES = {
    "Suez Canal": "The '''Suez Canal''' is a [[waterway]] in [[Egypt]], opened in [[1869|November 1869]].\n"
    "[[File:Suez.jpg|thumb|At [[Port Said]]]] [[The Times|''The Times'']] wrote of it. {{Infobox|a=[[no]]}}",
    "Rain": "It rains.",
    "Bus": "[[Coach (bus)|Coach]]es and [[horse]]s went until 1910. They were slow.\n== See also ==\n* [[Tram]]",
    "Odd": "[[—]] [[Berlin's]] wall. [[One sentence. And|One sentence. And another]] are two.",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wiki")
    pages = [page(title, text, number=number) for number, (title, text) in enumerate(PAGES.items(), 1)]
    (folder / "dump.xml").write_bytes(dump(*pages))
    source = MediaWikiSource(folder / "dump.xml")
    return ingest(source, name="wiki", output=folder, activity=QUIET, processes=1)


def read(spans: SalientSpans, corpus: Path) -> list[tuple[str, str]]:
    """Text and label of each span; each is within its sentence."""
    store = Snapshot.open(corpus)
    found = []
    for (row, start, end, first, last), label in zip(spans.spans_M5.tolist(), spans.labels_M.tolist(), strict=True):
        text = store.block(row).text
        assert first <= start < end <= last and (first, last) in sentence_spans(text)
        found.append((text[start:end], spans.manifest["labels"][label]))
    return found


def test_anchors_and_dates_are_salient(corpus: Path, tmp_path: Path) -> None:
    spans = extract(corpus, tmp_path / "spans", QUIET, LINKS)
    assert read(spans, corpus) == [
        ("waterway", "LINK"),
        ("Egypt", "LINK"),
        ("November 1869", "LINK"),  # of a name and a date in one place it is the name that stays
        ("Times", "LINK"),
        ("Coaches", "LINK"),
        ("horses", "LINK"),
        ("1910", "DATE"),
        ("Berlin", "LINK"),
    ]
    assert spans.rows_N.tolist() == [0, 2, 3]
    assert spans.manifest["spans_by_label"] == {"LINK": 7, "DATE": 1}


def test_without_dates(corpus: Path, tmp_path: Path) -> None:
    spans = extract(corpus, tmp_path / "spans", QUIET, TaggerOptions("links", ("LINK",), with_dates=False))
    assert spans.manifest["labels"] == ["LINK"] and "1910" not in [words for words, _ in read(spans, corpus)]
    assert len(spans) == 7
    with pytest.raises(RealmError, match=r"of another run \(different: tagger, labels\)"):
        extract(corpus, tmp_path / "spans", QUIET, LINKS)


def test_some_blocks_in_several_processes(corpus: Path, tmp_path: Path) -> None:
    arguments = ["spans", "--tagger", "links", "--corpus", str(corpus), "--blocks", "3", "--shard-blocks", "1"]
    status, errors = run([*arguments, "--output", str(tmp_path / "two"), "--processes", "2"])
    assert status == 0, errors
    here = extract(corpus, tmp_path / "one", QUIET, LINKS, blocks=3, shard_blocks=1)
    there = SalientSpans.open(tmp_path / "two", Snapshot.open(corpus))
    np.testing.assert_array_equal(here.spans_M5, there.spans_M5)
    whole = extract(corpus, tmp_path / "whole", QUIET, LINKS)
    kept = np.isin(whole.spans_M5[:, 0], here.rows_N)
    np.testing.assert_array_equal(here.spans_M5, whole.spans_M5[kept])


def test_other_links_are_another_tagger(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "dump.xml").write_bytes(dump(page("Ada", "Ada of [[London]].")))
    other = ingest(MediaWikiSource(tmp_path / "dump.xml"), name="w", output=tmp_path, activity=QUIET, processes=1)
    one, two = (LINKS.tagger(Snapshot.open(path)).description for path in (corpus, other))
    assert one != two


def test_a_snapshot_without_links_is_refused_in_one_sentence(deployment: Deployment, tmp_path: Path) -> None:
    arguments = ["spans", "--tagger", "links", "--corpus", str(deployment.corpus), "--output", str(tmp_path / "spans")]
    status, errors = run(arguments)
    assert status == 2 and errors == (
        f"error: {deployment.corpus} contains no wiki links for the tagger links; only MediaWiki dumps have them.\n"
    )
    assert not (tmp_path / "spans").exists()


def test_invalid_options_are_refused(corpus: Path) -> None:
    with pytest.raises(RealmError, match="has no label GPE, only LINK"):
        TaggerOptions("links", ("GPE", "LINK")).tagger(Snapshot.open(corpus))
