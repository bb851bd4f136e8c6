"""Every kind of job: what its process is told makes what is wanted, and what it leaves becomes records.

The processes run here and not under a worker: each would import torch for seconds. `test_parts.py` has workers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm_core.corpus.store import Snapshot
from realm_core.files import read_json
from realm_core.model.checkpoint import load_model
from realm_core.model.identity import read_hashes
from realm_core.training.ablation import AblationConfig, AblationFinetuneConfig
from realm_core.training.config import IctConfig
from realm_core.training.tasks import Ablate
from tests.core.running import activity_of
from tests.core.running import told as task_told
from tests.core.training.towns import COUNT, Towns
from tests.workers.work import QUICK, Work, source
from webapp.jobs import service as jobs
from webapp.models import (
    CorpusSnapshot,
    CorpusState,
    Evaluation,
    Job,
    JobKind,
    ModelVersion,
    Schedule,
    SpanSet,
    Trigger,
)
from webapp.schedules import service as scheduling
from webapp.storage.places import corpora_dir, resolve, sources_dir
from workers import devices
from workers.executions import EXECUTIONS, parameters_of
from workers.job_run import JobRun, Timing

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]


def done(kind: str, parameters: dict[str, Any]) -> Job:
    """The job, done as a worker does it; recorded once more, it gives the same."""
    job = jobs.start(kind, parameters, by=None)
    package, activity, *words = EXECUTIONS[kind].command(job)
    assert package == "realm_core" and EXECUTIONS[kind].made(job) is None
    activity_of(activity, words, run=job.run_dir)
    result = read_json(job.run_dir / "result.json")
    job.result = EXECUTIONS[kind].record(job, result)
    assert EXECUTIONS[kind].record(job, result) == job.result
    job.save()
    return job


def test_a_model_is_warmed_up_exported_and_measured(work: Work) -> None:
    start = {"model": work.model.pk, "corpus": work.corpus.pk}
    ict = done("ict", {**start, **QUICK, "name": "my embedder"})
    made = ModelVersion.objects.get(job=ict)
    assert (made.name, made.parent, made.corpus) == ("my embedder", work.model, work.corpus)
    assert ict.result["model"] == made.pk
    assert read_hashes(resolve(made.path)) == (made.model_hash, made.block_hash)
    assert resolve(made.path).name == f"my-embedder-{ict.pk.hex[:8]}"
    assert EXECUTIONS["ict"].made(ict) == {"path": str(resolve(made.path))}

    export = done("export", {"model": made.pk, "query": "float16", "reader": "int8", "min_probability": 0.2})
    packed = ModelVersion.objects.get(job=export)
    assert (packed.parent, packed.block_hash) == (made, made.block_hash)
    assert packed.name == f"export {export.created_at:%Y-%m-%d}"
    config = json.loads((resolve(packed.path) / "config.json").read_text())
    assert config["model"]["min_probability"] == 0.2

    index = done(JobKind.INDEX, {"model": packed.pk, "corpus": work.corpus.pk}).indexes.get()
    asked = {"index": index.pk, "questions": work.measure.pk}
    whole = done(JobKind.EVALUATE, asked)
    evaluation = Evaluation.objects.get(job=whole)
    assert (evaluation.model, evaluation.index, evaluation.questions) == (packed, index, work.measure)
    assert (evaluation.asked, evaluation.sample, evaluation.k) == (8, 0, 5)
    assert evaluation.exact_match == evaluation.figures["exact_match"] == whole.result["exact_match"]
    some = Evaluation.objects.get(job=done(JobKind.EVALUATE, {**asked, "sample": 3, "k": 2}))
    assert (some.asked, some.k) == (3, 2)
    said = [json.loads(line)["question"] for line in resolve(some.predictions).read_text().splitlines()[1:]]
    everything = resolve(evaluation.predictions).read_text()
    assert len(said) == 3 and all(question in everything for question in said)


def test_a_first_model_is_made_as_its_settings_say(work: Work) -> None:
    job = done(JobKind.WARMSTART, {"corpus": work.corpus.pk, "dimension": 8, "sample": 20, "scale": 30.0, "seed": 3})
    made = ModelVersion.objects.get(job=job)
    model = load_model(resolve(made.path))
    assert (model.config.dimension, made.corpus, made.parent) == (8, work.corpus, None)
    assert model.block.norm.weight.detach().square().sum().item() == pytest.approx(30.0, rel=1e-5)


@pytest.mark.postgresql_only
def test_a_training_that_ends_well_begins_what_waits_for_a_new_model(work: Work) -> None:
    schedule = scheduling.save(Schedule(corpus_name=work.corpus.name, trigger=Trigger.NEW_MODEL), by=None)
    training = jobs.start("ict", {"model": work.model.pk, "corpus": work.corpus.pk, **QUICK}, by=None)
    run(training, devices.leased_as(devices.CPU))
    assert training.state == "succeeded", training.log
    building = Job.objects.get(kind=JobKind.INDEX)
    assert building.parameters["model"] == training.model_versions.get().pk
    assert building.parameters["corpus"] == work.corpus.pk
    schedule.refresh_from_db()
    assert (schedule.last_job, jobs.who_started([building])[building.pk]) == (building, schedule)


def test_a_model_learns_from_questions_but_not_what_is_measured(work: Work) -> None:
    parameters = {
        "model": work.model.pk,
        "corpus": work.corpus.pk,
        "index": work.index.pk,
        "questions": [work.learn.pk],
    }
    job = done("finetune", {**parameters, "epochs": 1, "repeat": {"some": 2}, "batch": 8, "holdout": 0.0})
    model = ModelVersion.objects.get(job=job)
    assert (model.parent, model.block_hash) == (work.model, work.model.block_hash)
    excluded = json.loads((job.run_dir / "excluded-titles.json").read_text())
    assert excluded == sorted(f"Town {number}" for number in range(COUNT - 8, COUNT))
    recipe = json.loads((resolve(model.path) / "config.json").read_text())["about"]["recipe"][-1]
    assert "on 64 questions of some" in recipe  # 32, each twice

    sparse = done("finetune", {**parameters, "index": None, "retriever": "bm25", "epochs": 1, "batch": 8})
    assert (
        "with BM25"
        in json.loads((resolve(sparse.model_versions.get().path) / "config.json").read_text())["about"]["recipe"][-1]
    )
    bm25 = done(
        JobKind.EVALUATE,
        {"model": model.pk, "corpus": work.corpus.pk, "questions": work.measure.pk, "retriever": "bm25"},
    )
    assert (Evaluation.objects.get(job=bm25).index, Evaluation.objects.get(job=bm25).retriever) == (None, "bm25")


def test_a_retriever_learns_from_questions_but_not_what_is_measured(work: Work) -> None:
    parameters = {"model": work.model.pk, "index": [work.index.pk], "questions": [work.learn.pk]}
    small = {"batch": 8, "epochs": 1, "low_rank": 2, "right_within": 20, "repeat": {"some": 2}, "holdout": 0.0}
    job = done("train-retriever", {**parameters, **small, "name": "finds more"})
    model = ModelVersion.objects.get(job=job)
    assert (model.name, model.parent, model.block_hash) == ("finds more", work.model, work.model.block_hash)
    assert len(json.loads((job.run_dir / "excluded-titles.json").read_text())) == 8
    recipe = json.loads((resolve(model.path) / "config.json").read_text())["about"]["recipe"][-1]
    assert "of some: {" in recipe and "'repeat': {'some': 2}" in recipe
    index = done(JobKind.EVALUATE, {"model": model.pk, "index": work.index.pk, "questions": work.measure.pk})
    assert Evaluation.objects.get(job=index).model == model  # the index is that of the model before


def test_a_corpus_is_ingested_and_its_spans_are_found(work: Work) -> None:
    source(sources_dir(), 30)
    told = {"source": "jsonl", "file": "villages.jsonl", "corpus_name": "villages", "licence": "CC0"}
    corpus = CorpusSnapshot.objects.get(job=done(JobKind.INGEST, told))
    assert (corpus.name, corpus.articles, corpus.licence) == ("villages", 30, "CC0")
    again = done(JobKind.INGEST, told | {"corpus_name": "again"})  # the same articles
    assert (again.result["corpus"], CorpusSnapshot.objects.filter(name="again").count()) == (corpus.pk, 0)
    assert [folder.name for folder in corpora_dir().glob("*/" + corpus.snapshot_id)] == [corpus.snapshot_id]
    assert Snapshot.verified(resolve(corpus.path)).snapshot_id == corpus.snapshot_id
    above = {"name": "edited", "base": {"snapshot": corpus.snapshot_id, "generation": "g"}}
    CorpusState.objects.create(index=work.index, state_id="s", state=above, has_edits=True)
    done(JobKind.INGEST, told | {"corpus_name": "edited"})
    assert resolve(f"corpora/edited/{corpus.snapshot_id}/manifest.json").exists()  # which these edits find by its name
    spans = SpanSet.objects.get(job=done(JobKind.SPANS, {"corpus": work.corpus.pk, "tagger": "dates", "blocks": 20}))
    assert (spans.corpus, spans.blocks, spans.tagger) == (work.corpus, 20, "dates")
    assert spans.spans > 0 and (resolve(spans.path) / "manifest.json").exists()
    mlm = done("mlm", {"model": work.model.pk, "corpus": corpus.pk, **QUICK})
    assert ModelVersion.objects.get(job=mlm).corpus == corpus


def test_a_source_that_is_not_there_is_named(work: Work) -> None:
    job = jobs.start(JobKind.INGEST, {"source": "jsonl", "file": "nothing.jsonl"}, by=None)
    run(job)
    assert job.state == "failed"
    assert job.error.startswith("The source is not there: ") and job.error.endswith("nothing.jsonl does not exist.")


@pytest.mark.parametrize("kind", ["ict", "export"])
def test_a_model_that_an_earlier_attempt_published_is_recorded(work: Work, towns: Towns, kind: str) -> None:
    """The process was killed between publishing and saying so, or the job was stopped then and resumed."""
    job = jobs.start(kind, {"model": work.model.pk} | ({"corpus": work.corpus.pk} if kind == "ict" else {}), by=None)
    output = next(word for word in EXECUTIONS[kind].command(job) if word.startswith("--output="))
    folder = Path(output.partition("=")[2])
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(towns.model)
    run(job)
    assert (job.state, job.result["model"]) == ("succeeded", work.model.pk)  # the very weights recorded already
    assert ("bytes" in job.result) == (kind == "export")
    assert not job.run_dir.exists()


def run(job: Job, *devices: str) -> None:
    """As a worker does. devices: that a training has for itself."""
    claimed = Job.claim(job.pk, "me", 60, devices or None)
    assert claimed is not None
    JobRun(claimed, "me", Timing.for_lease(60)).run()
    job.refresh_from_db()


def test_the_same_job_is_told_the_same_at_every_attempt(work: Work) -> None:
    parameters = {
        "model": work.model.pk,
        "corpus": work.corpus.pk,
        "spans": work.spans.pk,
        "questions": [work.learn.pk],
        "dev": [work.measure.pk],
        "ict.steps": 3,
        "finetune.repeat": {"some": 2},
        "rows": ["realm", "bm25"],
    }
    job = Job.objects.create(kind=JobKind.ABLATE, parameters=parameters)
    told = EXECUTIONS[JobKind.ABLATE].command(job)
    task = task_told(told[1], told[2:])
    assert isinstance(task, Ablate) and task.rows == ["realm", "bm25"]
    assert task.settings == AblationConfig(ict=IctConfig(steps=3), finetune=AblationFinetuneConfig(repeat={"some": 2}))
    (job.run_dir / "excluded-titles.json").write_text('["As it was at the first attempt"]')
    assert EXECUTIONS[JobKind.ABLATE].command(job) == told
    assert "first attempt" in (job.run_dir / "excluded-titles.json").read_text()
    assert parameters_of(job)["dev"] == [work.measure]


@pytest.mark.nightly  # tests/core/training/test_ablate.py has the same processes
@pytest.mark.postgresql_only
def test_an_ablation_comes_to_its_table(work: Work) -> None:
    """With the processes that it starts, each of which must find what the job was told."""
    parameters = {
        "model": work.model.pk,
        "corpus": work.corpus.pk,
        "spans": work.spans.pk,
        "questions": [work.learn.pk],
        "dev": [work.measure.pk],
        "rows": ["bm25"],
        **{f"{stage}.{name}": value for stage in ("ict", "mlm") for name, value in (("steps", 2), ("batch", 4))},
        "finetune.epochs": 1,
        "finetune.batch": 8,
    }
    job = jobs.start(JobKind.ABLATE, parameters, by=None)
    run(job)
    assert job.state == "succeeded", job.log
    (row,) = job.result["rows"]
    assert job.result["questions"] == [["others", 8]] and 0 <= row["exact_match"]["others"] <= 1
    assert {stage["name"] for stage in job.result["stages"]} >= {"mlm", "finetune-bm25"}
    assert "Town" in (job.run_dir / "excluded-titles.json").read_text()
    measured = {(row.get("stage"), row.get("row")) for row in job.metrics.values_list("values", flat=True)}
    assert measured == {("ict", None), ("mlm", None), ("finetune", "bm25"), ("evaluate", "bm25")}
    assert "\nfinetune-bm25: " in job.log
    assert not ModelVersion.objects.filter(job=job).exists()  # what is made on the way is for the table alone
