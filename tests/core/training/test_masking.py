"""Masked sentences: what each scheme hides and how often, and that a step's batch follows from seed and step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from realm_core.command_line import explain
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import text_hash
from realm_core.salient.cache import SalientSpans
from realm_core.text.masked import MOST_MASKS
from realm_core.text.sentences import sentence_spans
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import Masking, PretrainConfig
from realm_core.training.masking import MaskedBatches, MaskedSentences
from tests.core.training.towns import COUNT, Towns
from tests.tiny import tiny_snapshot

WORDPIECES = Wordpieces.default()
MASK = WORDPIECES.mask_id
DRAWS = 2000


def batches_of(
    snapshot: Snapshot, spans: SalientSpans, masking: Masking, *, batch: int = 7, limit: int = 96, seed: int = 1
) -> MaskedBatches:
    config = PretrainConfig(masking=masking, batch=batch, query_wordpieces=limit, seed=seed)
    return MaskedBatches(snapshot, spans, range(len(spans.rows_N)), config)


@pytest.fixture(scope="module")
def snapshot(towns: Towns) -> Snapshot:
    return Snapshot.open(towns.corpus)


@pytest.fixture(scope="module")
def spans(towns: Towns, snapshot: Snapshot) -> SalientSpans:
    return SalientSpans.open(towns.spans, snapshot)


def words(folder: Path, *texts: str) -> Snapshot:
    """A corpus of such articles."""
    return Snapshot.open(tiny_snapshot(folder, {f"Article {i}": text for i, text in enumerate(texts)}))


def given(snapshot: Snapshot, names: Mapping[int, list[str]]) -> SalientSpans:
    """Spans by their block's row and what they read; each text stands once in its block."""
    rows = []
    for row, own in names.items():
        text = snapshot.block(row).text
        for name in own:
            start = text.index(name)
            sentence = next((first, last) for first, last in sentence_spans(text) if first <= start < last)
            rows.append((row, start, start + len(name), *sentence))
    table = np.array(rows, np.int32)
    rows_N, first_N = np.unique(table[:, 0], return_index=True)
    labels = np.zeros(len(table), np.uint8)
    return SalientSpans(table, labels, rows_N, np.append(first_N, len(table)).astype(np.int64), {})


def originals(batch: MaskedSentences) -> list[list[int]]:
    """The sentences before anything was hidden."""
    restored = [list(query) for query in batch.queries]
    for query, masks, targets in zip(restored, batch.masks, batch.targets, strict=True):
        for place, target in zip(masks, targets, strict=True):
            query[place] = target
    return restored


def same(first: MaskedSentences, second: MaskedSentences) -> bool:
    return (first.queries, first.masks, first.targets, first.passage_hashes_B.tolist()) == (
        second.queries,
        second.masks,
        second.targets,
        second.passage_hashes_B.tolist(),
    )


# ── What is hidden ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("masking", get_args(Masking))
def test_masks_stand_at_exactly_the_places_and_targets_are_what_stood_there(
    snapshot: Snapshot, spans: SalientSpans, masking: Masking
) -> None:
    texts = {text_hash(text): text for text in snapshot.titles_texts(0, COUNT)[1]}
    for step in range(8):
        batch = batches_of(snapshot, spans, masking)(step)
        assert len(batch) == 7
        for query, masks, whole, passage in zip(
            batch.queries, batch.masks, originals(batch), batch.passage_hashes_B.tolist(), strict=True
        ):
            assert [place for place, one in enumerate(query) if one == MASK] == masks
            assert MASK not in whole
            text = texts[passage]
            sentences = [text[start:end] for start, end in sentence_spans(text)]
            assert whole in WORDPIECES.ids(sentences)


