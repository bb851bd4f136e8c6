"""All tasks, one per line: activities of `python -m realm_core` and kinds of job, in the order of a model's life."""

from __future__ import annotations

from typing import Final

from realm_core.corpus.tasks import Ingest
from realm_core.evaluation.tasks import Calibrate, Compare, Evaluate
from realm_core.index.tasks import CountWordpieces, Index, IndexShard, ShipVectors, ToMilvus
from realm_core.living.tasks import Fold, Join
from realm_core.model.tasks import Combine, Export, Import
from realm_core.questions.tasks import Questions
from realm_core.salient.tasks import Spans
from realm_core.selfcheck.tasks import SelfCheck
from realm_core.serving.tasks import Ask, Fill
from realm_core.task import Task
from realm_core.training.tasks import (
    Ablate,
    Finetune,
    Ict,
    Mine,
    Mlm,
    Pretrain,
    Refresh,
    TrainReader,
    TrainRetriever,
    Warmstart,
)

TASKS: Final[tuple[type[Task], ...]] = (
    Ingest,
    Warmstart,
    Import,
    Index,
    IndexShard,
    ShipVectors,
    CountWordpieces,
    ToMilvus,
    Fold,
    Join,
    Ict,
    Mlm,
    Spans,
    Pretrain,
    Refresh,
    Questions,
    Mine,
    TrainReader,
    TrainRetriever,
    Finetune,
    Evaluate,
    Ablate,
    Calibrate,
    Compare,
    Combine,
    Export,
    Ask,
    Fill,
    SelfCheck,
)
ACTIVITIES: Final[dict[str, type[Task]]] = {one.activity: one for one in TASKS if one.activity}
JOBS: Final[dict[str, type[Task]]] = {one.kind: one for one in TASKS if one.queue}
