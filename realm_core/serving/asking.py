"""One question on the command line: `python -m realm_core ask`."""

from __future__ import annotations

import json

from realm_core.index.corpus_of import corpus_of
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.tasks import Ask


def main(task: Ask, activity: Activity) -> None:
    """Print the answer with its provenance as JSON."""
    engine = Engine.load(task.model, task.index, corpus_of(task.index, task.corpus))
    answer = engine.ask(task.question, k=task.k, as_typed=task.as_typed)
    print(json.dumps(answer.as_dict(), ensure_ascii=False, indent=1))
    engine.close()
