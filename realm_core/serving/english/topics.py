"""A topic instead of a question: "napoleon" or "tell me about jazz" is read as "What is napoleon?".

A reader is trained on questions, and says "not here" of a topic, although the beginning of its article is what is
wanted. Only what is the title of an article that was found is a topic, so that no other words are taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from realm_core.corpus.records import Block
from realm_core.serving.english.whole_answers import is_titled

_ASKS_ABOUT: Final = re.compile(
    r"(?:please\s+)?(?:(?:tell|teach) me (?:more |something )?about|explain|define|describe"
    r"|(?:the )?(?:definition|meaning) of|information (?:on|about)|info (?:on|about))\s+",
    re.IGNORECASE,
)


def read_as(question: str, blocks: Iterable[Block]) -> str:
    """The question to read; the given one, unless it is the title of an article that one of the blocks begins."""
    topic = question.strip(" .!?")
    topic = topic[asks.end() :] if (asks := _ASKS_ABOUT.match(topic)) else topic
    if any(block.start == 0 and is_titled(topic, block.title) for block in blocks):
        return f"What is {topic}?"
    return question
