"""The staff's pages: a job from its start to the deployment of what it built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.pages import stored
from webapp import queue
from webapp.engine import holder
from webapp.models import AuditEntry, CorpusSnapshot, Deployment, IndexGeneration, Job, JobKind, JobState, ModelVersion
from webapp.services.places import resolve


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the jobs that were sent to the workers."""
    ids: list[str] = []
    monkeypatch.setattr(queue, "_send", lambda job_id, _queue: ids.append(job_id))
    return ids


def running(**values: Any) -> Job:
    stored.deployment()
    model, corpus = ModelVersion.objects.get(), CorpusSnapshot.objects.get()
    return Job.objects.create(
        kind=JobKind.INDEX,
        state=values.pop("state", JobState.RUNNING),
        parameters={"model": model.pk, "corpus": corpus.pk},
        **values,
    )


def write_files(deployment: Deployment) -> None:
    """Put files where the records point, as far as deploying looks at them."""
    for path, name in (
        (deployment.model.path, "config.json"),
        (deployment.index.path, "manifest.json"),
        (deployment.index.corpus.path, "manifest.json"),
    ):
        folder = resolve(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")


def test_start_a_job(
    staff: Person, sent: list[str], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    stored.deployment()
    model, corpus = ModelVersion.objects.get(), CorpusSnapshot.objects.get()
    page = staff.client.get("/manage/jobs/").content.decode()
    assert str(model) in page and corpus.snapshot_id in page
    form = {"model": model.pk, "corpus": corpus.pk}
    with django_capture_on_commit_callbacks(execute=True):
        response = staff.client.post("/manage/jobs/", form)
        assert sent == []  # not before the row can be seen by others
    job = Job.objects.get()
    assert response["Location"] == f"/manage/jobs/{job.pk}/"
    assert (job.state, job.created_by, job.queue) == (JobState.QUEUED, staff.user, "index")
    assert job.parameters == {**form, "shard_rows": 50_000}  # every setting with its value
    assert sent == [str(job.pk)]
    assert staff.client.post("/manage/jobs/", form)["Location"] == f"/manage/jobs/{job.pk}/"
    assert Job.objects.count() == 1  # the same work is not done twice at the same time


def test_a_form_that_is_wrong(staff: Person, sent: list[str]) -> None:
    stored.deployment()
    response = staff.client.post("/manage/jobs/", {"model": "99", "corpus": ""})
    assert response.status_code == 422 and b"errorlist" in response.content
    assert Job.objects.count() == 0


def test_without_a_model_no_index_can_be_built(staff: Person) -> None:
    assert b"manage.py register_model" in staff.client.get("/manage/jobs/").content


def test_live_progress(staff: Person) -> None:
    progress = {"done": 500, "total": 2000, "unit": "blocks", "rate": 55.04, "seconds_left": 200.4, "message": ""}
    job = running(progress=progress, log="shard 1\n<b>not markup</b>", attempt=2, started_at=timezone.now())
    for address in (f"/manage/jobs/{job.pk}/", f"/manage/jobs/{job.pk}/status/"):
        response = staff.client.get(address)
        page = response.content.decode()
        assert response.status_code == 200
        assert "500 of 2,000 blocks" in page and "25 %" in page and "55.0 blocks a second" in page
        assert "3 min 20 s left" in page and "attempt 2" in page
        assert "&lt;b&gt;not markup" in page and "<b>not" not in page
    whole = staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    assert f'hx-get="/manage/jobs/{job.pk}/status/"' in whole and "Look again" in whole


@pytest.mark.parametrize("progress", [{}, {"done": 0, "total": None, "unit": "pages"}, {"done": 0, "total": 0}])
def test_progress_that_says_little(staff: Person, progress: dict[str, Any]) -> None:
    job = running(progress=progress)
    assert staff.client.get(f"/manage/jobs/{job.pk}/").status_code == 200


def test_polling_stops_when_nothing_changes_any_more(staff: Person) -> None:
    job = running()
    assert staff.client.get("/manage/jobs/table/").status_code == 200
    Job.objects.update(state=JobState.FAILED, error="The disk is full.")
    response = staff.client.get(f"/manage/jobs/{job.pk}/status/")
    assert response.status_code == 286 and b"The disk is full." in response.content
    assert staff.client.get("/manage/jobs/table/").status_code == 286
    assert b"hx-trigger" not in staff.client.get(f"/manage/jobs/{job.pk}/").content


def test_a_job_that_nobody_takes(staff: Person) -> None:
    job = running(state=JobState.QUEUED)
    assert b"none is running" not in staff.client.get(f"/manage/jobs/{job.pk}/").content
    Job.objects.update(queued_at=job.queued_at.replace(year=2020))
    assert b"none is running" in staff.client.get(f"/manage/jobs/{job.pk}/").content


def test_stop_and_resume(
    staff: Person, sent: list[str], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    job = running(state=JobState.QUEUED)
    assert b"asked to stop" in staff.client.post(f"/manage/jobs/{job.pk}/stop/", follow=True).content
    job.refresh_from_db()
    assert job.state == JobState.STOPPED
    assert b"nothing to stop" in staff.client.post(f"/manage/jobs/{job.pk}/stop/", follow=True).content
    with django_capture_on_commit_callbacks(execute=True):
        staff.client.post(f"/manage/jobs/{job.pk}/resume/")
    job.refresh_from_db()
    assert job.state == JobState.QUEUED and sent == [str(job.pk)]
    assert b"cannot be resumed" in staff.client.post(f"/manage/jobs/{job.pk}/resume/", follow=True).content


def test_deploy_what_was_built_and_go_back(staff: Person, loader: Loader) -> None:
    first = stored.deployment()
    write_files(first)
    holder().refresh(wait=True)
    job = running(state=JobState.SUCCEEDED)
    Deployment.activate(first.index, model=first.model)
    built = IndexGeneration.objects.exclude(pk=first.index.pk).get()
    IndexGeneration.objects.filter(pk=built.pk).update(job=job)
    write_files(Deployment(model=built.model, index=built))
    page = staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    assert built.generation in page and 'id="deploy"' in page
    response = staff.client.post("/manage/deployments/deploy/", {"generation": built.generation}, follow=True)
    assert b"is deployed" in response.content
    active = Deployment.active()
    assert active is not None and (active.index, active.activated_by) == (built, staff.user)
    holder().refresh(wait=True)
    assert holder().status().deployment_id == active.pk
    assert 'id="deploy"' not in staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    page = staff.client.post(f"/manage/deployments/{first.pk}/roll-back/", follow=True).content.decode()
    active = Deployment.active()
    assert active is not None and active.index == first.index and active.note == f"Back to deployment {first.pk}"
    assert active.note in page


def test_what_is_gone_is_not_deployed(staff: Person, engine: FakeEngine) -> None:
    active = Deployment.active()
    assert active is not None
    write_files(active)
    other = IndexGeneration.objects.create(
        generation="gone", model=active.model, corpus=active.index.corpus, path="indexes/gone", rows=1, dim=2
    )
    response = staff.client.post("/manage/deployments/deploy/", {"generation": other.generation}, follow=True)
    assert b"does not exist" in response.content
    assert Deployment.active() == active


def test_files_of_records_lie_in_the_data_folder(tmp_path: Path) -> None:
    from webapp.services.places import portable

    inside = Path(settings.REALM_DATA) / "indexes" / "gen"
    assert portable(inside) == "indexes/gen" and resolve("indexes/gen") == inside
    assert resolve(portable(tmp_path)) == tmp_path


@pytest.mark.django_db
def test_the_message_is_an_id_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(queue.producer(), "send_task", lambda *args, **options: calls.append((args, options)))
    queue._send("an id", "default")
    assert calls == [(("workers.run_job", ["an id"]), {"queue": "default", "retry": False})]
    assert json.loads(json.dumps(calls[0][0][1])) == ["an id"]
    conf = queue.producer().conf
    assert (conf.task_serializer, conf.accept_content, conf.result_backend) == ("json", ["json"], None)


@pytest.mark.django_db
def test_without_a_broker_the_job_waits(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise ConnectionRefusedError("no broker")

    monkeypatch.setattr(queue.producer(), "send_task", refuse)
    queue._send("an id", "default")
    assert "stays queued" in caplog.text


@pytest.mark.django_db
def test_who_started_stopped_and_resumed_a_job_is_written_down(staff: Person, sent: list[str]) -> None:
    stored.deployment()
    form = {"model": ModelVersion.objects.get().pk, "corpus": CorpusSnapshot.objects.get().pk}
    address = staff.client.post("/manage/jobs/", form)["Location"]
    staff.client.post("/manage/jobs/", form)  # refused, for it is being done already
    for action in ("stop", "resume"):
        staff.client.post(f"{address}{action}/")
    written = [(one.action, one.by, one.job) for one in AuditEntry.objects.order_by("pk")]
    job = Job.objects.get()
    assert written == [(f"job.{action}", staff.user, job) for action in ("start", "stop", "resume")]
    assert AuditEntry.objects.order_by("pk")[0].details["parameters"] == job.parameters