def test_salient_masks_are_one_whole_date(snapshot: Snapshot, spans: SalientSpans) -> None:
    dates = {tuple(WORDPIECES.ids([str(year)])[0]) for i in range(COUNT) for year in (1000 + 7 * i, 1500 + i)}
    assert {len(date) for date in dates} == {1, 2}
    batches = batches_of(snapshot, spans, "salient")
    hidden = [tuple(targets) for step in range(40) for targets in batches(step).targets]
    assert set(hidden) <= dates and len(set(hidden)) > COUNT
    # Both dates of a town are drawn, each about as often.
    late = sum(target in {tuple(WORDPIECES.ids([str(1500 + i)])[0]) for i in range(COUNT)} for target in hidden)
    assert 0.4 < late / len(hidden) < 0.6


def test_a_span_is_drawn_again_if_it_is_longer_than_ten_wordpieces(tmp_path: Path) -> None:
    long, short = "Karl Theodor Maria Nikolaus Johann Jacob Philipp Franz Joseph Sylvester", "Lichtenfels"
    assert len(WORDPIECES.ids([long])[0]) > 10
    corpus = words(tmp_path, f"The count {long} lived in {short}.", f"The count {long} lived there.")
    spans = given(corpus, {0: [long, short], 1: [long]})
    batch = batches_of(corpus, spans, "salient").masked([0] * 100, random.Random(1))
    assert {tuple(targets) for targets in batch.targets} == {tuple(WORDPIECES.ids([short])[0])}
    assert 80 <= len(batch) < 100  # four draws, and then the passage is left out
    assert len(batches_of(corpus, spans, "uniform").masked([1, 0, 1], random.Random(5))) <= 1


@pytest.mark.parametrize("length", [3, 10, 40, 90])
def test_uniform_hides_15_percent_each_place_as_often(tmp_path: Path, length: int) -> None:
    text = " ".join(["Rome", *(["and"] * (length - 2)), "."])
    corpus = words(tmp_path, text)
    batches = batches_of(corpus, given(corpus, {0: ["Rome"]}), "uniform")
    batch = batches.masked([0] * DRAWS, random.Random(2))
    count = {3: 1, 10: 2, 40: 6, 90: 10}[length]  # 15 %, at least one and at most ten
    assert {len(query) for query in batch.queries} == {length}
    assert {len(masks) for masks in batch.masks} == {count}
    assert all(masks == sorted(set(masks)) for masks in batch.masks)
    often = Counter(place for masks in batch.masks for place in masks)
    share = count / length
    spread = (share * (1 - share) / DRAWS) ** 0.5
    assert all(abs(often[place] / DRAWS - share) < 5 * spread for place in range(length))


def test_help_says_how_many_wordpieces_are_hidden_at_most() -> None:
    assert explain(PretrainConfig).count(f", at most {MOST_MASKS}") == 2  # uniform and span


def test_random_spans_have_geometric_lengths_of_at_most_ten(tmp_path: Path) -> None:
    corpus = words(tmp_path, " ".join(["Rome", *(["and"] * 28), "."]))
    batch = batches_of(corpus, given(corpus, {0: ["Rome"]}), "span").masked([0] * DRAWS, random.Random(3))
    lengths = Counter(len(masks) for masks in batch.masks)
    law = {n: 0.2 * 0.8 ** (n - 1) for n in range(1, 10)} | {10: 0.8**9}
    assert sum(law.values()) == pytest.approx(1)
    assert lengths.keys() == law.keys()
    for n, share in law.items():
        assert abs(lengths[n] / DRAWS - share) < 5 * (share * (1 - share) / DRAWS) ** 0.5, n
    assert all(masks == list(range(masks[0], masks[0] + len(masks))) for masks in batch.masks)
    # Wherever it fits: runs of one wordpiece begin at every place as often.
    first = Counter(masks[0] for masks in batch.masks if len(masks) == 1)
    assert len(first) == 30 and max(first.values()) < 3 * lengths[1] / 30
    assert max(masks[-1] for masks in batch.masks) == 29


