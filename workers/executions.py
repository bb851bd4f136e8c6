"""How a job of each kind is run: from parameters to the task of its process, from the result to records.

The tasks declare how kinds differ; this module has what differs between the records that they make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.db import models

from realm_core.command_line import argv
from realm_core.errors import RealmError
from realm_core.evaluation.tasks import Evaluate
from realm_core.files import write_json
from realm_core.living.state import folded_base, joined_base, joined_name
from realm_core.living.tasks import Join
from realm_core.object_store import remove_published
from realm_core.salient.tasks import Spans
from realm_core.settings import FILE, describe
from realm_core.task import JobPart, Task
from realm_core.tasks import JOBS
from webapp.artefacts.registering import record_corpus, record_index, record_model, record_spans
from webapp.documents import folding
from webapp.kinds import KINDS, Parameters
from webapp.models import CorpusSnapshot, CorpusState, Evaluation, IndexGeneration, Job, ModelVersion
from webapp.questions import service as questions
from webapp.schedules import service as scheduling
from webapp.serving.living import folders_of, state_of
from webapp.serving.states import EditConflict
from webapp.storage.places import (
    bm25_dir,
    corpora_dir,
    evaluations_dir,
    indexes_dir,
    living_dir,
    models_dir,
    portable,
    resolve,
    sources_dir,
    spans_dir,
)
from workers import job_corpora

_UNFIT = re.compile(r"[^\w.]+", re.ASCII)  # for the name of a folder


class RunAgain(Exception):
    """What the process worked on has changed before its result was recorded: its command is run again."""


def _no_parts(_job: Job) -> Sequence[JobPart]:
    return ()


def _nothing_made(_job: Job) -> dict[str, Any] | None:
    return None


@dataclass(frozen=True)
class JobExecution:
    """How a job of one kind is run.

    command: the arguments after `python -m` for a job; --run is added. A job has the same command at every attempt, so
             that the process finds what it had finished. RealmError if the parameters are not valid any more.
    record:  makes the records from the process's result.json, and returns the result for the job's row. Runs in a
             transaction, and may run again with the same result. RunAgain if the result is out of date.
    made:    the result if an earlier attempt finished but died before it could record it; None: there is none.
    before:  parts that must be done before the process is started.
    beside:  parts that run as long as it does.
    refused: why a process that refused its task did so, if what it reads was purged meanwhile; "": that is not why.
    distributed, devices, yields: from the task.
    """

    command: Callable[[Job], list[str]]
    record: Callable[[Job, dict[str, Any]], dict[str, Any]]
    made: Callable[[Job], dict[str, Any] | None] = _nothing_made
    before: Callable[[Job], Sequence[JobPart]] = _no_parts
    beside: Callable[[Job], Sequence[JobPart]] = _no_parts
    refused: Callable[[Job], str] = lambda _job: ""
    distributed: bool = False
    devices: int = 1
    yields: int = 0


def execution_of(task: type[Task]) -> JobExecution:
    def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
        recorded = _RECORD[task.makes](job, result) if task.makes else {}
        return {**recorded, **task.kept(result)}

    return JobExecution(
        command=lambda job: ["realm_core", *argv(task_of(job))],
        record=record,
        made=_model_made if task.makes == "model" else _nothing_made,
        before=_no_parts if task.before is Task.before else _before,
        beside=_no_parts if task.beside is Task.beside else lambda job: parameters_of(job).task.beside(),
        refused=_purged_meanwhile,
        distributed=task.distributed,
        devices=task.devices,
        yields=task.yields,
    )


def _before(job: Job) -> Sequence[JobPart]:
    corpus = parameters_of(job).records.get("corpus")
    return _placed(job).before(blocks=corpus.blocks if corpus else 0)


def _model_made(job: Job) -> dict[str, Any] | None:
    """A model folder appears complete and belongs to this job alone: if it exists, the job is done."""
    folder = model_folder(job)
    return {"path": str(folder)} if (folder / "config.json").exists() else None


def parameters_of(job: Job) -> Parameters:
    """The parameters of a job; RealmError if a record was removed."""
    return KINDS[job.kind].read(job.parameters)


def task_of(job: Job) -> Task:
    """The task of a job's process."""
    task = parameters_of(job).task
    if task.by_hand:
        return _placed(job).as_job()
    if job.parent is None:
        raise RealmError(f"{task.title}: this is a part of another job, and this one belongs to none.")
    return task.within(_placed(job.parent), job.parent.run_dir)


