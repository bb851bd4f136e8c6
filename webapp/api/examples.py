"""Examples for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

QUESTION: Final[dict[str, Any]] = {"question": "Who directed 2001: A Space Odyssey?", "k": 1}

_TEXT: Final = "2001: A Space Odyssey is a 1968 epic science fiction film produced and directed by Stanley Kubrick."

ANSWER: Final[dict[str, Any]] = {
    "id": "0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55",
    "created_at": "2026-01-31T12:00:00+00:00",
    "without": [],
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
        }
    ],
    "explains": "answer",
    "normalisation": "block+null",
    "min_probability": 0.02,
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
}

_EVIDENCE: Final = ANSWER["evidence"][0]
_PLACE: Final = {"section": _EVIDENCE["section"], "start": 0, "end": len(_EVIDENCE["text"])}

WHY: Final[dict[str, Any]] = {
    "cause": "outweighed",
    "detail": "Block 2 (Arthur C. Clarke) says “Arthur C. Clarke”, which has 19.0\N{NO-BREAK SPACE}% over all blocks; "
    "“Stanley Kubrick” outweighs it with 52.0\N{NO-BREAK SPACE}%, most of it from block 1 (2001: A Space Odyssey).",
    "chosen": {
        "text": "Stanley Kubrick",
        "probability": 0.52,
        "block_id": _EVIDENCE["block_id"],
        "title": "2001: A Space Odyssey",
    },
    "right": {
        "text": "Arthur C. Clarke",
        "probability": 0.19,
        "block_id": "2f1e0d9c8b7a69584736251403f2e1d0",
        "title": "Arthur C. Clarke",
    },
    "no_answer_probability": None,
    "rank": None,
    "looked_at": None,
}

RETRIEVAL: Final[dict[str, Any]] = {
    "question": ANSWER["question"],
    "blocks": [
        {name: _EVIDENCE[name] for name in ("rank", "block_id", "title", "text", "section", "url")}
        | {"score": _EVIDENCE["retriever_score"], "prior": 1.0}
    ],
    **{name: ANSWER[name] for name in ("model", "index", "corpus")},
}

BLOCK: Final[dict[str, Any]] = {
    **{name: _EVIDENCE[name] for name in ("block_id", "title", "text", "url")},
    **_PLACE,
    "previous": None,
    "next": None,
    "corpus": ANSWER["corpus"],
}

ARTICLE: Final[dict[str, Any]] = {
    **{name: _EVIDENCE[name] for name in ("title", "text", "url")},
    "licence": "CC BY-SA 4.0",
    "attribution": "Wikipedia contributors",
    "blocks": [{"block_id": _EVIDENCE["block_id"], **_PLACE}],
    "corpus": ANSWER["corpus"],
}

BATCH: Final[dict[str, Any]] = {
    "questions": [QUESTION["question"], {"question": "What is the capital of Bhutan?", "k": 99}],
    "k": 1,
}

RESULTS: Final[dict[str, Any]] = {
    "results": [
        {"index": 0, "answer": ANSWER},
        {
            "index": 1,
            "problem": {
                "type": "about:blank",
                "title": "Bad Request",
                "status": 400,
                "detail": "The request is not valid.",
                "errors": [{"field": "k", "detail": "k, the number of blocks to read, must be between 1 and 50."}],
            },
        },
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
}

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
}

CANNOT_FILL: Final[dict[str, Any]] = {
    "type": "about:blank",
    "title": "Conflict",
    "status": 409,
    "detail": "The model realm-mini@118d966c771e957e has no encoder of masked sentences; it answers questions only.",
}

PROBLEM: Final[dict[str, Any]] = {
    "type": "about:blank",
    "title": "Bad Request",
    "status": 400,
    "detail": "The request is not valid.",
    "errors": [{"field": "k", "detail": "k, the number of blocks to read, must be between 1 and 50."}],
}
