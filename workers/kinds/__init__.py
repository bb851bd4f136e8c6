"""The kinds of job, one module each: parameters → command line, result → records."""

from __future__ import annotations

from webapp.models import JobKind
from workers.kinds import (
    ablate,
    evaluate,
    export,
    finetune,
    ict,
    index,
    index_shard,
    ingest,
    mlm,
    pretrain,
    refresh,
    spans,
    warmstart,
)
from workers.kinds.base import Kind

KINDS: dict[str, Kind] = {
    JobKind.INGEST: ingest.KIND,
    JobKind.WARMSTART: warmstart.KIND,
    JobKind.INDEX: index.KIND,
    JobKind.INDEX_SHARD: index_shard.KIND,
    JobKind.ICT: ict.KIND,
    JobKind.MLM: mlm.KIND,
    JobKind.SPANS: spans.KIND,
    JobKind.PRETRAIN: pretrain.KIND,
    JobKind.REFRESH: refresh.KIND,
    JobKind.FINETUNE: finetune.KIND,
    JobKind.EVALUATE: evaluate.KIND,
    JobKind.ABLATE: ablate.KIND,
    JobKind.EXPORT: export.KIND,
}

__all__ = ["KINDS", "Kind"]
