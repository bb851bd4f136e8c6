"""A question or a masked sentence on the command line: `python -m realm_core ask`, `python -m realm_core fill`."""

from __future__ import annotations

import json
from contextlib import closing

from realm_core.index.corpus_of import corpus_of
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.filled import Filling
from realm_core.serving.provenance import Answer
from realm_core.serving.tasks import Ask, Fill


def main(task: Ask | Fill, activity: Activity) -> None:
    """Print the answer with its provenance, or the filling with its evidence, as JSON."""
    with closing(Engine.load(task.model, task.index, corpus_of(task.index, task.corpus))) as engine:
        found: Answer | Filling
        if isinstance(task, Ask):
            found = engine.ask(task.question, k=task.k, as_typed=task.as_typed)
        else:
            found = engine.fill(task.sentence, k=task.k, truth=task.truth)
    print(json.dumps(found.as_dict(), ensure_ascii=False, indent=1))
