"""Fine-tune on question sets."""

from __future__ import annotations

from realm_core.training.config import FinetuneConfig
from webapp.kinds.settings import FinetuneOptions
from webapp.models import Job
from webapp.storage.places import bm25_dir
from workers.kinds.base import excluded_titles, given, model_kind, path_of, training


def command(job: Job) -> list[str]:
    """A question set's file has its name, so that `repeat` finds it."""
    parameters = given(job)
    options: FinetuneOptions = parameters.settings[FinetuneOptions]
    if options.retriever == "bm25":
        found = ["--retriever=bm25", f"--score-scale={options.score_scale}", f"--bm25-cache={bm25_dir()}"]
    else:
        found = [f"--index={path_of(parameters['index'])}"]
    return [
        *training("finetune", job, FinetuneConfig),
        *found,
        *([f"--exclude-titles={excluded_titles(job)}"] if options.leave_out_measured else []),
        *("--questions", *(path_of(one) for one in parameters["questions"])),
    ]


KIND = model_kind(command, distributed=True)