def _placed(job: Job) -> Task:
    """The task of a job, with all fields that are decided where it runs."""
    parameters = parameters_of(job)
    task, fields = parameters.task, type(parameters.task).model_fields
    places: dict[str, Any] = {"output": _output(job, parameters), "bm25_cache": bm25_dir()}
    if task.makes == "model":
        places["name"] = _name(job)
    if task.makes == "index":
        places["generation"] = _generation(job, parameters)
    if task.makes == "evaluation":  # comparisons need the predictions after the run folder was removed
        model, corpus = _measured(parameters)
        places |= {"predictions": _predictions(job), "model": resolve(model.path), "corpus": resolve(corpus.path)}
    if "exclude_titles" in fields and getattr(task, "leave_out_measured", True):
        places["exclude_titles"] = _excluded_titles(job)
    if task.makes == "base":
        places |= _join_places(job, parameters["index"])
    elif task.makes == "deployment":
        places |= _fold_places(job, parameters["index"])
    elif _reads_edits(task):
        places |= _edit_places(job, parameters["index"])
    elif task.makes != "index":  # which is masked before anybody reads it
        job_corpora.refuse_purged(_snapshots(parameters))
    for one in describe(type(task)):
        if one.limit == FILE and (name := getattr(task, one.name)):
            places[one.name] = str(_source(name))
    return task.model_copy(update={name: one for name, one in places.items() if name in fields})


def _reads_edits(task: Task) -> bool:
    """Whether a task reads indexes with what was edited above them, and no snapshot as it is."""
    return "state" in type(task).model_fields and "index" not in task.unused()


def _purged_meanwhile(job: Job) -> str:
    """Why a process was refused what documents have been purged from meanwhile; "": that is not why.

    RunAgain for one that begins anew then.
    """
    parameters = parameters_of(job)
    if not _reads_edits(parameters.task):
        return ""
    index = job_corpora.purged_since(job, _listed(parameters["index"]))
    if index is not None and parameters.task.makes in ("base", "deployment"):
        _begin_anew(job)
        raise RunAgain("Documents were purged meanwhile.")
    return "" if index is None else str(job_corpora.PurgedMeanwhile(index))


# ---- places


def model_folder(job: Job) -> Path:
    """The folder of the model that a job makes."""
    return models_dir() / _folder_name(_name(job), job)


def _output(job: Job, parameters: Parameters) -> Path:
    task = parameters.task
    if task.makes == "model":
        return model_folder(job)
    if task.makes == "spans":
        return spans_dir() / _folder_name(f"{parameters['corpus'].name}-{getattr(task, 'tagger', '')}", job)
    folders: dict[str, Path] = {"corpus": corpora_dir(), "index": indexes_dir(), "base": corpora_dir().parent}
    return folders.get(task.makes) or job.run_dir / task.leaves


def _generation(job: Job, parameters: Parameters) -> str:
    """Named after the job, so that the next attempt, and its parts, find this attempt's shards."""
    return _folder_name(f"{parameters['corpus'].name[:40]}-{parameters['model'].name[:40]}", job)


def _name(job: Job) -> str:
    """The name of a job's model: the given one, or the kind of job and the day."""
    return str(getattr(parameters_of(job).task, "name", "")).strip() or f"{job.kind} {job.created_at:%Y-%m-%d}"


def _folder_name(name: str, job: Job) -> str:
    """A folder name that no other job uses, the same at every attempt."""
    return f"{_UNFIT.sub('-', name).strip('-.')[:80] or job.kind}-{job.pk.hex[:8]}"


def _predictions(job: Job) -> Path:
    return evaluations_dir() / f"{job.pk}.jsonl"


def _excluded_titles(job: Job) -> Path:
    """A file of the articles that are measured by; written at the first attempt, so that all attempts use the same."""
    path = job.run_dir / "excluded-titles.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, questions.measured_titles())
    return path


