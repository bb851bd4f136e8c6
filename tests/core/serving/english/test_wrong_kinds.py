"""A question for a name or a place is not answered with a number or a date alone, one for an age not with a date, and
one for a number not without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from realm_core.corpus.records import Block
from realm_core.model.checkpoint import load_model
from realm_core.serving.english.rules import Rules
from realm_core.serving.english.unknown_words import DOUBT
from realm_core.serving.english.wrong_kinds import WrongKind, spans_of, wrong_kind
from realm_core.serving.reading import BlockReading, SearchResult
from realm_core.text.wordpieces import Wordpieces
from tests.tiny import tiny_model

TEXT = (
    "Mozart (27 January 1756 – 5 December 1791) came from Salzburg in 44 BC, at 35. "
    "Apollo 11 flew 1,791 miles in the 1960s. Nannerl was one of two."
)
NUMBER, DATE, UNCOUNTED = WrongKind.NUMBER, WrongKind.DATE, WrongKind.UNCOUNTED


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("mozart birthplace", NUMBER),
        ("Where was Napoleon born?", NUMBER),
        ("anne frank where did she die", NUMBER),
        ("In which city is the Louvre?", NUMBER),
        ("marie antoinette how did she die", NUMBER),
        ("Who wrote 1984?", NUMBER),
        ("When was Mozart born?", None),
        ("Where and when was Mozart born?", None),
        ("Who scored how many goals?", None),
        ("Which place does cerium have in the lanthanide series?", None),
        ("Where in the line of Sapa Incas does Pachacuti stand?", None),
        ("mozart born", None),
        ("how old was mozart when he died", DATE),
        ("At what age did Picasso die?", DATE),
        ("how long did mozart live", DATE),
        ("How old is the Eiffel Tower?", None),
        ("How long did the Hundred Years' War last?", None),
        ("In which German city was Beethoven born?", NUMBER),
        ("Between which two seas does the canal run?", NUMBER),
        ("what chemical element is named after Marie Curie", NUMBER),
        ("Which dynasties followed?", NUMBER),
        ("Which is the city's year of foundation?", None),
        ("What size is the city?", None),
        ("Which novel did Orwell write in 1948?", None),
        ("What number of people lived in which city?", None),
        ("how many members did monty python have", UNCOUNTED),
        ("Into how many main parts is the Hebrew Bible divided?", UNCOUNTED),
        ("What tells you how many protons an atom has?", None),
        ("How much gold is there?", None),
    ],
)
def test_questions(question: str, expected: WrongKind | None) -> None:
    assert wrong_kind(question) is expected


def found(kind: WrongKind) -> set[str]:
    """The spans of `TEXT` of this kind."""
    [body] = Wordpieces.default().encode([TEXT])
    found_LM = spans_of(kind, body, TEXT, 9)
    length, longest = found_LM.shape
    assert (length, longest) == (len(body.offsets), 9)
    return {
        TEXT[body.offsets[first][0] : body.offsets[first + extent][1]]
        for first, extent in found_LM.nonzero().tolist()
        if first + extent < length
    }


def test_spans_of_dates_alone() -> None:
    spans = found(DATE)
    assert {"27 January 1756", "1756", "44 BC", "the 1960s", "5 December 1791", "December"} <= spans
    assert not spans & {"11", "27", "35", "1,791", "Mozart", "Apollo 11"}


def test_spans_of_numbers_and_dates_alone() -> None:
    spans = found(NUMBER)
    assert {"27 January 1756", "1756", "44 BC", "the 1960s", "5 December 1791", "11", "35"} <= spans
    assert not any(word in span for span in spans for word in ("Mozart", "Salzburg", "Apollo", "from"))
    assert "January" not in spans and "–" not in spans  # without a digit


def test_spans_without_a_number() -> None:
    spans = found(UNCOUNTED)
    assert {"Mozart", "Salzburg", "Nannerl", "was"} <= spans
    assert not any(word in span.split() for span in spans for word in ("27", "11", "1,791", "one", "two"))


def test_such_spans_are_lowered(tmp_path: Path) -> None:
    model = load_model(tiny_model(tmp_path))
    model.reader.for_inference(torch.device("cpu"))
    reading = BlockReading(model.reader, model.config, model="m", index="i", corpus="c")
    block = Block(0, "0" * 32, "Mozart", TEXT, 0, 0, len(TEXT), "", "")

    def logits(question: str, numbers: bool) -> torch.Tensor:
        [[read]] = reading.read([SearchResult(question, [block], [0.0])])
        own_LM = spans_of(NUMBER, read.body, TEXT, read.logits_LM.shape[1]) == numbers
        return read.logits_LM[own_LM & read.logits_LM.isfinite()]

    assert logits("Where was Mozart born?", numbers=True).max() < logits("Where was Mozart born?", numbers=False).min()
    assert logits("When was Mozart born?", numbers=True).max() > logits("When was Mozart born?", numbers=False).min()


def test_what_is_not_counted_is_doubted() -> None:
    [body] = Wordpieces.default().encode([TEXT])
    block = Block(0, "0" * 32, "Mozart", TEXT, 0, 0, len(TEXT), "", "")
    logits_LM = Rules.of("How many were there?").applied(torch.zeros(len(body.offsets), 9), block, body)
    uncounted_LM = spans_of(UNCOUNTED, body, TEXT, 9)
    assert (logits_LM[uncounted_LM] == -DOUBT).all() and (logits_LM[~uncounted_LM] == 0).all()
