"""Examples of operators' requests and responses, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

_EARLIER: Final = "7c0e8a52-6f0d-4d0b-8b55-3d2c1e4f9a10"


def _new(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"kind": kind, "parameters": parameters}


# Omitted settings have their defaults. The first example is the one on the API's page.
NEW_JOBS: Final[dict[str, dict[str, Any]]] = {
    "Build an index": _new("index", model=3, corpus=1),
    "Fold the edits of a corpus": _new("fold", index=4),
    "Join corpora": _new("join", index=[4, 7], corpus_name="all"),
    "Ingest a corpus": _new("ingest", source="jsonl", file="handbook.jsonl", corpus_name="handbook", licence="CC0 1.0"),
    "Find salient spans": _new("spans", corpus=1),
    "Make a first model": _new("warmstart", corpus=1, name="first"),
    "Warm up the embedder (ICT)": _new("ict", model=1, corpus=1, steps=2000),
    "Warm up the encoder (MLM)": _new("mlm", model=2, corpus=1, steps=4000, name="baseline"),
    "Pre-train": _new("pretrain", model=3, corpus=1, index=4, spans=1, steps=4000, refresh_every=100),
    "Fine-tune": _new("finetune", model=3, corpus=1, index=4, questions=[1], epochs=2),
    "Train the retriever": _new("train-retriever", model=3, index=[4], questions=[1], name="finds more"),
    "Fine-tune as before": _new("finetune", epochs=4, name="longer") | {"settings_of": _EARLIER},
    "Evaluate": _new("evaluate", index=4, questions=2, k=5, sample=500),
    "Calibrate": _new("calibrate", model=3, index=4, questions=[2, 3], name="knows when to be silent"),
    "Ablate": _new(
        "ablate",
        model=1,
        corpus=1,
        spans=1,
        questions=[1],
        dev=[2],
        rows=["realm", "baseline", "bm25"],
        **{"ict.steps": 2000, "mlm.steps": 4000, "pretrain.steps": 4000, "pretrain.refresh_every": 100},
    ),
    "Export a model": _new("export", model=3, reader="int8", name="small"),
}

JOB: Final[dict[str, Any]] = {
    "id": "2f9f4d7e-58a1-4d3c-9a75-0c8de3b1a6f2",
    "kind": "index",
    "title": "build an index",
    "queue": "index",
    "state": "running",
    "parameters": {"model": 3, "corpus": 1, "shard_rows": 50000},
    "progress": {
        "done": 4096,
        "total": 21034,
        "unit": "blocks",
        "rate": 61.2,
        "seconds_left": 277.0,
        "message": "",
        "time": 1769860830.5,
    },
    "result": {},
    "error": "",
    "attempt": 1,
    "parent": None,
    "settings_of": None,
    "pinned": False,
    "created_by": "stella",
    "schedule": None,
    "created_at": "2026-01-31T12:00:00Z",
    "queued_at": "2026-01-31T12:00:00Z",
    "started_at": "2026-01-31T12:00:01Z",
    "finished_at": None,
    "ran_before_s": 0.0,
    "resumes_at": None,
    "last_metrics": None,
    "parts": [],
    "made": {"corpora": [], "models": [], "indexes": [], "span_sets": [], "evaluations": []},
}

STOPPING: Final[dict[str, Any]] = {**JOB, "state": "stopping"}
RESUMED: Final[dict[str, Any]] = {**JOB, "state": "queued", "queued_at": "2026-01-31T13:00:00Z"}

LISTED_JOB: Final = {name: value for name, value in JOB.items() if name not in ("last_metrics", "parts", "made")} | {
    "created_by": None,
    "schedule": {"id": 2, "name": "Index of handbook, every Sunday at 02:30 UTC"},
}

WRONG_JOB: Final[dict[str, Any]] = {
    "type": "about:blank",
    "title": "Bad Request",
    "status": 400,
    "detail": "The request is not valid.",
    "errors": [
        {"field": "parameters.model", "detail": "names no model version that can be used: 99."},
        {"field": "parameters.shard_rows", "detail": "must be at least 1, not 0."},
    ],
}

DUPLICATE: Final[dict[str, Any]] = {
    "type": "about:blank",
    "title": "Conflict",
    "status": 409,
    "detail": f"The same is being done already by job {JOB['id']}.",
    "job": f"https://qa.example.org/api/v1/jobs/{JOB['id']}",
}

METRICS: Final[dict[str, Any]] = {
    "rows": [
        {"id": 811, "step": 50, "time": "2026-01-31T12:04:10Z", "values": {"loss": 4.9, "sequences_per_s": 31.0}},
        {"id": 812, "step": 100, "time": "2026-01-31T12:05:02Z", "values": {"loss": 4.4, "sequences_per_s": 30.7}},
    ],
    "cursor": 812,
    "more": False,
}

LOG: Final[dict[str, Any]] = {
    "text": "21,034 blocks in 1 shard.\n4,096 blocks embedded.\n",
    "next_offset": 50,
    "size": 50,
    "active": True,
}
