"""Questions on the tiny corpus, for tests of training and evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.core.conftest import Deployment

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


def write_lines(path: Path, values: list[Any]) -> Path:
    """One JSON value a line."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def finetune_arguments(
    deployment: Deployment, folder: Path, settings: Mapping[str, object], *options: object, output: str = "tuned"
) -> list[str]:
    """A command line of `finetune`; without `--questions` among the options it learns from all questions above."""
    words = [*deployment.arguments(), "--output", folder / output, "--device", "cpu", *options]
    if "--questions" not in options:
        words += ["--questions", write_lines(folder / "tiny.jsonl", questions())]
    words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [str(word) for word in words]
