"""The paper's run in numbers, against the same written out by hand; and the page that shows them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from realm_core.model.bert import Architecture, Bert
from realm_core.selfcheck import cost

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cost.md"
H100 = cost.DATASHEETS[1]


def forward(length: int) -> int:
    """Operations of BERT-base over one sequence: 12 layers, width 768, inner width 3072."""
    return 12 * (4 * 2 * length * 768 * 768 + 2 * 2 * length * length * 768 + 2 * 2 * length * 768 * 3072)


def test_a_step_is_512_sentences_with_seven_blocks_and_the_null_block() -> None:
    sequences = [64] * 512 + [288] * 512 * 7 + [3] + [350] * 512 * 7 + [65] * 512
    # The gradient is two products for each; but queries, keys and values of the first layer pass none on.
    layers = 3 * sum(map(forward, sequences)) - 3 * 2 * sum(sequences) * 768 * 768
    vectors = 3 * 2 * (512 + 512 * 7 + 1) * 768 * 128
    words = 512 * 8 * 10 * (3 * 2 * 768 * 768 + 2 * 2 * 768 * 30522)  # the word embeddings are not trained
    assert cost.step_flops() == layers + vectors + words


def test_the_corpus_and_the_index() -> None:
    assert cost.corpus_flops() == 13_353_718 * forward(288)
    assert cost.search_flops() == 2 * 512 * 13_353_718 * 128
    assert cost.index_bytes(2) == 13_353_718 * 256


def test_parameters_are_those_of_two_encoders() -> None:
    with torch.device("meta"):
        layers = Bert(cost.BERT_BASE).encoder
    assert cost.trained_parameters() == 2 * sum(parameter.numel() for parameter in layers.parameters())


def test_what_training_keeps_is_what_autograd_holds_on_to() -> None:
    """Measured of two short texts through four layers; of this layer's parts, at least the inputs of its products."""
    small = Architecture(hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256)
    kept = cost.kept_bytes(torch.device("cpu"), small)
    inputs = 64 + 64 + 256 + 64  # of queries, keys and values; of what leaves attention, rises, and falls
    assert 2 * inputs < kept < 16 * inputs
    half = replace(small, hidden_size=32, intermediate_size=128)
    assert cost.kept_bytes(torch.device("cpu"), half) == pytest.approx(kept / 2, rel=0.1)
    assert cost.activation_bytes(kept) == 12 * kept * (64 + 7 * 288 + 3 + 7 * 350 + 65)


def test_times_shrink_with_devices_and_with_their_share() -> None:
    assert cost.step_s(H100, 1) == cost.step_flops() / (989e12 * cost.ASSUMED_SHARE)
    assert cost.step_s(H100, 64) == pytest.approx(cost.step_s(H100, 1) / 64)
    half = cost.DeviceProfile("half as good", H100.peak_flops, H100.training_share / 2, H100.embedding_share)
    assert cost.step_s(half, 8) == pytest.approx(2 * cost.step_s(H100, 8))
    assert cost.corpus_s(half, 8) == cost.corpus_s(H100, 8)


def test_a_row_of_the_table() -> None:
    device = cost.DeviceProfile("even", cost.step_flops(), 0.5, 0.25)  # two seconds a step
    row = cost.table([device]).splitlines()[3]  # of eight devices
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    corpus_s = cost.corpus_flops() / (2 * device.peak_flops * 0.25)
    assert cells[2:6] == ["50% / 25%", "8 + 2", "250 ms", "13.9 h"]
    assert cells[6] == "139"  # ten devices, 50,000 s
    assert cells[7] == f"{corpus_s / 60:.1f} min"
    assert cells[8] == f"{corpus_s / 0.25:,.0f}"
    assert int(cells[9]) == -(-corpus_s * 2 // (500 * 0.25))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.05, "50 ms"), (1.5, "1.5 s"), (119, "119.0 s"), (120, "2.0 min"), (7200, "2.0 h"), (3e5, "3.5 days")],
)
def test_durations_have_a_unit_that_one_can_read(seconds: float, said: str) -> None:
    assert cost._duration(seconds) == said


def test_the_page_shows_the_tables_that_the_command_prints() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert cost.formulas() in page
    assert cost.table(cost.DATASHEETS) in page
    assert re.search(r"selfcheck --device cuda --cost", page)
