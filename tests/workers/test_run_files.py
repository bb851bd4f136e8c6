"""What a process leaves in its run folder is read completely, once, and whatever state it is in."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from webapp.models import Job, JobKind
from workers.run_files import BEGINNING, RunFiles

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    return Job.objects.create(kind="index")


def line(step: int, **values: object) -> str:
    return json.dumps({"step": step, "time": 1.7e9 + step, **values}) + "\n"


def steps(job: Job) -> list[int]:
    return list(job.metrics.order_by("pk").values_list("step", flat=True))


def test_metrics_are_copied_once_across_attempts(job: Job) -> None:
    files = RunFiles(job)
    path = files.folder.path / "metrics.jsonl"
    path.write_text(line(1) + line(2) + line(3)[:10])
    files.copy_metrics()
    files.copy_metrics()
    assert steps(job) == [1, 2]

    # The process died within a line; the next attempt's first line follows it on the same line.
    with open(path, "a") as file:
        file.write("\n" + line(4) + "nonsense\n" + line(5))
    again = RunFiles(job)
    again.copy_metrics()
    assert steps(job) == [1, 2, 4, 5]
    with open(path, "a") as file:
        file.write(line(6))
    again.copy_metrics()
    RunFiles(job).copy_metrics()
    assert steps(job) == [1, 2, 4, 5, 6]


def test_a_line_is_read_when_it_is_complete(job: Job) -> None:
    files = RunFiles(job)
    half = len(line(2)) // 2
    (files.folder.path / "metrics.jsonl").write_text(line(1) + line(2)[:half])
    files.copy_metrics()
    assert steps(job) == [1]
    with open(files.folder.path / "metrics.jsonl", "a") as file:
        file.write(line(2)[half:])
    files.copy_metrics()
    assert steps(job) == [1, 2]


def test_metrics_go_on_where_the_run_folder_was_lost(job: Job) -> None:
    (RunFiles(job).folder.path / "metrics.jsonl").write_text(line(1) + line(2))
    RunFiles(job).copy_metrics()
    shutil.rmtree(job.run_dir)
    files = RunFiles(job)
    (files.folder.path / "metrics.jsonl").write_text(line(3))
    files.copy_metrics()
    assert steps(job) == [1, 2, 3]


@pytest.mark.parametrize(
    "bad", ["null", "[]", "7", '{"step": 1}', '{"step": "x", "time": 1}', '{"step": 1, "time": 1e300}', "{"]
)
def test_lines_that_are_no_metrics_are_passed_over(job: Job, bad: str) -> None:
    files = RunFiles(job)
    (files.folder.path / "metrics.jsonl").write_text(f"{bad}\n{line(9, loss=1e999, rate=float('nan'))}")
    files.copy_metrics()
    assert [(row.step, row.values) for row in job.metrics.all()] == [(9, {"loss": None, "rate": None})]


def test_the_result_of_an_earlier_attempt_is_forgotten(job: Job) -> None:
    first = RunFiles(job)
    (first.folder.path / "result.json").write_text('{"steps": 3}')
    assert first.folder.result() == {"steps": 3}
    assert RunFiles(job).folder.result() is None


def test_the_error_sentence_is_that_of_this_attempt(job: Job) -> None:
    first = RunFiles(job)
    first.folder.log_file.write_text("error: The first reason.\n")
    assert first.error_sentence() == "The first reason."
    second = RunFiles(job)
    assert second.error_sentence() is None
    with open(second.folder.log_file, "ab") as file:
        file.write(b"half \xff\x00 a word\nerror: The second reason,\nin two lines.\n")
    assert second.error_sentence() == "The second reason,\nin two lines."
    assert "The first reason." in second.log_tail()


def test_nothing_there_yet(job: Job) -> None:
    files = RunFiles(job)
    files.copy_metrics()
    assert (files.folder.progress(), files.folder.result(), files.log_tail(), steps(job)) == (None, None, "", [])


def further(files: RunFiles, done: int) -> bool:
    (files.folder.path / "progress.json").write_text(json.dumps({"done": done, "total": 9, "unit": "blocks"}))
    return files.got_further()


def test_who_gets_no_further_than_an_earlier_attempt_is_known(job: Job) -> None:
    first = RunFiles(job)
    assert [further(first, done) for done in (3, 3, 5)] == [True, False, True]
    assert [further(RunFiles(job), done) for done in (2, 5, 6)] == [False, False, True]
    assert not further(first, 2)  # another pass over the same is nothing new


def test_a_builder_gets_further_in_every_generation() -> None:
    job = Job.objects.create(kind=JobKind.REFRESH)
    first = RunFiles(job)
    assert [further(first, done) for done in (5, 9, 2, 4)] == [True, True, True, True]
    again = RunFiles(job)  # in the midst of one
    assert [further(again, done) for done in (3, 4, 5, 9)] == [False, False, True, True]
    assert further(RunFiles(job), 1)  # the next one


def test_until_the_next_attempt_reports_it_has_no_pace_and_is_at_no_step(job: Job) -> None:
    said = {
        "done": 37,
        "total": 40,
        "unit": "steps",
        "rate": 8.2,
        "seconds_left": 51.0,
        "message": "loss 2.5",
        "time": 1,
    }
    (RunFiles(job).folder.path / "progress.json").write_text(json.dumps(said))
    files = RunFiles(job)
    shown = files.folder.progress() or {}
    assert time.time() - shown["time"] < 60  # or the page would say that it has been silent since the earlier attempt
    changed = {"rate": None, "seconds_left": None, "message": BEGINNING, "time": shown["time"]}
    assert shown == {**said, **changed}
    assert files.final_progress() == {**shown, "message": ""}  # it ended before its process reported
    (files.folder.path / "progress.json").write_text(json.dumps(said))
    assert files.final_progress() == said
