"""Examples for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

QUESTION: Final[dict[str, Any]] = {"question": "Who directed 2001: A Space Odyssey?", "k": 1}

QUESTION_IN: Final[dict[str, Any]] = {
    "question": "When was the castle of Turku founded?",
    "collections": ["travel"],
    "filters": {"tags": ["cities"], "since": "2025-01-01"},
}

_TEXT: Final = "2001: A Space Odyssey is a 1968 epic science fiction film produced and directed by Stanley Kubrick."

ANSWER: Final[dict[str, Any]] = {
    "id": "0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55",
    "created_at": "2026-01-31T12:00:00+00:00",
    "without": [],
    "collections": [],
    "filters": {},
    "evidence_gone": [],
    "purged_at": None,
    "question_language": None,
    "passage_language": None,
    "corpus_share": 1.0,
    "serving_ms": {"store": 3.0},
    "question": QUESTION["question"],
    "answer": {"text": "Stanley Kubrick", "probability": 0.91, "also": ["Kubrick"]},
    "no_answer_probability": 0.06,
    "answers": [{"text": "Stanley Kubrick", "probability": 0.91, "also": ["Kubrick"]}],
    "evidence": [
        {
            "rank": 1,
            "block_id": "5f2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d",
            "title": "2001: A Space Odyssey (film)",
            "text": _TEXT,
            "section": "",
            "url": "https://en.wikipedia.org/wiki/2001:_A_Space_Odyssey_(film)",
            "start": _TEXT.index("Stanley Kubrick"),
            "end": _TEXT.index("Stanley Kubrick") + len("Stanley Kubrick"),
            "prior": 1.0,
            "likelihood": 0.91,
            "posterior": 1.0,
            "support": 0.0,
            "retriever_score": 14.2,
            "retriever_prior": 1.0,
            "no_answer_likelihood": 0.06,
            "candidates": [
                {
                    "key": "stanley kubrick",
                    "text": "Stanley Kubrick",
                    "likelihood": 0.91,
                    "start": _TEXT.index("Stanley Kubrick"),
                    "end": _TEXT.index("Stanley Kubrick") + len("Stanley Kubrick"),
                }
            ],
            "collection": "vital-en",
            "opens": True,
            "licence": "CC BY-SA 4.0",
            "attribution": "Wikipedia contributors",
        }
    ],
    "explains": "answer",
    "normalisation": "block+null",
    "min_probability": 0.02,
    "min_confidence": 0.45,
    "confidence": 0.94,
    "confidence_slope": 1.0,
    "confidence_offset": 0.0,
    "confidence_likelihood": 0.0,
    "confidence_margin": 0.0,
    "model": "realm-mini@118d966c771e957e",
    "index": "0f1e2d3c4b5a6978-404d37f1eca8f805",
    "corpus": "vital-en@0f1e2d3c4b5a6978",
    "latency_ms": 74.0,
    "timings_ms": {"wait": 0.0, "embed": 8.0, "search": 4.0, "read": 61.0, "marginalise": 1.0},
    "read_as": "",
}

_EVIDENCE: Final = ANSWER["evidence"][0]
_TOLD: Final = ("rank", "block_id", "title", "text", "section", "url", "licence", "attribution")

RETRIEVAL: Final[dict[str, Any]] = {
    "question": ANSWER["question"],
    "blocks": [
        {name: _EVIDENCE[name] for name in _TOLD}
        | {"score": _EVIDENCE["retriever_score"], "prior": 1.0, "collection": _EVIDENCE["collection"]}
    ],
    **{name: ANSWER[name] for name in ("model", "index", "corpus", "read_as")},
}

BATCH: Final[dict[str, Any]] = {
    "questions": [QUESTION["question"], {"question": "What is the capital of Bhutan?", "k": 99}],
    "k": 1,
}

PROBLEM: Final[dict[str, Any]] = {
    "type": "about:blank",
    "title": "Bad Request",
    "status": 400,
    "detail": "The request is not valid.",
    "errors": [{"field": "k", "detail": "k, the number of blocks to read, must be between 1 and 50."}],
}

RESULTS: Final[dict[str, Any]] = {
    "results": [
        {"index": 0, "answer": ANSWER},
        {"index": 1, "problem": PROBLEM},
    ]
}

LISTED_ANSWER: Final[dict[str, Any]] = {
    "id": ANSWER["id"],
    "question": QUESTION["question"],
    "answer": "Stanley Kubrick",
    "probability": 0.91,
    "no_answer_probability": 0.06,
    "k": 1,
    "deployment": 7,
    "latency_ms": 74.0,
    "created_at": "2026-01-31T12:00:00Z",
    "evidence_changed": False,
}
