"""A whole and its parts, row by row: whose turn it is, how the whole ends, and what is stopped or begun again."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from realm_core.task import JobPart
from tests.web.operating import taken
from webapp.jobs import parts
from webapp.jobs import service as jobs
from webapp.jobs.parts import Readiness
from webapp.models import Job, JobKind, JobState
from webapp.models.job import ITS_PARTS

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]

SHARDS = [JobPart(JobKind.INDEX_SHARD, {"shard": number, "rows": 5}) for number in range(3)]


@pytest.fixture
def whole() -> Job:
    """A build that somebody called "one" has claimed."""
    return taken()


@pytest.fixture
def shards(whole: Job) -> list[Job]:
    """The parts that it waits for, of which the first runs."""
    assert parts.wait_for(whole, "one", SHARDS) is Readiness.WAITING
    first, *others = whole.parts.order_by("parameters__shard")
    return [taken(first, "two"), *others]


def states(whole: Job) -> list[str]:
    whole.refresh_from_db()
    return [whole.state, *whole.parts.order_by("parameters__shard").values_list("state", flat=True)]


def test_parts_are_made_once_and_read_at_once(whole: Job) -> None:
    many = [JobPart(JobKind.INDEX_SHARD, {"shard": number, "rows": 5}) for number in range(40)]
    made = parts._parts_of(whole, many)
    with CaptureQueriesContext(connection) as queries:
        assert parts._parts_of(whole, list(reversed(many))) == list(reversed(made))
    assert len(queries) == 1 and whole.parts.count() == 40


def test_an_interrupted_part_interrupts_the_whole_which_resumes_all_of_them(whole: Job, shards: list[Job]) -> None:
    shards[0].finish("two", JobState.INTERRUPTED, error="It was killed.")
    parts.settle_whole_of(shards[0])
    assert states(whole) == ["interrupted", "interrupted", "stopped", "stopped"]
    assert (whole.interruptions, whole.lease_owner) == (1, "")
    assert whole.error == f"embed one shard of an index ({shards[0].pk}): It was killed."
    assert whole.finished_at is not None and whole.resumes_at is not None
    assert [job.pk for job in Job.resume_interrupted(whole.resumes_at)] == [whole.pk]  # and no shard by itself
    assert parts.wait_for(taken(whole, "three"), "three", SHARDS) is Readiness.WAITING
    assert states(whole) == ["running", "queued", "queued", "queued"]


def test_a_failure_counts_for_more_than_an_interruption(whole: Job, shards: list[Job]) -> None:
    assert taken(shards[1], "three").finish("three", JobState.INTERRUPTED)
    shards[0].finish("two", JobState.FAILED, error="The disk is full.")
    parts.settle_whole_of(shards[0])
    assert states(whole) == ["failed", "failed", "interrupted", "stopped"]
    assert whole.error.endswith("The disk is full.")


def test_a_whole_whose_parts_get_further_counts_interruptions_anew(whole: Job, shards: list[Job]) -> None:
    Job.objects.filter(pk=whole.pk).update(interruptions=4)
    shards[0].finish("two", JobState.SUCCEEDED)
    parts.settle_whole_of(shards[0])
    whole.refresh_from_db()
    assert (whole.state, whole.interruptions) == ("running", 0)


def test_a_stop_before_the_parts_are_handed_out_hands_none_out(whole: Job) -> None:
    assert jobs.stop(Job.objects.get(pk=whole.pk), by=None)
    assert parts.wait_for(whole, "one", SHARDS) is Readiness.LOST
    assert not whole.parts.exists() and whole.state == "stopping" and whole.lease_owner == "one"


def test_a_worker_that_lost_the_lease_of_a_whole_makes_no_parts(whole: Job) -> None:
    assert parts.wait_for(whole, "another", SHARDS) is Readiness.LOST
    assert not whole.parts.exists()


def test_it_is_the_turn_of_a_whole_whose_parts_are_done(whole: Job) -> None:
    parts._parts_of(whole, SHARDS)
    whole.parts.update(state=JobState.SUCCEEDED)
    assert parts.wait_for(whole, "one", SHARDS) is Readiness.READY and whole.lease_owner == "one"


def test_a_whole_that_stops_stops_parts_that_were_queued_since(whole: Job, shards: list[Job]) -> None:
    assert Job.objects.get(pk=whole.pk).request_stop()  # whoever asked saw no parts yet
    parts.repair()
    assert states(whole) == ["stopping", "stopping", "stopped", "stopped"]
    assert shards[0].give_back("two")
    parts.settle_whole_of(shards[0])
    assert states(whole) == ["stopped"] * 4


def test_parts_of_what_is_over_are_stopped(whole: Job, shards: list[Job]) -> None:
    Job.objects.filter(pk=whole.pk, lease_owner=ITS_PARTS).update(state=JobState.FAILED, lease_owner="")
    parts.repair()
    assert states(whole) == ["failed", "stopping", "stopped", "stopped"]


def test_an_interrupted_builder_ends_with_its_training(whole: Job) -> None:
    parts.run_beside(whole, [JobPart(JobKind.REFRESH, {})])
    assert taken(whole.parts.get(), "two").finish("two", JobState.INTERRUPTED)
    parts.repair()
    assert states(whole) == ["running", "interrupted"]
    whole.finish("one", JobState.SUCCEEDED)
    parts.repair()
    assert states(whole) == ["succeeded", "stopped"]


def test_stopping_an_interrupted_whole_stops_its_parts(whole: Job, shards: list[Job]) -> None:
    shards[0].finish("two", JobState.INTERRUPTED)
    parts.settle_whole_of(shards[0])
    assert jobs.stop(Job.objects.get(pk=whole.pk), by=None)
    assert states(whole) == ["stopped"] * 4


def test_a_whole_whose_parts_all_wait_stops_at_once(whole: Job) -> None:
    assert parts.wait_for(whole, "one", SHARDS) is Readiness.WAITING
    asked = Job.objects.get(pk=whole.pk)
    assert jobs.stop(asked, by=None)  # and no worker will come by to settle it
    assert asked.state == "stopped" and states(whole) == ["stopped"] * 4


@pytest.mark.parametrize(
    ("before", "after"), [("queued", "stopped"), ("interrupted", "stopped"), ("running", "running")]
)
def test_jobs_beside_a_whole_end_with_it(whole: Job, before: str, after: str) -> None:
    parts.run_beside(whole, [JobPart(JobKind.REFRESH, {})])
    whole.parts.update(state=before)
    parts.end_beside(whole)
    assert whole.parts.get().state == after  # one that runs notices it by itself


def test_a_builder_that_has_ended_begins_again_with_its_training(whole: Job) -> None:
    parts.run_beside(whole, [JobPart(JobKind.REFRESH, {})])
    for begin in (lambda: parts.run_beside(whole, [JobPart(JobKind.REFRESH, {})]), parts.repair):
        whole.parts.update(state=JobState.SUCCEEDED)
        begin()
        assert states(whole) == ["running", "queued"]


def test_the_whole_is_queued_and_sent_when_its_parts_are_done(whole: Job, shards: list[Job]) -> None:
    whole.parts.update(state=JobState.SUCCEEDED)
    parts.repair()
    whole.refresh_from_db()
    assert whole.state == "queued" and whole.sent_at is not None and whole.sent_at >= whole.queued_at


# ── What is the same ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "changed", "same"),
    [
        ("index", {}, True),
        ("index", {"name": "what it is called"}, True),
        ("index", {"corpus": 3}, False),
        ("index", {"shard_rows": 9}, False),
        ("ict", {}, False),
    ],
)
def test_jobs_of_one_kind_records_and_settings_have_the_same_fingerprint(
    kind: str, changed: dict[str, object], same: bool
) -> None:
    parameters = {"model": 1, "corpus": 2, "shard_rows": 5, "name": ""}
    assert (jobs._fingerprint(kind, parameters | changed) == jobs._fingerprint("index", parameters)) is same


def test_a_job_that_is_resumed_is_sent_and_begins_to_count_anew(whole: Job) -> None:
    Job.objects.filter(pk=whole.pk).update(attempt=3, interruptions=4)
    assert whole.finish("one", JobState.INTERRUPTED)
    assert jobs.resume(whole, by=None)
    whole.refresh_from_db()
    assert (whole.attempt, whole.interruptions, whole.error) == (0, 0, "")
    assert whole.sent_at is not None and whole.sent_at >= whole.queued_at