def test_a_random_span_is_no_longer_than_its_sentence(tmp_path: Path) -> None:
    corpus = words(tmp_path, "Rome fell.")
    batch = batches_of(corpus, given(corpus, {0: ["Rome"]}), "span").masked([0] * 300, random.Random(3))
    assert {len(masks) for masks in batch.masks} == {1, 2, 3}


# ── Long sentences ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("before", [0, 1, 5, 20, 40])
@pytest.mark.parametrize("masking", get_args(Masking))
def test_a_long_sentence_is_cut_around_the_span(tmp_path: Path, before: int, masking: Masking) -> None:
    text = " ".join([*(["once"] * before), "New York", *(["again"] * (40 - before)), "."])
    corpus = words(tmp_path, text)
    whole = WORDPIECES.ids([text])[0]
    batch = batches_of(corpus, given(corpus, {0: ["New York"]}), masking, limit=18).masked([0] * 5, random.Random(1))
    for query in originals(batch):
        assert len(query) == 16  # [CLS] and [SEP] are counted
        starts = [i for i in range(len(whole) - 15) if whole[i : i + 16] == query]
        assert starts
        place = query.index(WORDPIECES.ids(["new"])[0][0])
        assert query[place + 1] == WORDPIECES.ids(["york"])[0][0]
        assert place == min(before, 8) or query == whole[-16:]  # in the middle, as far as the sentence reaches
    if masking == "salient":
        assert {tuple(targets) for targets in batch.targets} == {tuple(WORDPIECES.ids(["New York"])[0])}


def test_a_sentence_that_just_fits_is_whole(tmp_path: Path) -> None:
    text = " ".join(["Rome", *(["and"] * 20), "."])
    corpus = words(tmp_path, text)
    batch = batches_of(corpus, given(corpus, {0: ["Rome"]}), "salient", limit=24).masked([0], random.Random(1))
    assert originals(batch) == WORDPIECES.ids([text])


# ── Batches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_schemes_draw_the_same_sentences(snapshot: Snapshot, spans: SalientSpans) -> None:
    for step in range(10):
        salient, uniform, span = (batches_of(snapshot, spans, masking)(step) for masking in get_args(Masking))
        assert originals(salient) == originals(uniform) == originals(span)
        np.testing.assert_array_equal(salient.passage_hashes_B, uniform.passage_hashes_B)
        np.testing.assert_array_equal(salient.passage_hashes_B, span.passage_hashes_B)
        assert not same(salient, uniform) and not same(uniform, span)


@pytest.mark.parametrize("masking", get_args(Masking))
def test_batches_follow_from_seed_and_step(snapshot: Snapshot, spans: SalientSpans, masking: Masking) -> None:
    in_order = [batches_of(snapshot, spans, masking)(step) for step in range(12)]
    batches = batches_of(snapshot, spans, masking)
    for step in reversed(range(12)):  # whatever was asked for before
        assert same(batches(step), in_order[step])
    other = batches_of(snapshot, spans, masking, seed=2)
    assert not any(same(other(step), in_order[step]) for step in range(12))


def test_an_epoch_has_every_passage_once_and_goes_on_into_the_next(snapshot: Snapshot, spans: SalientSpans) -> None:
    batches = batches_of(snapshot, spans, "salient")
    drawn = [passage for step in range(12) for passage in batches(step).passage_hashes_B.tolist()]
    assert len(drawn) == 84  # two epochs of forty passages, and four more
    assert len(set(drawn[:40])) == len(set(drawn[40:80])) == 40
    assert set(drawn[:40]) == set(drawn[40:80]) and drawn[:40] != drawn[40:80]


def test_a_part_is_some_of_the_examples(snapshot: Snapshot, spans: SalientSpans) -> None:
    batch = batches_of(snapshot, spans, "salient")(0)
    part = batch.part(slice(2, 5))
    assert len(part) == 3
    assert (part.queries, part.masks, part.targets) == (batch.queries[2:5], batch.masks[2:5], batch.targets[2:5])
    assert part.passage_hashes_B.tolist() == batch.passage_hashes_B[2:5].tolist()
