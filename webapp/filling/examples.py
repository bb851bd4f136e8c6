"""Examples of masked sentences, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

from webapp.asking.examples import ANSWER

SENTENCE: Final[dict[str, Any]] = {
    "sentence": "A regular polygon with 3 sides can be constructed, because 3 is a [MASK] prime.",
    "k": 2,
    "truth": "Fermat",
}

_FERMAT: Final[dict[str, Any]] = {
    "words": ["fermat"],
    "text": "fermat",
    "without_retrieval": 0.02,
    "best_block": 0.7,
    "marginal": 0.564,
}

FILLING: Final[dict[str, Any]] = {
    "sentence": SENTENCE["sentence"],
    "guesses": [
        _FERMAT,
        {"words": ["prime"], "text": "prime", "without_retrieval": 0.12, "best_block": 0.1, "marginal": 0.104},
    ],
    "truth": _FERMAT,
    "explains": "truth",
    "masks": [
        {
            "without_retrieval": [{"text": "prime", "probability": 0.12}, {"text": "fermat", "probability": 0.02}],
            "best_block": [{"text": "fermat", "probability": 0.7}, {"text": "prime", "probability": 0.1}],
            "marginal": [{"text": "fermat", "probability": 0.564}, {"text": "prime", "probability": 0.104}],
        }
    ],
    "best_block_id": "2f1e0d9c8b7a69584736251403f2e1d0",
    "evidence": [
        {
            "rank": 1,
            "block_id": "2f1e0d9c8b7a69584736251403f2e1d0",
            "title": "Constructible polygon",
            "text": "An odd prime number of sides can be constructed only if that number is a Fermat prime.",
            "section": "",
            "url": "https://en.wikipedia.org/wiki/Constructible_polygon",
            "prior": 0.8,
            "likelihood": 0.7,
            "posterior": 0.993,
            "utility": 3.56,
            "retriever_score": 15.8,
        },
        {
            "rank": 2,
            "block_id": None,
            "title": "",
            "text": "",
            "section": "",
            "url": "",
            "prior": 0.2,
            "likelihood": 0.02,
            "posterior": 0.007,
            "utility": 0.0,
            "retriever_score": 14.4,
        },
    ],
    "model": "realm@9c1d02e7b5a4f386",
    "index": ANSWER["index"],
    "corpus": ANSWER["corpus"],
    "latency_ms": 120.0,
    "timings_ms": {"wait": 0.0, "embed": 9.0, "search": 4.0, "read": 105.0, "marginalise": 2.0},
    "filled_by": "encoder",
    "no_answer_probability": None,
}
