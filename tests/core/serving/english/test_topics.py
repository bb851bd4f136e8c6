"""A topic is read as a question where an article has that title."""

from __future__ import annotations

import pytest

from realm_core.corpus.records import Block
from realm_core.serving.english.topics import read_as


def block(title: str, start: int = 0, text: str = "It is something.") -> Block:
    return Block(0, "0" * 32, title, f"{title}: {text}", start, start, start + 10, "", "")


DEMOCRACY = block("Democracy", text="In a direct democracy the people decide.")
BLOCKS = [
    DEMOCRACY,
    *map(block, ["NASA", "Napoleon", "Python (programming language)", "Black holes"]),
    block("Jazz", start=900),
]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("napoleon", "What is napoleon?"),
        ("Napoleon?", "What is Napoleon?"),
        ("Tell me about Napoleon", "What is Napoleon?"),
        ("the definition of black hole", "What is black hole?"),
        ("python", "What is python?"),
        ("jazz", "jazz"),  # no block begins its article
        ("napoleon born", "napoleon born"),
        ("Who is Napoleon?", "Who is Napoleon?"),
        ("tell me about it", "tell me about it"),
        ("What does democracy mean?", "What is democracy?"),
        ('what does the term "democracy" mean', "What is democracy?"),
        ("What does the word democracy mean?", "What does the word democracy mean?"),
        ("What is meant by democracy?", "What is democracy?"),
        ("What does NASA mean?", "What does NASA mean?"),  # of which words is it made?
        ("What does Napoleon mean?", "What does Napoleon mean?"),
        ("What does it mean?", "What does it mean?"),
        ("", ""),
    ],
)
def test_titles_are_topics(typed: str, expected: str) -> None:
    assert read_as(typed, BLOCKS) == expected
