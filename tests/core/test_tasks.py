"""Every task is declared once: its command line, its parameters as a job and its description agree."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from realm_core.__main__ import run
from realm_core.command_line import argv
from realm_core.errors import RealmError
from realm_core.runs.activity import Activity
from realm_core.settings import describe, extra
from realm_core.task import JobPart, Task, artefacts, undecided
from realm_core.tasks import ACTIVITIES, JOBS, TASKS
from realm_core.training.config import PretrainConfig
from realm_core.training.tasks import Ict, Pretrain, Refresh
from tests.core.running import told


def example(task: type[Task], **changed: Any) -> Task:
    """A task with something for each field that it must have."""
    values: dict[str, Any] = {name: Path(f"/{name}") for name in undecided(task)}
    values |= {one.name: (Path(f"/{one.name}"), Path("/b")) if one.many else Path("/x") for one in artefacts(task)}
    return task(**{**values, **changed})


COMMANDS: list[Task] = [
    *(example(task) for task in JOBS.values() if task.activity),
    example(Ict, settings={"steps": 7, "learning_rate": 1e-3}),
    example(Pretrain, sentences=None, settings={"masking": "span", "title": True}),
    example(ACTIVITIES["spans"], dates=False, labels="PERSON,ORG", tagger="links"),
    example(ACTIVITIES["finetune"], retriever="bm25", index=None, score_scale=0.25, bm25_cache=Path("/cache")),
    example(ACTIVITIES["finetune"], questions=(Path("/a b"), Path("/ä")), settings={"repeat": {"a b": 2, "ä": 0}}),
    example(ACTIVITIES["evaluate"], k=9, sample=3, why=True, as_json=True, normalisation="block"),
    example(ACTIVITIES["ablate"], rows=["bm25", "realm"]),
    example(ACTIVITIES["pack"], min_probability=0.0, query="int8", name="a b"),
    example(ACTIVITIES["ingest"], source="jsonl", file="/x/y.jsonl", corpus_name="mine", licence="CC0"),
]


@pytest.mark.parametrize("task", COMMANDS, ids=lambda task: task.activity)
def test_a_task_survives_its_command_line(task: Task) -> None:
    activity, *words = argv(task)
    again = told(activity, words)
    unused = task.unused()
    assert type(again) is type(task)
    assert again.model_dump(exclude=set(unused)) == task.model_dump(exclude=set(unused))


def test_a_run_folder_says_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = example(Ict, settings={"steps": 7})
    done: list[Task] = []
    monkeypatch.setattr(importlib.import_module(Ict.code), "main", lambda given, _activity: done.append(given))
    run(task, Activity(tmp_path, quiet=True))
    kept = json.loads((tmp_path / "task.json").read_text())
    assert kept.pop("activity") == "ict" and done == [task]
    assert Ict.model_validate_json(json.dumps(kept)) == task


def test_what_means_nothing_beside_the_others_is_refused() -> None:
    words = ["--model=m", "--questions=q", "--output=o"]
    for wrong, said in (
        (["--index=i", "--retriever=bm25"], "--index is for --retriever dense alone"),
        (["--index=i", "--score-scale=2"], "--score-scale is for --retriever bm25 alone"),
        ([], "--index is needed, unless BM25 finds the blocks"),
        (["--index=i", "--retriever=bm25", "--score-scale=0"], "--score-scale must be a number above 0, not 0.0"),
    ):
        with pytest.raises(RealmError, match=f"^{said}"):
            told("finetune", [*words, *wrong])


def test_a_pretraining_has_its_builder_beside_it_and_says_so_to_its_trainer() -> None:
    task = example(Pretrain)
    assert isinstance(task, Pretrain) and task.beside() == [JobPart("refresh", {})]
    assert '--set=refresh="elsewhere"' in argv(task.as_job())
    assert [kind for kind, one in JOBS.items() if one.companion] == ["refresh"]
    builder = example(Refresh).within(task, Path("/run"))
    assert argv(builder) == ["refresh", "--trainer-run=/run", "--corpus=/x"]
    alone = example(Pretrain, settings=PretrainConfig(refresh="never"))
    assert alone.beside() == [] and alone.as_job() == alone


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.activity or task.kind)
def test_every_field_is_explained_and_can_be_told(task: type[Task]) -> None:
    for name, info in task.model_fields.items():
        assert name == "settings" or (info.description and not info.description.endswith(".")), name
        assert name == "settings" or extra(info), f"{name} is declared by none of setting, given and runtime"
    assert all(one.help for one in describe(task))
    assert not task.activity or (task.summary and hasattr(importlib.import_module(task.code), "main"))
    assert not task.queue or (task.title and task.about and bool(task.group) == task.by_hand)
