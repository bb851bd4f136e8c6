"""What is measured and trained is the corpus that people ask: with the documents that were edited above the index."""

from __future__ import annotations

import json
from typing import Any

import pytest

from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.living.state import LivingState
from realm_core.living.tasks import COPY
from tests.core.running import activity_of
from tests.web.documents.folds import fold
from tests.workers.work import Work
from webapp.deployments.service import deploy
from webapp.documents import service as documents
from webapp.documents import sweeping
from webapp.documents.inputs import DocumentInput, Text
from webapp.evaluations.service import Candidate, find, measured_alike
from webapp.jobs import service as jobs
from webapp.models import Evaluation, Job, ModelVersion, Purpose, QuestionSet
from webapp.purges import service as purging
from webapp.questions import service as questions
from webapp.serving.living import current_view
from webapp.storage.places import resolve
from workers.executions import EXECUTIONS

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

CLUBS = ("Crake", "Heron", "Plover", "Dunlin")


@pytest.fixture(autouse=True)
def _deployed(work: Work) -> None:
    deploy(work.index)


def add(*names: str) -> None:
    texts = {name: f"The sailing club {name} was founded by Admiral {name}son in its harbour." for name in names}
    documents.add([DocumentInput(Text(text), name, f"Club {name}") for name, text in texts.items()], by=None)


def asked(purpose: str, *names: str) -> QuestionSet:
    """Questions that the documents of `add` answer, and the index does not."""
    rows = [{"question": f"Who founded {name}?", "answers": [f"Admiral {name}son"]} for name in names]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return questions.record(content, f"clubs-{purpose}", purpose)


def run(job: Job) -> dict[str, Any]:
    """One attempt, as a worker makes it."""
    _, activity, *words = EXECUTIONS[job.kind].command(job)
    activity_of(activity, words, run=job.run_dir)
    result: dict[str, Any] = read_json(job.run_dir / "result.json")
    EXECUTIONS[job.kind].record(job, result)
    assert not list((job.run_dir / COPY).glob("*")), "the copy with the edits is removed"
    return result


def evaluated(work: Work, measure: QuestionSet) -> Evaluation:
    job = jobs.start("evaluate", {"index": work.index.pk, "questions": measure.pk}, by=None)
    run(job)
    job.state = "succeeded"
    job.save()
    return Evaluation.objects.get(job=job)


def test_an_evaluation_asks_the_documents_that_were_added(work: Work) -> None:
    measure = asked(Purpose.MEASURE, *CLUBS)
    before = evaluated(work, measure)
    assert (before.state_id, before.figures.get("recall@100")) == ("", 0.0)
    add(*CLUBS)
    after = evaluated(work, measure)
    state = work.index.state_now()
    assert state is not None and after.state_id == state.state_id
    assert after.figures["recall@100"] == 1.0, "the corpus of towns has fewer blocks, so each club's is among them"


def test_an_evaluation_of_an_earlier_state_is_not_taken_for_one_of_now(work: Work) -> None:
    measure, candidate = asked(Purpose.MEASURE, *CLUBS), Candidate(work.model, work.corpus)
    before = evaluated(work, measure)
    assert find(candidate, measure, 0) == before
    add(*CLUBS)
    assert find(candidate, measure, 0) is None
    after = evaluated(work, measure)
    assert find(candidate, measure, 0) == after
    assert [pair for pair in measured_alike(candidate, candidate) if pair[0].state_id != pair[1].state_id] == []


@pytest.mark.parametrize("kind", ["finetune", "train-retriever"])
def test_a_training_learns_from_the_documents_that_were_added(work: Work, kind: str) -> None:
    add(*CLUBS)
    learn = asked(Purpose.LEARN, *CLUBS, "nobody")
    index: Any = work.index.pk if kind == "finetune" else [work.index.pk]
    parameters = {"model": work.model.pk, "index": index, "questions": [learn.pk], "epochs": 1, "batch": 2}
    if kind == "finetune":
        parameters |= {"corpus": work.corpus.pk, "at_once": 2}
    job = jobs.start(kind, {**parameters, "holdout": 0.0}, by=None)
    result = run(job)
    counted = {"given": 5, "learnt": 4, "held_out": 0}
    of_its_set = {"sets": {learn.name: {**counted, "right_before": 0, "right_after": 0}}} if kind == "finetune" else {}
    assert result["questions"] == counted | of_its_set
    assert EXECUTIONS[kind].record(job, result)["questions"] == result["questions"]


def test_a_model_is_calibrated_on_the_documents_that_were_added(work: Work) -> None:
    add(*CLUBS)
    rows = [{"question": f"Who founded {name}?", "answers": [f"Admiral {name}son"]} for name in CLUBS]
    rows += [{"question": f"Who sold {name}?", "answers": []} for name in CLUBS]
    mixed = questions.record("".join(json.dumps(row) + "\n" for row in rows).encode(), "mixed", Purpose.MEASURE)
    given = {"model": work.model.pk, "index": work.index.pk, "questions": [mixed.pk], "name": "knows better"}
    job = jobs.start("calibrate", given, by=None)
    assert run(job)["own"]["answered_unanswerable"] == 0.0
    model = ModelVersion.objects.get(job=job)
    config = read_json(resolve(model.path) / "config.json")
    assert (model.name, model.parent, config["about"]["calibrated_on"]) == ("knows better", work.model, ["mixed"])
    assert config["model"]["min_probability"] > 0 and model.block_hash == work.model.block_hash


def test_silence_is_not_fitted_without_questions_that_have_no_answer(work: Work) -> None:
    given = {"model": work.model.pk, "index": work.index.pk, "questions": [work.measure.pk]}
    with pytest.raises(RealmError, match="Questions without an answer"):
        run(jobs.start("calibrate", given, by=None))


def test_a_training_goes_on_with_the_documents_of_its_first_attempt(work: Work) -> None:
    add("Crake")
    job = jobs.start("evaluate", {"index": work.index.pk, "questions": asked(Purpose.MEASURE, "Crake").pk}, by=None)
    first = EXECUTIONS[job.kind].command(job)
    add("Heron")
    assert EXECUTIONS[job.kind].command(job) == first
    state = LivingState.load(job.run_dir / "state-0.json")
    assert len(state.segments) == 1
    assert set(state.segments) <= sweeping._needed([work.index], job.created_at)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("purged", ["Heron", "of the base", "Heron, then added again"])
def test_a_job_that_began_before_a_purge_does_not_read_what_was_purged(work: Work, purged: str, folded: bool) -> None:
    measure = asked(Purpose.MEASURE, "Crake")
    if purged == "of the base":  # above which nothing was edited when the job began
        document_id = current_view().listed(0, 1)[0].id
    else:
        document_id = "Heron"
        add("Crake", "Heron")
    job = jobs.start("evaluate", {"index": work.index.pk, "questions": measure.pk}, by=None)
    EXECUTIONS[job.kind].command(job)
    left = job.run_dir / COPY
    left.mkdir()
    purging.purge([document_id], by=None)
    if purged.endswith("again"):
        add("Heron")
    if folded:
        fold()
    with pytest.raises(RealmError, match="purged since this job began"):
        EXECUTIONS[job.kind].command(job)
    assert not left.exists()
    Job.objects.filter(pk=job.pk).update(state="failed")
    later = jobs.start("evaluate", {"index": work.index.pk, "questions": measure.pk}, by=None)
    command = EXECUTIONS[later.kind].command
    assert command(later) == command(later), "it began behind the purge"