def _fold_places(job: Job, index: IndexGeneration) -> dict[str, Path]:
    """The living corpus above an index. All attempts fold the state of the first one, and so make the same base."""
    if index.folded_into_id is not None or index.state_now() is None:
        raise RealmError(f"No document was edited above {index.generation}, or its edits were folded already.")
    [first] = _states_anew(job, [index])
    now = job.run_dir / "state-now.json"
    state_of(index, index.state_now()).save(now)
    living, corpora, _ = folders_of(index)
    return {"corpora": corpora, "living": living, "state": first, "now": now, "model": resolve(index.model.path)}


def _edit_places(job: Job, given: Any) -> dict[str, Any]:
    """The states above the index, or indexes, that are searched, as they were at the first attempt."""
    indexes = _listed(given)
    files = job_corpora.first_states(job, indexes)
    states: Any = files if isinstance(given, list) else next(iter(files), None)
    return {"state": states, "living": living_dir()} if indexes else {}


def _join_places(job: Job, indexes: Sequence[IndexGeneration]) -> dict[str, Any]:
    """The states above the indexes. All attempts join those of the first one.

    What is edited above a part later is not in the joined corpus: join again, under the same name, and what was edited
    above the joined one is brought over.
    """
    return {
        "corpus": tuple(resolve(index.corpus.path) for index in indexes),
        "state": _states_anew(job, indexes),
    }


def _states_anew(job: Job, indexes: Sequence[IndexGeneration]) -> tuple[Path, ...]:
    """The files of the first states; where documents were purged since, the job begins anew."""
    try:
        return job_corpora.first_states(job, indexes)
    except job_corpora.PurgedMeanwhile:
        _begin_anew(job)
        return job_corpora.first_states(job, indexes)


def _begin_anew(job: Job) -> None:
    """Let the next attempt at a fold or a join begin anew; what this one published, and may hold it, is removed."""
    from realm_core.corpus.store import remove_snapshot  # loads pyarrow

    parameters, states = parameters_of(job), job_corpora.forget(job)
    task, indexes = parameters.task, _listed(parameters["index"])
    if len(states) < len(indexes):
        return
    if isinstance(task, Join):
        name, corpora, generations = task.corpus_name or joined_name(states), corpora_dir(), indexes_dir()
        base = joined_base(name, states, task.search)
    else:
        _, corpora, generations = folders_of(indexes[0])
        name, base = states[0].name, folded_base(states[0])
    if not IndexGeneration.every.filter(path=portable(generations / base.generation)).exists():  # of an equal job
        remove_published(generations / base.generation)
        remove_snapshot(corpora / name / base.snapshot)


def _listed(given: Any) -> list[IndexGeneration]:
    return given if isinstance(given, list) else [given] if given else []


def _snapshots(parameters: Parameters) -> list[CorpusSnapshot]:
    """The corpora that a job reads as they are."""
    return [one for one in parameters.records.values() if isinstance(one, CorpusSnapshot)]


def _source(name: str) -> Path:
    path = sources_dir() / name
    if not path.is_file():
        raise RealmError(f"The source is not there: {path} does not exist.")
    return path


# ---- records


