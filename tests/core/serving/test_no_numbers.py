"""A question about a name or a place is not answered with a number or a date alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from realm_core.corpus.records import Block
from realm_core.model.checkpoint import load_model
from realm_core.serving.no_numbers import asks_no_number, numbers_alone
from realm_core.serving.reading import BlockReading, SearchResult
from realm_core.text.wordpieces import Wordpieces
from tests.tiny import tiny_model

TEXT = "Mozart (27 January 1756 – 5 December 1791) came from Salzburg in 44 BC. Apollo 11 flew in the 1960s."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("mozart birthplace", True),
        ("Where was Napoleon born?", True),
        ("anne frank where did she die", True),
        ("In which city is the Louvre?", True),
        ("marie antoinette how did she die", True),
        ("Who wrote 1984?", True),
        ("When was Mozart born?", False),
        ("Where and when was Mozart born?", False),
        ("Who scored how many goals?", False),
        ("Which place does cerium have in the lanthanide series?", False),
        ("Where in the line of Sapa Incas does Pachacuti stand?", False),
        ("mozart born", False),
    ],
)
def test_questions(question: str, expected: bool) -> None:
    assert asks_no_number(question) is expected


def test_spans_of_numbers_and_dates_alone() -> None:
    [body] = Wordpieces.default().encode([TEXT])
    found_LM = numbers_alone(body, TEXT, 9)
    length, longest = found_LM.shape
    assert (length, longest) == (len(body.offsets), 9)
    spans = {
        TEXT[body.offsets[first][0] : body.offsets[first + extent][1]]
        for first, extent in found_LM.nonzero().tolist()
        if first + extent < length
    }
    assert {"27 January 1756", "1756", "44 BC", "the 1960s", "5 December 1791"} <= spans
    assert not any(word in span for span in spans for word in ("Mozart", "Salzburg", "Apollo", "from"))
    assert "January" not in spans and "–" not in spans  # without a digit


def test_such_spans_are_lowered(tmp_path: Path) -> None:
    model = load_model(tiny_model(tmp_path))
    model.reader.for_inference(torch.device("cpu"))
    reading = BlockReading(model.reader, model.config, model="m", index="i", corpus="c")
    block = Block(0, "0" * 32, "Mozart", TEXT, 0, 0, len(TEXT), "", "")

    def logits(question: str, numbers: bool) -> torch.Tensor:
        [[read]] = reading.read([SearchResult(question, [block], [0.0])])
        own_LM = numbers_alone(read.body, TEXT, read.logits_LM.shape[1]) == numbers
        return read.logits_LM[own_LM & read.logits_LM.isfinite()]

    assert logits("Where was Mozart born?", numbers=True).max() < logits("Where was Mozart born?", numbers=False).min()
    assert logits("When was Mozart born?", numbers=True).max() > logits("When was Mozart born?", numbers=False).min()
