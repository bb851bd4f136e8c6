"""A topic instead of a question: "napoleon" or "tell me about jazz" is read as "What is napoleon?".

A reader is trained on questions, and says "not here" to a topic, although the beginning of its article answers it. A
topic must be the title of an article that was found, so that no other words are taken for one. "What does democracy
mean?" is read so, too, if the article writes the term in lower case: of a name, an abbreviation or "the word dinosaur"
it asks for the parts.
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
_ASKS_MEANING: Final = re.compile(
    r"what (?:does|do) (?:the term )?[\"“'‘]?(?P<does>[^\"“”‘]+?)[\"”'’]? mean"
    r"|what(?:['’]?s| is) meant by (?P<meant>.+)",
    re.IGNORECASE,
)


def read_as(question: str, blocks: Iterable[Block]) -> str:
    """The question to read: the given one, unless it is the title of an article whose beginning is among the blocks."""
    topic = question.strip(" .!?")
    topic = topic[asks.end() :] if (asks := _ASKS_ABOUT.match(topic)) else topic
    if meaning := _ASKS_MEANING.fullmatch(topic):
        topic = meaning["does"] or meaning["meant"]
    for block in blocks:
        is_its_own = block.start == 0 and is_titled(topic, block.title)
        if is_its_own and (meaning is None or topic.lower() in block.text):
            return f"What is {topic}?"
    return question
