"""Questions on the tiny corpus, and rows mined from it, for tests of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from realm_core.training.rows import ReadingRow
from tests.tiny import ARTICLES

# question, answer, the article that holds it
QUESTIONS = [
    ("When was the Suez Canal opened?", "17 November 1869", "Suez Canal"),
    ("Which moons does Mars have?", "Phobos and Deimos", "Mars"),
    ("What is the symbol of tungsten?", "W", "Tungsten"),
    ("Who directed 2001: A Space Odyssey?", "Stanley Kubrick", "Stanley Kubrick"),
    ("Into what does the Nile flow?", "the Mediterranean Sea", "Nile"),
    ("Where was Marie Curie born?", "Warsaw", "Marie Curie"),
    ("What is the capital of Bhutan?", "Thimphu", "Bhutan"),
    ("What does photosynthesis turn light into?", "chemical energy", "Photosynthesis"),
    ("What did Ada Lovelace write on the Analytical Engine?", "notes", "Ada Lovelace"),
    ("When did the Berlin Wall fall?", "9 November 1989", "Berlin"),
    ("Which country does the Amazon River cross?", "Brazil", "Amazon River"),
    ("When did Bach die?", "1750", "Johann Sebastian Bach"),
]


def questions() -> list[dict[str, Any]]:
    """As a question file has them."""
    return [{"question": question, "answers": [answer]} for question, answer, _ in QUESTIONS]


def reading_rows() -> list[ReadingRow]:
    """Each question with its article and two of the others."""
    others = list(ARTICLES.items())
    return [
        ReadingRow(
            question=question,
            answers=(answer,),
            answer_type="string",
            positives=((title, ARTICLES[title]),),
            negatives=tuple(p for p in (others[i - 4], others[i - 5]) if answer not in p[1]),
            group="tiny",
        )
        for i, (question, answer, title) in enumerate(QUESTIONS)
    ]


def write_lines(path: Path, values: list[Any]) -> Path:
    """One JSON value a line."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path