def _record_corpus(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """The snapshot; ingesting the same articles again finds the existing one, and another of them goes."""
    folder = Path(result["path"])
    removed = None if folder.exists() else CorpusSnapshot.objects.filter(snapshot_id=folder.name).first()  # by a retry
    corpus = removed or record_corpus(folder, job=job)
    if removed is None and not resolve(corpus.path).samefile(folder) and not _is_edited(folder):
        from realm_core.corpus.store import remove_snapshot  # loads pyarrow

        remove_snapshot(folder)  # the record is of the other
    return {"corpus": corpus.pk, "snapshot": corpus.snapshot_id, "articles": corpus.articles, "blocks": corpus.blocks}


def _is_edited(snapshot: Path) -> bool:
    """Whether edits are above this folder, by whose name they find it."""
    states = CorpusState.objects.filter(state__base__snapshot=snapshot.name, state__name=snapshot.parent.name)
    return bool(states.exists())


def _record_index(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """The published generation."""
    model = ModelVersion.objects.get(pk=job.parameters["model"])
    index = record_index(Path(result["path"]), model=model, job=job)
    return {"index": index.pk, "generation": index.generation, "rows": index.rows}


def _record_base(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """The corpus and the index that a join made. states: rows of the states that were joined, as `index` names them."""
    indexes = parameters_of(job)["index"]
    snapshot, generation = Path(result["snapshot"]), Path(result["generation"])
    if job_corpora.purged_since(job, indexes) is not None:
        _begin_anew(job)
        raise RunAgain("Documents were purged meanwhile.")
    record_corpus(snapshot, job=job)
    index = record_index(generation, model=indexes[0].model, job=job)
    made = {"index": index.pk, "generation": index.generation, "corpus": index.corpus_id}
    return {**made, "articles": index.corpus.articles, "blocks": index.rows, "states": job_corpora.first_rows(job)}


def _record_deployment(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """The corpus and the index that a fold made, which answer from now on."""
    index = parameters_of(job)["index"]
    try:
        deployment = folding.take_over(index, result, job=job)
    except EditConflict:
        raise RunAgain("Documents were edited meanwhile; the fold takes these up, too.") from None
    into = deployment.index
    return {"index": into.pk, "generation": into.generation, "corpus": into.corpus_id, "deployment": deployment.pk}


def _record_model(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """The model and its origin; then schedules that wait for a new model are run."""
    first = not ModelVersion.objects.filter(job=job).exists()
    model = record_model(
        Path(result["path"]),
        name=_name(job),
        parent=_given_record(job, "model", ModelVersion),
        corpus=_given_record(job, "corpus", CorpusSnapshot),
        job=job,
    )
    if first and model.job_id == job.pk:
        scheduling.model_made(model)
    made = {"model": model.pk, "name": str(model), "held_out": result.get("held_out", {})}
    return made | {counted: result[counted] for counted in ("questions", "passages") if counted in result}


def _given_record(job: Job, name: str, record: type[models.Model]) -> Any:
    """A record among the parameters, None if it was removed: the result is recorded in any case."""
    key = job.parameters.get(name)
    return None if key is None else record._default_manager.filter(pk=key).first()


def _record_spans(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    corpus = CorpusSnapshot.objects.get(pk=job.parameters["corpus"])
    task = parameters_of(job).task
    assert isinstance(task, Spans)
    tagger = task.tagger + (" and dates" if task.dates and task.tagger != "dates" else "")
    spans = record_spans(Path(result["path"]), corpus=corpus, tagger=tagger, counts=result, job=job)
    return {"spans": spans.pk, "count": spans.spans, "blocks": spans.blocks}


def _record_evaluation(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    parameters = parameters_of(job)
    task = parameters.task
    assert isinstance(task, Evaluate)
    model, corpus = _measured(parameters)
    evaluation, _ = Evaluation.objects.update_or_create(
        job=job,
        defaults={
            "model": model,
            "corpus": corpus,
            "index": parameters["index"] if task.retriever == "dense" else None,
            "state_id": job_corpora.first_state_id(job),
            "questions": parameters["questions"],
            "retriever": task.retriever,
            "k": result["of"]["k"],
            "normalisation": result["of"]["normalisation"],
            "sample": task.sample,
            "asked": result["n"],
            "exact_match": result["exact_match"],
            "recall_at_5": result.get("recall@5", 0.0),  # no question of the set has an answer
            "figures": result,
            "predictions": portable(_predictions(job)),
        },
    )
    return {"evaluation": evaluation.pk}


def _measured(parameters: Parameters) -> tuple[ModelVersion, CorpusSnapshot]:
    """The model and the corpus: the index's own, unless others are named or no index is searched."""
    index, model = parameters["index"], parameters["model"]
    if "index" in parameters.task.unused():
        return model, parameters["corpus"]
    return model or index.model, index.corpus


_RECORD: Final[dict[str, Callable[[Job, dict[str, Any]], dict[str, Any]]]] = {
    "base": _record_base,
    "corpus": _record_corpus,
    "deployment": _record_deployment,
    "evaluation": _record_evaluation,
    "index": _record_index,
    "model": _record_model,
    "spans": _record_spans,
}

EXECUTIONS: Final[dict[str, JobExecution]] = {name: execution_of(task) for name, task in JOBS.items()}
