"""Whoever asks what an abbreviation stands for gets all of its words, whichever part is read."""

from __future__ import annotations

import pytest

from realm_core.serving.english.whole_answers import WholeAnswer

UNESCO = (
    "The United Nations Educational, Scientific and Cultural Organization (UNESCO) is an agency of the United Nations."
)


@pytest.mark.parametrize(
    ("question", "text", "read", "answer"),
    [
        (
            "What does UNESCO stand for?",
            UNESCO,
            "Nations",
            "United Nations Educational, Scientific and Cultural Organization",
        ),
        ("unesco short for", UNESCO, "Cultural", "United Nations Educational, Scientific and Cultural Organization"),
        ("What does U.N.E.S.C.O. stand for?", UNESCO, "agency", "agency"),
        ("Who runs UNESCO?", UNESCO, "United Nations", "United Nations"),
        ("What is LED an acronym of?", "A light-emitting diode emits light.", "diode", "light-emitting diode"),
        ("What does FBI stand for?", "The Federal Bureau of Fun is not the FBI.", "Bureau", "Bureau"),
        (
            "What does FBI stand for?",
            "It is the Federal Bureau of Investigation.",
            "Bureau",
            "Federal Bureau of Investigation",
        ),
        ("What is DNA short for?", "Deoxyribonucleic acid is a polymer.", "acid", "acid"),
        ("What does R stand for?", "Franklin Delano Roosevelt", "Delano", "Delano"),
    ],
)
def test_the_words_whose_initials_spell_it(question: str, text: str, read: str, answer: str) -> None:
    start = text.index(read)
    first, last = WholeAnswer.of(question).around(text, start, start + len(read), None)
    assert text[first:last] == answer
