"""Rebuilds that start by themselves: when they are due, on which model, their stages, and what came of it."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.model.tasks import OWN
from tests.web.conftest import Person
from tests.web.console import another_corpus, another_model
from tests.web.operating import evaluation, question_set
from tests.web.pages import stored
from webapp.deployments import service as deploying
from webapp.deployments.service import Finding, PairCheck, Verdict
from webapp.models import (
    AuditEntry,
    CorpusSnapshot,
    CorpusState,
    Deployment,
    IndexGeneration,
    Job,
    JobKind,
    JobState,
    ModelVersion,
    QuestionSet,
    Schedule,
    Trigger,
)
from webapp.models.schedule import Weekday
from webapp.schedules import service as scheduling
from webapp.schedules.service import advance, model_made, next_due, run_due, run_now

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]
NOON = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def deployed() -> IndexGeneration:
    return stored.deployment().index


def newer_snapshot() -> CorpusSnapshot:
    return another_corpus("vital-en", snapshot_id="f" * 16, source="vital")


def new_model() -> ModelVersion:
    return another_model("new", block_hash="n" * 16)


def schedule(trigger: str = Trigger.EVERY, **values: Any) -> Schedule:
    values = {"hours": 6, "at": time(3, 30), **values}
    return scheduling.save(Schedule(corpus_name="vital-en", trigger=trigger, **values), by=None)


@pytest.mark.parametrize(
    ("trigger", "after", "due"),
    [
        (Trigger.EVERY, NOON, NOON + timedelta(hours=6)),
        (Trigger.AT, NOON, datetime(2026, 3, 6, 3, 30, tzinfo=UTC)),
        (Trigger.AT, datetime(2026, 3, 5, 3, 29, tzinfo=UTC), datetime(2026, 3, 5, 3, 30, tzinfo=UTC)),
        (Trigger.AT, datetime(2026, 3, 5, 3, 30, tzinfo=UTC), datetime(2026, 3, 6, 3, 30, tzinfo=UTC)),
        (Trigger.NEW_MODEL, NOON, None),
    ],
)
def test_when_it_is_due(trigger: str, after: datetime, due: datetime | None) -> None:
    assert next_due(Schedule(trigger=trigger, hours=6, at=time(3, 30)), after) == due


@pytest.mark.parametrize(
    ("weekday", "after", "due"),
    [
        (Weekday.THURSDAY, NOON, NOON.replace(day=12, hour=3, minute=30)),  # NOON is a Thursday's
        (Weekday.THURSDAY, NOON.replace(hour=3), NOON.replace(hour=3, minute=30)),
        (Weekday.FRIDAY, NOON, NOON.replace(day=6, hour=3, minute=30)),
        (Weekday.WEDNESDAY, NOON, NOON.replace(day=11, hour=3, minute=30)),
    ],
)
def test_on_which_day(weekday: Weekday, after: datetime, due: datetime) -> None:
    one = Schedule(trigger=Trigger.AT, at=time(3, 30), weekday=weekday, corpus_name="vital-en")
    assert next_due(one, after) == due and f"every {weekday.label} at 03:30 UTC" in str(one)


def ended(schedule: Schedule, state: str = JobState.SUCCEEDED) -> None:
    """Its job ends, having made what jobs of its kind make."""
    schedule.refresh_from_db()
    job = schedule.last_job
    assert job is not None
    Job.objects.filter(pk=job.pk).update(state=state, error="" if state == JobState.SUCCEEDED else "It broke.")
    if state != JobState.SUCCEEDED:
        return
    if job.kind == JobKind.INGEST:
        Job.objects.filter(pk=job.pk).update(result={"corpus": newer_snapshot().pk})
    elif job.kind == JobKind.INDEX:
        about = job.parameters
        IndexGeneration.objects.create(
            generation="new", model_id=about["model"], corpus_id=about["corpus"], path="indexes/new", rows=3, dim=2
        )
    else:
        index = IndexGeneration.objects.get(pk=job.parameters["index"])
        evaluation(index, QuestionSet.objects.get(pk=job.parameters["questions"]), normalisation=OWN)


def week(**values: Any) -> Schedule:
    return schedule(Trigger.AT, weekday=Weekday.MONDAY, ingest=True, questions=question_set(), deploy=True, **values)


def test_a_weekly_rebuild_has_this_week_s_text_in_it(quality: list[Verdict]) -> None:
    before = Deployment.active()
    one = week()
    due = one.due_at
    assert due is not None and due.weekday() == Weekday.MONDAY
    (job,) = run_due(due)
    assert (job.kind, job.parameters["source"], job.parameters["corpus_name"]) == ("ingest", "vital", "vital-en")
    assert advance() == []  # it is not over
    kinds = []
    for _ in range(3):
        ended(one)
        (job,) = advance()
        kinds.append(job.kind)
        before_it, told = Schedule.objects.get(), AuditEntry.objects.filter(action="schedule.run")
        assert run_now(one, by=None) is None and Schedule.objects.get().last_outcome == before_it.last_outcome
        says = f"Not started: the run before is not over. It is {before_it.get_stage_display()}."
        assert one.runs[0].outcome == says and told[0].details["outcome"] == says
    assert kinds == ["index", "evaluate", "evaluate"]
    ended(one)
    assert advance() == [] and advance() == []
    one.refresh_from_db()
    active = Deployment.active()
    assert active is not None and active != before and active.index.generation == "new"
    assert active.index.corpus.snapshot_id == "f" * 16
    assert (one.stage, one.last_outcome) == ("", f"new is built and deployed, as deployment {active.pk}.")
    assert AuditEntry.objects.get(action="deploy").name == f"schedule {one.pk}"


def test_what_a_person_deployed_during_the_last_check_is_not_deployed_again(quality: list[Verdict]) -> None:
    one = week()
    run_now(one, by=None)
    for _ in range(3):
        ended(one)
        advance()
    index = IndexGeneration.objects.get(generation="new")
    by_hand = Deployment.activate(index, model=index.model)
    ended(one)
    assert advance() == []
    one.refresh_from_db()
    assert Deployment.active() == by_hand and (one.stage, one.last_failed) == ("", False)
    says = f"new is built. Deployment {by_hand.pk} is active already, with the same model and the same index."
    assert one.last_outcome == says


@pytest.mark.parametrize("verdict", [Verdict.DOUBT, Verdict.BAD])
def test_a_pair_with_doubts_waits_for_a_person_with_all_reasons(
    monkeypatch: pytest.MonkeyPatch, staff: Person, verdict: Verdict
) -> None:
    says = " ".join(f"Reason {number:03} why it is not deployed." for number in range(20))

    def check(index: IndexGeneration, model: ModelVersion | None = None) -> PairCheck:
        return PairCheck(model or index.model, index, Deployment.active(), (Finding("Quality", verdict, says),))

    monkeypatch.setattr(deploying, "check", check)
    before, one = Deployment.active(), week()
    run_now(one, by=None)
    for _ in range(4):
        ended(one)
        advance()
    one.refresh_from_db()
    assert Deployment.active() == before and one.stage == ""
    assert one.last_outcome == f"new is built, and was not deployed: {says}" and one.last_failed
    assert says in staff.client.get("/manage/").content.decode()
    one.enabled, one.last_run_at = False, timezone.now() - timedelta(days=2)
    one.save()
    assert says not in staff.client.get("/manage/").content.decode()  # it was put aside long ago


@pytest.mark.parametrize("jobs_done", [0, 1, 2])
def test_a_run_whose_job_fails_is_over_and_says_so(quality: list[Verdict], jobs_done: int) -> None:
    before, one = Deployment.active(), week()
    run_now(one, by=None)
    for _ in range(jobs_done):
        ended(one)
        advance()
    ended(one, JobState.FAILED)
    assert advance() == []
    one.refresh_from_db()
    assert one.stage == "" and "It broke." in one.last_outcome and Deployment.active() == before
    assert one.last_failed
    run_now(one, by=None)
    assert not one.last_failed  # it is under way again


def test_the_same_text_again_is_nothing_new() -> None:
    one = schedule(ingest=True)
    run_now(one, by=None)
    assert one.last_job is not None
    there = {"corpus": CorpusSnapshot.objects.get().pk}
    Job.objects.filter(pk=one.last_job.pk).update(state=JobState.SUCCEEDED, result=there)
    assert advance() == []
    one.refresh_from_db()
    assert one.last_outcome.startswith("Nothing new to index") and one.stage == ""


def test_the_file_that_a_corpus_came_from_is_read_again(deployed: IndexGeneration) -> None:
    made_by = Job.objects.create(
        kind=JobKind.INGEST, state=JobState.SUCCEEDED, parameters={"source": "jsonl", "file": "news.jsonl", "old": 1}
    )
    CorpusSnapshot.objects.update(source="news.jsonl")
    with pytest.raises(RealmError, match="not known what to read"):
        scheduling.source_of(CorpusSnapshot.objects.get())
    CorpusSnapshot.objects.update(job=made_by)
    again = scheduling.source_of(CorpusSnapshot.objects.get())
    assert again == {"source": "jsonl", "file": "news.jsonl", "corpus_name": "vital-en"}


def test_a_scheduler_that_dies_in_the_middle_goes_on_from_there(
    quality: list[Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = week()
    run_now(one, by=None)
    ended(one)

    def dies(*_about: Any, **_more: Any) -> Job:
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(scheduling, "start", dies)
        advance()
    one.refresh_from_db()
    assert one.stage == "ingest"
    (job,) = advance()
    assert job.kind == "index"


def test_what_is_due_builds_the_newest_snapshot_once() -> None:
    corpus = newer_snapshot()
    one = schedule()
    assert run_due() == []
    later = timezone.now() + timedelta(hours=7)
    (job,) = run_due(later)
    assert (job.kind, job.parameters["corpus"]) == ("index", corpus.pk)
    assert job.parameters["model"] == ModelVersion.objects.get().pk
    one.refresh_from_db()
    assert one.last_job == job and one.last_run_at is not None and str(corpus.snapshot_id) in one.last_outcome
    assert one.due_at == later + timedelta(hours=6)
    assert run_due(later) == []
    assert AuditEntry.objects.get(action="job.start").name == f"schedule {one.pk}"


def test_a_clock_that_was_ahead_puts_nothing_off() -> None:
    every = schedule()
    ahead = NOON + timedelta(days=400)
    run_due(ahead)
    every.refresh_from_db()
    assert every.due_at == ahead + timedelta(hours=6)
    assert run_due(NOON) == []  # the clock has been set right
    every.refresh_from_db()
    assert every.due_at == NOON + timedelta(hours=6)


def test_two_schedulers_run_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    newer_snapshot()
    schedule()
    later = timezone.now() + timedelta(hours=7)
    run_first = scheduling.next_due

    def other_first(one: Schedule, after: datetime) -> datetime | None:
        monkeypatch.setattr(scheduling, "next_due", run_first)
        (job,) = run_due(later)  # between reading and claiming
        assert job.request_stop()  # or it would be refused as the same
        return run_first(one, after)

    monkeypatch.setattr(scheduling, "next_due", other_first)
    assert run_due(later) == []
    assert Job.objects.count() == 1


def test_what_is_due_and_switched_off_is_not_built() -> None:
    newer_snapshot()
    one = schedule()
    Schedule.objects.filter(pk=one.pk).update(enabled=False)
    assert run_due(timezone.now() + timedelta(hours=7)) == []


def test_a_scheduler_that_dies_leaves_it_due(monkeypatch: pytest.MonkeyPatch) -> None:
    newer_snapshot()
    due_at = schedule().due_at

    def dies(*_about: Any, **_more: Any) -> Job:
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(scheduling, "start", dies)
        run_due(timezone.now() + timedelta(hours=7))
    assert Schedule.objects.get().due_at == due_at


def test_without_a_newer_snapshot_nothing_is_built_and_the_outcome_says_so() -> None:
    one = schedule()
    assert run_now(one, by=None) is None
    assert one.last_outcome.startswith("Nothing new to index: gen-1 is of the newest snapshot") and not one.last_job
    assert "edited" not in one.last_outcome
    CorpusState.objects.create(index=IndexGeneration.objects.get(), state_id="s", state={}, has_edits=True)
    run_now(one, by=None)
    assert one.last_outcome.endswith(" What was edited since is searched above it.") and not one.last_job
    newer_snapshot()
    job = run_now(one, by=None)
    assert job is not None
    assert run_now(one, by=None) is None
    assert one.last_outcome.startswith("Building the index") and "run before is not over" in one.runs[0].outcome


def test_what_each_run_came_to_is_kept(quality: list[Verdict]) -> None:
    one = week()
    run_now(one, by=None)
    for _ in range(4):
        ended(one)
        advance()
    assert run_now(one, by=None) is not None
    one.refresh_from_db()
    job = one.last_job
    assert job is not None and run_now(one, by=None) is None
    deployed = Deployment.active()
    assert deployed is not None
    outcomes = [run.outcome for run in one.runs]
    assert outcomes == [
        "Not started: the run before is not over. It is reading the source again.",
        "Reading the source of vital-en again.",
        f"new is built and deployed, as deployment {deployed.pk}.",
    ]
    assert [run.job and run.job.kind for run in one.runs] == ["ingest", "ingest", "evaluate"]
    ended(one, JobState.FAILED)
    advance()
    one.refresh_from_db()
    assert [run.failed for run in one.runs] == [False, True, False] and "It broke." in one.runs[1].outcome
    for _ in range(30):
        run_now(one, by=None)
    assert len(one.runs) == 21 and one.earlier_runs.count() == 20


def test_a_run_that_was_read_before_a_step_keeps_what_the_step_noted() -> None:
    newer_snapshot()
    stale = schedule()
    run_now(Schedule.objects.get(), by=None)
    ended(stale)
    advance()
    built = Schedule.objects.get().last_outcome
    stale.last_run_at, stale.last_outcome = None, ""
    run_now(stale, by=None)
    assert built == "new is built and waits to be deployed." and built in [run.outcome for run in stale.runs]


def test_a_run_goes_on_behind_what_others_have_begun() -> None:
    """Two schedules of a corpus run at the same time: each goes through its own stages."""
    first, second = (schedule(ingest=True, questions=one) for one in (None, question_set()))
    ingest = run_now(first, by=None)
    assert ingest is not None and run_now(second, by=None) is None
    assert second.last_outcome == f"The same is being done already by job {ingest.pk}."
    assert (second.stage, second.last_job) == ("ingest", ingest) and advance() == []
    newer = newer_snapshot()
    Job.objects.filter(pk=ingest.pk).update(state=JobState.SUCCEEDED, result={"corpus": newer.pk})
    (index,) = set(advance())
    stages = Schedule.objects.order_by("pk").values_list("stage", "last_job", "corpus")
    assert index.kind == JobKind.INDEX and list(stages) == [("index", index.pk, newer.pk)] * 2


def test_a_new_model_is_indexed_unless_an_index_fits_it() -> None:
    schedule(Trigger.NEW_MODEL)
    model = new_model()
    (job,) = model_made(model)
    assert job.parameters["model"] == model.pk
    deployed = ModelVersion.objects.get(name="realm-mini")
    assert model_made(deployed) == []
    one = Schedule.objects.get()
    assert "Nothing new to index" in one.last_outcome and one.due_at is None


def test_a_new_model_reads_no_source_again() -> None:
    one = schedule(Trigger.NEW_MODEL, ingest=True)
    newer_snapshot()
    (job,) = model_made(new_model())
    assert not one.ingest and job.kind == JobKind.INDEX


def test_what_is_switched_off_does_nothing() -> None:
    newer_snapshot()
    schedule(enabled=False)
    schedule(Trigger.NEW_MODEL, enabled=False)
    assert run_due(timezone.now() + timedelta(days=30)) == [] and model_made(new_model()) == []


def test_its_own_model_is_taken() -> None:
    model = new_model()
    job = run_now(schedule(model=model), by=None)
    assert job is not None and job.parameters["model"] == model.pk


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"hours": None}, "Enter the interval in hours"),
        ({"trigger": Trigger.AT, "at": None}, "at what time of day"),
        ({"corpus_name": "nothing"}, "no corpus called nothing"),
        ({"deploy": True}, "by which questions"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, Any], says: str) -> None:
    one = Schedule(**{"corpus_name": "vital-en", "trigger": Trigger.EVERY, "hours": 6, **values})
    with pytest.raises(RealmError, match=says):
        scheduling.save(one, by=None)
    assert not Schedule.objects.exists()


def test_a_source_that_nobody_knows_how_to_read_again_is_refused_when_it_is_saved(deployed: IndexGeneration) -> None:
    CorpusSnapshot.objects.update(source="jsonl")  # ingested by `manage.py ingest`, of which no job is recorded
    with pytest.raises(RealmError, match="No job ingested vital-en"):
        schedule(ingest=True)
    assert not Schedule.objects.exists()
    assert schedule(ingest=False).pk


def test_who_edits_is_written_down(staff: Person) -> None:
    one = scheduling.save(Schedule(corpus_name="vital-en", trigger=Trigger.EVERY, hours=6), by=staff.user)
    assert one.created_by == staff.user
    key = one.pk
    one.trigger, one.at, one.enabled, one.model = Trigger.AT, time(3, 30), False, ModelVersion.objects.get()
    scheduling.save(one, by=staff.user)
    scheduling.remove(one, by=staff.user)
    made, changed, removed = (entry.details for entry in AuditEntry.objects.order_by("pk"))
    assert made["schedule"] == changed["schedule"] == removed["schedule"] == key
    told = {"corpus_name": "vital-en", "model": "", "trigger": "every", "hours": 6, "at": None, "enabled": True}
    told |= {"weekday": None, "ingest": False, "questions": "", "deploy": False}
    assert made["settings"] == told
    assert changed["changed"] == {
        "model": {"from": "", "to": "realm-mini 1"},
        "trigger": {"from": "every", "to": "at"},
        "hours": {"from": 6, "to": None},
        "at": {"from": None, "to": "03:30"},
        "enabled": {"from": True, "to": False},
    }
    assert [(entry.name, entry.action) for entry in AuditEntry.objects.order_by("pk")] == [
        ("Stella", "schedule.edit"),
        ("Stella", "schedule.edit"),
        ("Stella", "schedule.remove"),
    ]
