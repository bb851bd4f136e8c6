"""The page of one job: what came of it, its parts, and how an interrupted one goes on."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.web.conftest import Person
from tests.web.console import another_model
from tests.web.operating import TokenClient, job, post, problem, question_set
from tests.web.pages import stored
from webapp.models import (
    AskedAnswer,
    Feedback,
    Job,
    JobKind,
    JobMetric,
    JobState,
    ModelVersion,
    Purpose,
    QuestionSet,
    Review,
    Schedule,
    Trigger,
)
from webapp.models.job import MAX_INTERRUPTIONS, RESUME_AFTER_S
from webapp.questions import service as question_services
from webapp.schedules import service as scheduling

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_workers", "loader")]

STOP_POLLING = 286


def page(person: Person, one: Job, part: str = "") -> Any:
    return person.client.get(f"/manage/jobs/{one.pk}/{part}")


def interrupted(interruptions: int = 1, **values: Any) -> Job:
    ended = timezone.now().replace(hour=12, minute=0, second=0)
    return job(state=JobState.INTERRUPTED, interruptions=interruptions, finished_at=ended, **values)


@pytest.mark.parametrize(
    ("state", "parts", "says"),
    [
        (JobState.RUNNING, 0, "Nothing has been printed yet."),
        (JobState.SUCCEEDED, 0, "Nothing was printed."),
        (JobState.SUCCEEDED, 1, "Its parts print; the page of each has its log."),
    ],
)
def test_where_there_is_no_log_the_page_says_why(staff: Person, state: str, parts: int, says: str) -> None:
    whole = job(state=state)
    for _ in range(parts):
        job(state=state, kind=JobKind.INDEX_SHARD, parent=whole)
    assert says in page(staff, whole).content.decode()
    assert says in page(staff, whole, "log/").content.decode()


@pytest.mark.parametrize(("ago_s", "said"), [(2, False), (45, True)])
def test_the_page_says_when_its_process_has_been_silent(staff: Person, ago_s: int, said: bool) -> None:
    reported = {"done": 3, "total": 9, "unit": "steps", "time": timezone.now().timestamp() - ago_s}
    running = job(state=JobState.RUNNING, progress=reported)
    shown = re.search(r"last reported (4\d|5\d) s ago", page(staff, running).content.decode())
    assert (shown is not None) == said
    resumed = job(state=JobState.RUNNING, progress=reported, started_at=timezone.now())
    assert "last reported" not in page(staff, resumed).content.decode()
    ended = job(state=JobState.STOPPED, progress=reported)
    assert "last reported" not in page(staff, ended).content.decode()


def test_a_resumed_job_shows_no_pace_of_the_attempt_before(staff: Person) -> None:
    now = timezone.now()
    reported = {"done": 3, "total": 9, "unit": "steps", "rate": 5.0, "seconds_left": 1.2, "time": now.timestamp()}
    for started_s, shown in ((-60, True), (1, False)):
        running = job(state=JobState.RUNNING, progress=reported, started_at=now + timedelta(seconds=started_s))
        text = page(staff, running).content.decode()
        assert ("steps a second" in text) is shown and ("left" in text.split("Created")[0]) is shown


# ── Interrupted ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_whole_log_can_be_kept(staff: Person) -> None:
    job = Job.objects.create(kind="ict", state=JobState.RUNNING, log="the end")
    address = f"/manage/jobs/{job.pk}/log.txt"
    assert f'href="{address}"' in staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    kept = staff.client.get(address)  # without a run folder
    assert b"".join(kept.streaming_content) == b"the end"
    job.run_dir.mkdir(parents=True)
    (job.run_dir / "log.txt").write_bytes(b"<script>\xff" * 9000)
    response = staff.client.get(address)
    assert b"".join(response.streaming_content) == b"<script>\xff" * 9000
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"] == f'attachment; filename="ict-{job.pk}.txt"'
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED, log="")
    assert address not in staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()


def test_an_interrupted_job_says_when_it_resumes_and_can_be_stopped(staff: Person) -> None:
    one = interrupted()
    text = page(staff, one).content.decode()
    assert one.finished_at is not None
    again = one.finished_at + timedelta(seconds=RESUME_AFTER_S)
    assert "It resumes by itself at" in text and f", {again:%H:%M}</time>" in text
    assert 'id="stop"' in text and "Resume now" in text and 'hx-trigger="every 2s"' in text
    assert page(staff, one, "status/").status_code == 200
    staff.client.post(f"/manage/jobs/{one.pk}/stop/")
    one.refresh_from_db()
    assert one.state == JobState.STOPPED
    text = page(staff, one).content.decode()
    assert 'id="stop"' not in text and 'id="resume"' in text and "hx-trigger" not in text


def test_a_job_that_was_interrupted_too_often_waits_for_a_person(staff: Person) -> None:
    one = interrupted(MAX_INTERRUPTIONS + 1)
    text = page(staff, one).content.decode()
    assert f"was interrupted {MAX_INTERRUPTIONS + 1} times and does not resume by itself any more" in text
    assert 'id="stop"' not in text and 'id="resume"' in text and "hx-trigger" not in text
    assert page(staff, one, "status/").status_code == STOP_POLLING


def test_the_list_polls_while_something_resumes_by_itself(staff: Person) -> None:
    one = interrupted()
    assert staff.client.get("/manage/jobs/table/").status_code == 200
    Job.objects.filter(pk=one.pk).update(interruptions=MAX_INTERRUPTIONS + 1)
    assert staff.client.get("/manage/jobs/table/").status_code == STOP_POLLING


def test_the_api_says_when_a_job_resumes_and_stops_it(program: TokenClient) -> None:
    one = interrupted()
    assert program.get(f"/api/v1/jobs/{one.pk}").json()["resumes_at"] == one.resumes_at.isoformat().replace(  # type: ignore[union-attr]
        "+00:00", "Z"
    )
    stopped = post(program, f"jobs/{one.pk}/stop").json()
    assert (stopped["state"], stopped["resumes_at"]) == ("stopped", None)
    problem(post(program, f"jobs/{one.pk}/stop"), 409)


def test_a_job_whose_run_folder_was_removed_begins_anew(staff: Person) -> None:
    one = job(state=JobState.FAILED, finished_at=timezone.now())
    one.run_dir.mkdir(parents=True)
    assert "It goes on from what it had finished" in page(staff, one).content.decode()
    one.run_dir.rmdir()
    text = page(staff, one).content.decode()
    assert "It begins anew" in text and "goes on from" not in text
    Job.objects.create(kind=JobKind.INDEX_SHARD, parent=one, state=JobState.SUCCEEDED)
    assert "It goes on from what it had finished" in page(staff, one).content.decode()


def test_the_time_of_a_resumed_job_is_that_of_all_its_attempts(staff: Person, program: TokenClient) -> None:
    ended = timezone.now()
    one = job(state=JobState.FAILED, started_at=ended - timedelta(minutes=3), finished_at=ended)
    assert ' num">after 3 min 00 s</span>' in page(staff, one).content.decode()
    assert program.get(f"/api/v1/jobs/{one.pk}").json()["ran_before_s"] == 0
    for before in (180, 240):
        assert one.resume() and one.ran_before == timedelta(seconds=before)
        assert "It has run for" in page(staff, one).content.decode()
        again = timezone.now()
        Job.objects.filter(pk=one.pk).update(
            state=JobState.FAILED, started_at=again - timedelta(seconds=60), finished_at=again
        )
    text = page(staff, one).content.decode()
    assert (
        "after 5 min 00 s in all, 1 min 00 s of it since it was resumed</span>" in text
        and "<dt>Last started</dt>" in text
    )
    assert program.get(f"/api/v1/jobs/{one.pk}").json()["ran_before_s"] == 240
    Job.objects.filter(pk=one.pk).update(started_at=None)  # it was stopped while it waited
    assert one.resume() and one.ran_before == timedelta(seconds=240)


# ── Who started it ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_names_the_schedule_that_started_it(staff: Person) -> None:
    deployed = stored.deployment()
    model = another_model(block_hash="other")
    schedule = scheduling.save(
        Schedule(corpus_name=deployed.index.corpus.name, model=model, trigger=Trigger.EVERY, hours=1), by=None
    )
    Schedule.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    (started,) = scheduling.run_due()

    def told() -> str:
        said = re.search(r"<dt>Started by</dt><dd>(.*?)</dd>", page(staff, started).content.decode())
        assert said is not None
        return said[1]

    link = f'<a href="/manage/schedules/{schedule.pk}/">{schedule}</a>'
    assert told() == link
    part = job(state=JobState.QUEUED, kind=JobKind.INDEX_SHARD, parent=started)
    for listed in ("", f"?part_of={started.pk}"):
        assert f'<td data-label="Started by">{link}</td>' in staff.client.get(f"/manage/jobs/{listed}").content.decode()
    part.delete()
    number = schedule.pk
    scheduling.remove(schedule, by=None)
    assert f"schedule {number}" in told() and "href" not in told()
    Job.objects.filter(pk=started.pk).update(created_by=staff.user)
    assert "Stella" in told()


# ── What came of it ─────────────────────────────────────────────────────────────────────────────────────────────────


def ablated() -> Job:
    rows = [
        ("REALM", (0.25, 0.5), (0.125, 0.3)),
        ("REALM, random span masks", (0.2, 0.5), (0.15, 0.2)),
        ("baseline (ORQA)", (0.0, 0.1), (0.0, 0.0)),
    ]
    result = {
        "questions": [["plain-dev", 500], ["dates-dev", 1234]],
        "rows": [
            {
                "title": title,
                "exact_match": {"plain-dev": plain[0], "dates-dev": dates[0]},
                "zero_shot_recall@5": {"plain-dev": plain[1], "dates-dev": dates[1]},
                "utility": None if title.startswith("baseline") else plain[0] - 0.5,
                "seeds": [{}, {}, {}],
            }
            for title, plain, dates in rows
        ],
        "stages": [
            {"name": "ict", "seed": 0, "budget": "2,000 steps × 64", "seconds": 3725.0, "made": "ab", "held_out": None},
            {"name": "combine-realm+realm", "seed": None, "budget": "", "seconds": None, "made": "c", "held_out": None},
        ],
    }
    return job(kind=JobKind.ABLATE, state=JobState.SUCCEEDED, result=result, finished_at=timezone.now())


def test_an_ablation_shows_its_table(staff: Person) -> None:
    text = page(staff, ablated()).content.decode()
    rows = [
        [re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", text[text.index("table--ablation") :], flags=re.DOTALL)
    ]
    assert rows[0] == ["Row", "plain-dev (500)", "dates-dev (1,234)", "Utility"] and "Means of 3 seeds" in text
    assert rows[2:5] == [
        ["REALM", "25.0\xa0%", "50.0\xa0%", "12.5\xa0%", "30.0\xa0%", "−0.25"],
        ["REALM, random span masks", "20.0\xa0%", "50.0\xa0%", "15.0\xa0%", "20.0\xa0%", "−0.30"],
        ["baseline (ORQA)", "0.0\xa0%", "10.0\xa0%", "0.0\xa0%", "0.0\xa0%", "–"],
    ]
    best = re.findall(r"<strong>([\d.]+)\xa0%</strong>", text)
    assert best == ["25.0", "50.0", "30.0", "50.0", "15.0"]
    assert ["ict", "2,000 steps × 64", "1 h 02 min"] in rows and ["combine-realm+realm", "–", "–"] in rows


@pytest.mark.parametrize(
    ("kind", "result", "shown"),
    [
        ("export", {"model": 1, "name": "x", "held_out": {}, "bytes": 23_000_000}, {"Size": "21.9\xa0MB"}),
        (
            "finetune",
            {"held_out": {"recall@5": 0.625, "span": 0.5, "span.plain-train": 0.25, "loss": 1.23456}},
            {
                "Held out: recall@5": "62.5\xa0%",
                "Held out: best span is right": "50.0\xa0%",
                "Held out: best span is right, plain-train": "25.0\xa0%",
                "Held out: loss": "1.235",
            },
        ),
        (
            "finetune",
            {"held_out": {"span": 1.0}, "questions": {"given": 55, "learnt": 16, "held_out": 3}},
            {"Questions learnt": "16 of 55", "3 held out: best span is right": "100.0\xa0%"},
        ),
        (
            "pretrain",
            {
                "held_out": {"perplexity": 30840.2, "log_likelihood": -36.178},
                "passages": {"learnt": 3960, "held_out": 5},
            },
            {
                "Passages learnt from": "3,960",
                "5 held out: perplexity": "30,840",
                "5 held out: log likelihood": "\N{MINUS SIGN}36.18",
            },
        ),
        (JobKind.INGEST, {"corpus": 1, "articles": 10033, "blocks": 21034}, {"Articles": "10,033", "Blocks": "21,034"}),
        (JobKind.EVALUATE, {"n": 5, "ece": 0.0312, "ms_per_question": 41.7}, {"Time for a question": "42\xa0ms"}),
    ],
)
def test_other_results_are_facts(kind: JobKind, result: dict[str, Any], shown: dict[str, str], staff: Person) -> None:
    text = page(staff, job(kind=kind, state=JobState.SUCCEEDED, result=result)).content.decode()
    facts = dict(re.findall(r'<dt>([^<]*)</dt><dd class="num">([^<]*)</dd>', text))
    assert shown.items() <= facts.items()


def test_recall_is_in_the_order_of_its_blocks(staff: Person) -> None:
    measured = {f"recall@{k}": k / 20 for k in (20, 5, 1)}
    text = page(staff, job(kind="ict", state=JobState.SUCCEEDED, result={"held_out": measured})).content.decode()
    assert re.findall(r"recall@(\d+)</dt>", text) == ["1", "5", "20"]


def test_a_trained_model_leads_to_the_index_that_it_searches_and_another_one_to_a_build(staff: Person) -> None:
    now = stored.deployment()
    trained = job(kind="finetune", state=JobState.SUCCEEDED, result={"model": 2})
    model = another_model("tuned", job=trained)
    text = page(staff, trained).content.decode()
    for action in ("calibrate", "evaluate", "deploy"):
        assert f'id="{action}-model-{model.pk}"' in text
    assert f"index={now.index_id}" in text and "Build its index" not in text
    assert f'id="model-index-{model.pk}" href="/manage/indexes/{now.index_id}/">{now.index}</a>' in text
    ModelVersion.objects.filter(pk=model.pk).update(block_hash="another")
    text = page(staff, trained).content.decode()
    assert "Build its index" in text and f'id="deploy-model-{model.pk}"' not in text


def test_a_job_without_a_result_has_no_figures(staff: Person) -> None:
    for kind in (JobKind.ABLATE, "export"):
        assert 'id="job-result"' not in page(staff, job(kind=kind, state=JobState.RUNNING)).content.decode()


# ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def build_of(parts: int) -> Job:
    whole = job(state=JobState.RUNNING)
    states = [JobState.FAILED, *[JobState.RUNNING] * 3, *[JobState.QUEUED] * (parts // 2)]
    states = [*[JobState.SUCCEEDED] * (parts - len(states)), *states]
    Job.objects.bulk_create(
        Job(kind=JobKind.INDEX_SHARD, parent=whole, state=state, parameters={"shard": n, "rows": 9}, log="x" * 20_000)
        for n, state in enumerate(states)
    )
    return whole


def test_of_many_parts_those_that_matter_are_shown(staff: Person) -> None:
    whole = build_of(40)
    text = page(staff, whole, "status/").content.decode()
    assert "16 of 40 done" in text and f'href="/manage/jobs/?part_of={whole.pk}">All 40 parts' in text
    section = text[text.index('id="job-parts"') :]
    shown = re.findall(r"Shard (\d+)</a>", section)
    assert len(shown) == 12 and shown[:4] == ["16", "17", "18", "19"]  # what failed, what runs, then what waits
    listed = staff.client.get(f"/manage/jobs/?part_of={whole.pk}").content.decode()
    assert listed.count("Embed one shard of an index ") == 25 and "page=2" in listed
    assert "Embed one shard" not in staff.client.get("/manage/jobs/").content.decode()
    for wrong in ("x", "00000000-0000-0000-0000-000000000000"):
        assert staff.client.get(f"/manage/jobs/?part_of={wrong}").status_code == 404


def test_a_whole_that_has_ended_is_looked_at_as_long_as_a_part_is_active(staff: Person) -> None:
    whole = job(state=JobState.FAILED, finished_at=timezone.now())
    part = Job.objects.create(kind=JobKind.INDEX_SHARD, parent=whole, state=JobState.RUNNING)
    assert page(staff, whole, "status/").status_code == 200
    assert f'hx-get="/manage/jobs/{whole.pk}/status/"' in page(staff, whole).content.decode()
    Job.objects.filter(pk=part.pk).update(state=JobState.STOPPED)
    assert page(staff, whole, "status/").status_code == STOP_POLLING
    assert "hx-get" not in page(staff, whole).content.decode()


def test_few_parts_are_all_shown(staff: Person) -> None:
    text = page(staff, build_of(10), "status/").content.decode()
    assert text.count(">Shard ") == 10 and "part_of" not in text


def test_logs_of_parts_are_not_read_to_show_their_whole(staff: Person, program: TokenClient) -> None:
    whole = build_of(20)
    for look in (lambda: program.get(f"/api/v1/jobs/{whole.pk}"), lambda: page(staff, whole, "status/")):
        with CaptureQueriesContext(connection) as queries:
            assert look().status_code == 200
        of_parts = [one["sql"] for one in queries if re.search(r'WHERE .*"parent_id" = ', one["sql"])]
        assert of_parts and not [sql for sql in of_parts if '"log"' in sql]
        assert len(queries) < 25


# ── Questions of feedback ───────────────────────────────────────────────────────────────────────────────────────────


def test_counting_feedback_reads_no_question_file(staff: Person) -> None:
    question_set("gone")  # its file is not there
    for number in range(5):
        asked = stored.store()
        Feedback.objects.create(answer=asked, session_key=str(number), right=number < 2, review=Review.ACCEPTED)
    response = staff.client.get("/manage/questions/")
    assert response.status_code == 200 and "2 were accepted" in response.content.decode()


def test_questions_of_feedback_are_read_with_their_blocks_at_once() -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert question_services.feedback_questions(hidden=())
        return len(queries)

    assert not QuestionSet.objects.exists()
    counts = []
    for _ in range(2):
        for _ in range(4):
            asked: AskedAnswer = stored.store()
            Feedback.objects.create(answer=asked, session_key=str(asked.pk), right=True, review=Review.ACCEPTED)
        counts.append(count())
    assert counts[0] == counts[1]


def test_a_job_whose_questions_were_removed_is_not_resumed(staff: Person, program: TokenClient) -> None:
    """It would be queued, and fail when it is its turn."""
    learnt = question_set("learnt", Purpose.LEARN)
    one = job(kind="finetune", queue="train", state=JobState.STOPPED, parameters={"questions": [learnt.pk]})
    address = f"/manage/jobs/{one.pk}/"
    assert 'id="resume"' in staff.client.get(address).content.decode()
    learnt.delete()
    says = "It cannot be resumed: a question set that it works on is not there any more."
    page = staff.client.get(address).content.decode()
    assert says in page and 'id="resume"' not in page
    assert (
        page.count(says) == 1 and staff.client.post(f"{address}resume/", follow=True).content.decode().count(says) > 1
    )
    assert problem(post(program, f"jobs/{one.pk}/resume"), 409)["detail"] == says
    one.refresh_from_db()
    assert one.state == JobState.STOPPED


def test_a_share_held_out_that_came_to_none_is_told_of(staff: Person) -> None:
    result = {"held_out": {}, "questions": {"given": 60, "learnt": 60, "held_out": 0}}
    one = job(kind="finetune", state=JobState.SUCCEEDED, parameters={"holdout": 0.03}, result=result)
    says = '<dt>Held out</dt><dd class="num">none: the share of so few came to none'
    assert says in page(staff, one).content.decode()
    for more in ({"parameters": {"holdout": 0.0}}, {"result": {}}, {"result": {"held_out": {"loss": 2.0}}}):
        Job.objects.filter(pk=one.pk).update(parameters={"holdout": 0.03}, result=result)
        Job.objects.filter(pk=one.pk).update(**more)
        assert says not in page(staff, one).content.decode()


@pytest.mark.parametrize(("steps", "says"), [((), "never"), ((500,), "once"), ((500, 1000, 1000), "2 times")])
def test_a_pretraining_says_how_often_its_index_was_replaced(staff: Person, steps: tuple[int, ...], says: str) -> None:
    one = job(kind="pretrain", queue="train", state=JobState.SUCCEEDED, result={"held_out": {}})
    for number, values in enumerate([{"pretrain.loss": 2.0}, *({"pretrain.index_step": step} for step in steps)]):
        JobMetric.objects.create(job=one, step=number, time=timezone.now(), values=values)
    page = staff.client.get(f"/manage/jobs/{one.pk}/").content.decode()
    assert f'<dt>Index replaced while it was trained</dt><dd class="num">{says}</dd>' in page
    for more in ({"parameters": {"refresh": "never"}}, {"result": {}}, {"kind": "ict"}):
        Job.objects.filter(pk=one.pk).update(**more)
        assert "Index replaced" not in staff.client.get(f"/manage/jobs/{one.pk}/").content.decode()
        Job.objects.filter(pk=one.pk).update(kind="pretrain", parameters={}, result={"held_out": {}})
