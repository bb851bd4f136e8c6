"""A topic is read as a question where an article has that title."""

from __future__ import annotations

import pytest

from realm_core.corpus.records import Block
from realm_core.serving.english.topics import read_as


def block(title: str, start: int = 0) -> Block:
    return Block(0, "0" * 32, title, f"{title} is something.", start, start, start + 10, "", "")


BLOCKS = [block("Napoleon"), block("Python (programming language)"), block("Black holes"), block("Jazz", start=900)]


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
        ("", ""),
    ],
)
def test_titles_are_topics(typed: str, expected: str) -> None:
    assert read_as(typed, BLOCKS) == expected
