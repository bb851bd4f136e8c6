"""Examples of records that operators list and read, for the API's documentation.

They are consistent: the model was trained on the corpus and built the index, and the evaluation measured both.
"""

from __future__ import annotations

from typing import Any, Final

_JOB: Final = "2f9f4d7e-58a1-4d3c-9a75-0c8de3b1a6f2"
_AT: Final = "2026-01-31T12:20:00Z"
_DIGEST: Final = "5b0c1d5a3f6e7c2f9b1e4d8a7c6f5e4d3c2b1a0f9e8d7c6b5a4f3e2d1c0b9a8f"

CORPUS: Final[dict[str, Any]] = {
    "id": 1,
    "name": "vital-en",
    "snapshot_id": _DIGEST,
    "path": f"corpora/vital-en/{_DIGEST[:16]}",
    "source": "default",
    "language": "en",
    "articles": 10284,
    "blocks": 21034,
    "share": 1.0,
    "licence": "CC BY-SA 4.0",
    "attribution": "Wikipedia contributors",
    "job": _JOB,
    "indexes": [4],
    "span_sets": [1],
    "model_versions": [3],
    "removed_at": None,
    "created_at": _AT,
}

MODEL: Final[dict[str, Any]] = {
    "id": 3,
    "name": "tuned on feedback",
    "version": "2",
    "model_hash": _DIGEST,
    "block_hash": _DIGEST[::-1],
    "path": "models/tuned-on-feedback-2f9f4d7e",
    "parent": 2,
    "corpus": 1,
    "job": _JOB,
    "children": [],
    "indexes": [4],
    "evaluations": [7],
    "pinned": False,
    "removed_at": None,
    "created_at": _AT,
}
MODEL_MORE: Final[dict[str, Any]] = {"card": "# tuned on feedback\n\nFine-tuned from realm-mini on 500 questions."}

INDEX: Final[dict[str, Any]] = {
    "id": 4,
    "generation": "vital-en-2f9f4d7e",
    "model": 3,
    "corpus": 1,
    "path": "indexes/vital-en-2f9f4d7e",
    "rows": 21034,
    "dim": 128,
    "search": "exact: 21,034 blocks take 11 MB",
    "job": _JOB,
    "evaluations": [7],
    "deployments": [12],
    "folded_from": [],
    "folded_into": None,
    "pinned": False,
    "removed_at": None,
    "created_at": _AT,
}

QUESTION_SET: Final[dict[str, Any]] = {
    "id": 2,
    "name": "plain-dev",
    "purpose": "measure",
    "path": "questions/plain-dev.jsonl",
    "sha256": _DIGEST,
    "questions": 500,
    "origin": "written by hand, CC0",
    "evaluations": [7],
    "created_by": "stella",
    "created_at": _AT,
}

SPAN_SET: Final[dict[str, Any]] = {
    "id": 1,
    "corpus": 1,
    "path": f"spans/{_DIGEST[:16]}",
    "tagger": "spacy",
    "spans": 148210,
    "blocks": 21034,
    "job": _JOB,
    "created_at": _AT,
}

EVALUATION: Final[dict[str, Any]] = {
    "id": 7,
    "model": 3,
    "corpus": 1,
    "state_id": "",
    "index": 4,
    "questions": 2,
    "retriever": "dense",
    "k": 5,
    "normalisation": "block+null",
    "sample": 0,
    "asked": 500,
    "exact_match": 0.25,
    "recall_at_5": 0.5,
    "predictions": f"runs/{_JOB}/predictions.jsonl",
    "job": _JOB,
    "created_at": _AT,
}
_WHY: Final = {
    "right": 110,
    "withheld": 15,
    "outweighed": 40,
    "misread": 85,
    "not_retrieved": 200,
    "not_in_corpus": 50,
}
EVALUATION_MORE: Final[dict[str, Any]] = {"figures": {"n": 500, "exact_match": 0.25, "recall@5": 0.5, "why": _WHY}}
