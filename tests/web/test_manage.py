"""Jobs in the console: starting one from its form, following it, stopping it and going on."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from realm_core.runs.activity import duration
from realm_core.settings import describe
from realm_core.training.config import FinetuneConfig
from tests.web.conftest import Person
from tests.web.console import another_corpus, another_index, another_model, question_set
from tests.web.pages import stored
from tests.web.pages.pages import Page
from webapp.jobs import queue
from webapp.kinds import KINDS
from webapp.models import AuditEntry, CorpusSnapshot, Deployment, Job, JobKind, JobState, ModelVersion, Purpose
from webapp.storage.places import resolve

FORMS = [kind for kind in KINDS if KINDS[kind].by_hand]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the jobs that were sent to the workers."""
    ids: list[str] = []
    monkeypatch.setattr(queue, "_send", lambda jobs, *_: ids.extend(str(job.pk) for job in jobs))
    return ids


def running(**values: Any) -> Job:
    stored.deployment()
    model, corpus = ModelVersion.objects.get(), CorpusSnapshot.objects.get()
    return Job.objects.create(
        kind=JobKind.INDEX,
        state=values.pop("state", JobState.RUNNING),
        parameters={"model": model.pk, "corpus": corpus.pk, "shard_rows": 50_000},
        **values,
    )


def everything() -> Deployment:
    """Records of every kind that a job may work on."""
    deployment = stored.deployment()
    deployment.index.corpus.span_sets.create(path="spans", tagger="dates", spans=1, blocks=1)
    question_set("learnt", Purpose.LEARN)
    question_set("measured")
    return deployment


def as_posted(source: str) -> dict[str, Any]:
    """What a browser sends for a form that nobody has touched."""
    page = Page(source)
    form: dict[str, Any] = {}
    for attributes, _ in page.all("input"):
        name, kind = attributes.get("name", ""), attributes.get("type", "text")
        if not name or name == "csrfmiddlewaretoken":
            continue
        if kind == "checkbox":
            if "checked" in attributes:
                form.setdefault(name, []).append(attributes.get("value", "on"))
        else:
            form[name] = attributes.get("value", "")
    for name, text in re.findall(r'<textarea name="([^"]+)".*?>\r?\n?(.*?)</textarea>', source, re.S):
        form[name] = html.unescape(text).replace("\n", "\r\n")
    for name, options in re.findall(r'<select name="([^"]+)".*?>(.*?)</select>', source, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', options) or re.search(r'value="([^"]*)"', options)
        assert chosen is not None
        form[name] = html.unescape(chosen[1])
    return form


def test_every_kind_is_offered_with_a_sentence(staff: Person) -> None:
    page = Page(staff.client.get("/manage/jobs/new/").content.decode())
    links = {attributes["href"] for attributes, _ in page.all("a")}
    assert {f"/manage/jobs/new/{kind}/" for kind in FORMS} <= links
    texts = [text for _, text in page.all("p")]
    assert all(KINDS[kind].about in texts for kind in FORMS)


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_that_nobody_touches_starts_the_job_with_its_defaults(
    kind: str, staff: Person, sent: list[str], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    """With one record of each kind there is nothing to choose, except what may be left out."""
    deployment = everything()
    if kind == "calibrate":  # silence needs a question without an answer
        with resolve("questions/measured.jsonl").open("a") as file:
            file.write('{"question": "Who am I?", "answers": []}\n')
    page = staff.client.get(f"/manage/jobs/new/{kind}/?index={deployment.index_id}").content.decode()
    for setting in KINDS[kind].described():
        assert f'name="{setting.name}"' in page
    form = as_posted(page)
    if kind == "join":  # of two
        form["index"].append(str(another_index(deployment.model, corpus=another_corpus()).pk))
    with django_capture_on_commit_callbacks(execute=True):
        response = staff.client.post(f"/manage/jobs/new/{kind}/", form)
    job = Job.objects.get()
    assert response["Location"] == f"/manage/jobs/{job.pk}/"
    assert (job.kind, job.queue, job.created_by) == (kind, KINDS[kind].queue, staff.user)
    for setting in KINDS[kind].described():
        assert job.parameters[setting.name] == setting.default, setting.name
    assert sent == [str(job.pk)]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.by, entry.job) == ("job.start", staff.user, job)
    assert entry.details["parameters"] == job.parameters


@pytest.mark.parametrize(("kind", "chosen"), [("evaluate", {"index"}), ("finetune", {"index", "model", "corpus"})])
def test_a_form_begins_with_what_is_deployed(kind: str, chosen: set[str], staff: Person) -> None:
    deployment = everything()
    another_model("newer")
    form = as_posted(staff.client.get(f"/manage/jobs/new/{kind}/").content.decode())
    deployed = {"index": deployment.index_id, "model": deployment.model_id, "corpus": deployment.index.corpus_id}
    assert {name for name in deployed if form.get(name)} == chosen
    assert all(form[name] == str(deployed[name]) for name in chosen)


def test_what_is_typed_is_what_the_job_gets(staff: Person) -> None:
    deployment = everything()
    address = f"/manage/jobs/new/finetune/?index={deployment.index_id}"
    form = as_posted(staff.client.get(address).content.decode())
    form |= {"name": "mine", "epochs": "3", "reader_lr": "2e-4", "repeat": "learnt = 2\n", "normalisation": "block"}
    del form["leave_out_measured"]  # an unticked box is not sent
    staff.client.post("/manage/jobs/new/finetune/", form)
    got = Job.objects.get().parameters
    assert (got["name"], got["epochs"], got["reader_lr"]) == ("mine", 3, 2e-4)
    assert (got["repeat"], got["normalisation"], got["leave_out_measured"]) == ({"learnt": 2}, "block", False)


def test_what_is_wrong_stands_beside_its_field(staff: Person) -> None:
    deployment = everything()
    other = another_model(block_hash="other")
    form = as_posted(staff.client.get(f"/manage/jobs/new/finetune/?index={deployment.index_id}").content.decode())
    wrong = {**form, "epochs": "0", "reader_lr": "-1", "clip": "much", "repeat": "twice", "model": other.pk}
    response = staff.client.post("/manage/jobs/new/finetune/", wrong)
    page = response.content.decode()
    assert response.status_code == 422 and not Job.objects.exists()
    for name, says in (("clip", "Enter a number."), ("repeat", "“twice” is not NAME = NUMBER.")):
        assert says in errors(page, name)
    response = staff.client.post("/manage/jobs/new/finetune/", {**wrong, "clip": "1", "repeat": "", "dropout": "2"})
    page = response.content.decode()
    assert "Must be at least 1, not 0." in errors(page, "epochs") and "Must be a number above 0" in errors(
        page, "reader_lr"
    )
    assert "Must be a share" in errors(page, "dropout")
    assert re.search(r'<details id="more-settings-1" open>', page)  # where one of the wrong ones stands
    right = {**wrong, "epochs": "1", "reader_lr": "1e-4", "clip": "1", "repeat": ""}
    page = staff.client.post("/manage/jobs/new/finetune/", right).content.decode()
    assert "embeds blocks differently" in errors(page, "index") and not Job.objects.exists()
    mistyped = {**form, "model": deployment.model_id, "repeat": "lernt = 2"}
    page = staff.client.post("/manage/jobs/new/finetune/", mistyped).content.decode()
    says = "Names no question file that is given: &#x27;lernt&#x27;; there are learnt."  # not only when it is its turn
    assert says in errors(page, "repeat") and not Job.objects.exists()


def errors(page: str, name: str) -> str:
    """What the page says beside one field."""
    found = re.search(rf'id="id_{name}_error">(.*?)</div>', page, re.S)
    assert found is not None, name
    return found[1]


def test_a_duplicate_leads_to_what_runs(staff: Person) -> None:
    everything()
    form = as_posted(staff.client.get("/manage/jobs/new/index/").content.decode())
    staff.client.post("/manage/jobs/new/index/", form)
    job = Job.objects.get()
    again = staff.client.post("/manage/jobs/new/index/", form)
    assert again.status_code == 409 and f"/manage/jobs/{job.pk}/" in again.content.decode()
    assert Job.objects.count() == AuditEntry.objects.count() == 1


def test_run_again_begins_with_the_settings_of_then(staff: Person) -> None:
    everything()
    form = as_posted(staff.client.get("/manage/jobs/new/ict/").content.decode())
    staff.client.post("/manage/jobs/new/ict/", {**form, "steps": "77", "dropout": "0.25"})
    first = Job.objects.get()
    Job.objects.update(state=JobState.FAILED)
    assert (
        f'href="/manage/jobs/new/ict/?from={first.pk}"'
        in staff.client.get(f"/manage/jobs/{first.pk}/").content.decode()
    )
    page = staff.client.get(f"/manage/jobs/new/ict/?from={first.pk}").content.decode()
    assert re.search(r'<details id="more-settings-1" open>', page)  # dropout is not at its default
    again = {**as_posted(page), "learning_rate": "5e-5"}
    assert (again["steps"], again["dropout"]) == ("77", "0.25")
    staff.client.post(f"/manage/jobs/new/ict/?from={first.pk}", again)
    second = Job.objects.exclude(pk=first.pk).get()
    assert second.settings_of == first
    assert (second.parameters["steps"], second.parameters["learning_rate"]) == (77, 5e-5)
    assert f"/manage/jobs/{first.pk}/" in staff.client.get(f"/manage/jobs/{second.pk}/").content.decode()


def test_what_a_person_cannot_start_or_run_again_has_no_form(staff: Person) -> None:
    for kind in ("nonsense", "index-shard", "refresh"):
        assert staff.client.get(f"/manage/jobs/new/{kind}/").status_code == 404, kind
    for earlier in ("nonsense", "00000000-0000-0000-0000-000000000000", running().pk):  # the last is of another kind
        assert staff.client.get(f"/manage/jobs/new/ict/?from={earlier}").status_code == 404, earlier


def test_what_must_be_made_first_is_named_with_a_link(staff: Person) -> None:
    for kind, links in {
        "pretrain": ["warmstart", "ingest", "index", "spans"],
        "index": ["warmstart", "ingest"],
    }.items():
        page = staff.client.get(f"/manage/jobs/new/{kind}/").content.decode()
        assert "Something must be made first" in page and re.search(r"<button[^>]* disabled>", page)
        for link in links:
            assert f'href="/manage/jobs/new/{link}/"' in page
    assert 'href="/manage/questions/"' in staff.client.get("/manage/jobs/new/finetune/").content.decode()
    assert "must be made first" not in staff.client.get("/manage/jobs/new/ingest/").content.decode()


def test_every_setting_is_explained_as_its_toml_is(staff: Person) -> None:
    everything()
    page = Page(staff.client.get("/manage/jobs/new/finetune/").content.decode())
    hints = [text for attributes, text in page.all("p", "hint")]
    for setting in describe(FinetuneConfig):
        assert any(hint.startswith(setting.help) for hint in hints), setting.name
    assert any("at least 1 · default 2" in hint for hint in hints)


def test_live_progress(staff: Person) -> None:
    now = timezone.now()
    progress = {"done": 500, "total": 2000, "unit": "blocks", "rate": 55.04, "seconds_left": 200.4, "message": ""}
    progress["time"] = now.timestamp()
    job = running(progress=progress, log="shard 1\n<b>not markup</b>", attempt=2, started_at=now)
    for address in (f"/manage/jobs/{job.pk}/", f"/manage/jobs/{job.pk}/status/"):
        response = staff.client.get(address)
        page = " ".join(response.content.decode().split())
        assert response.status_code == 200
        assert "500 of 2,000 blocks" in page and "25 %" in page and "55.0 blocks a second" in page
        assert "3 min 20 s left" in page and "attempt 2" in page
    for address in (f"/manage/jobs/{job.pk}/", f"/manage/jobs/{job.pk}/log/"):
        page = staff.client.get(address).content.decode()
        assert "&lt;b&gt;not markup" in page and "<b>not" not in page
    whole = staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    for part in ("status", "log", "plots"):
        assert f'hx-get="/manage/jobs/{job.pk}/{part}/"' in whole
    assert "Look again" in whole


@pytest.mark.parametrize("progress", [{}, {"done": 0, "total": None, "unit": "pages"}, {"done": 0, "total": 0}])
def test_progress_that_says_little(staff: Person, progress: dict[str, Any]) -> None:
    job = running(progress=progress)
    assert staff.client.get(f"/manage/jobs/{job.pk}/").status_code == 200


def test_progress_of_an_unfinished_job_is_at_most_99_per_cent(staff: Person) -> None:
    job = running(progress={"done": 9999, "total": 10_000, "unit": "steps"})
    assert "99 %" in staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()


def test_polling_stops_when_nothing_changes_any_more(staff: Person) -> None:
    job = running()
    assert staff.client.get("/manage/jobs/table/").status_code == 200
    Job.objects.update(state=JobState.FAILED, error="The disk is full.")
    response = staff.client.get(f"/manage/jobs/{job.pk}/status/")
    assert response.status_code == 286 and b"The disk is full." in response.content
    for part in ("log", "plots"):
        assert staff.client.get(f"/manage/jobs/{job.pk}/{part}/").status_code == 286
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
    written = [(one.action, one.by, one.job) for one in AuditEntry.objects.order_by("pk")]
    assert written == [(f"job.{action}", staff.user, job) for action in ("stop", "resume")]
    assert "Stella: job stopped" in staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()


def test_settings_that_differ_stand_out(staff: Person) -> None:
    everything()
    form = as_posted(staff.client.get("/manage/jobs/new/ict/").content.decode())
    staff.client.post("/manage/jobs/new/ict/", {**form, "steps": "77"})
    page = staff.client.get(f"/manage/jobs/{Job.objects.get().pk}/").content.decode()
    assert "<dt>Steps</dt><dd><strong>77</strong></dd>" in page and "<dt>Batch (examples)</dt><dd>64</dd>" in page
    assert f"{len(list(KINDS['ict'].described())) - 1} settings with their defaults" in page


def test_records_that_have_gone_are_named_as_gone(staff: Person) -> None:
    job = running()
    Job.objects.update(parameters={**job.parameters, "model": 999})
    assert b"not there any more" in staff.client.get(f"/manage/jobs/{job.pk}/").content


def test_what_a_job_made_is_linked(staff: Person) -> None:
    job = running(state=JobState.SUCCEEDED)
    active = Deployment.active()
    assert active is not None
    built = another_index(active.model)
    built.job = job
    built.save()
    page = staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    assert f'id="deploy-{built.pk}" href="/manage/deployments/deploy/?index={built.pk}"' in page
    Deployment.activate(built)
    page = staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    assert 'id="deploy-' not in page and "Questions are answered from it" in page


def test_parts_stand_with_their_whole_and_are_stopped_with_it(staff: Person) -> None:
    job = running()
    for number, state in enumerate((JobState.SUCCEEDED, JobState.RUNNING)):
        Job.objects.create(kind=JobKind.INDEX_SHARD, parent=job, state=state, parameters={"shard": number})
    page = " ".join(staff.client.get(f"/manage/jobs/{job.pk}/").content.decode().split())
    assert "1 of 2 done" in page and ">Shard 1<" in page
    part = Job.objects.get(parent=job, state=JobState.RUNNING)
    page = staff.client.get(f"/manage/jobs/{part.pk}/").content.decode()
    assert f'href="/manage/jobs/{job.pk}/"' in page and 'id="stop"' not in page
    assert str(part.pk) not in staff.client.get("/manage/jobs/").content.decode()  # the list has wholes


def test_the_list_shows_what_is_asked_for(staff: Person) -> None:
    job = running(finished_at=timezone.now() - timedelta(days=2))
    failed = Job.objects.create(kind="ict", queue="train", state=JobState.FAILED)
    for query, shown in (
        ("", {job, failed}),
        ("?show=active", {job}),
        ("?show=failed", {failed}),
        ("?kind=ict", {failed}),
        ("?queue=train", {failed}),
        ("?show=active&kind=ict", set()),
        ("?show=nonsense&kind=nonsense&page=7", {job, failed}),
    ):
        page = staff.client.get(f"/manage/jobs/{query}").content.decode()
        assert {one for one in (job, failed) if f"/manage/jobs/{one.pk}/" in page} == shown, query


def test_pinning_a_run_folder_is_written_down(staff: Person) -> None:
    job = running()
    staff.client.post(f"/manage/jobs/{job.pk}/pin/", {"pinned": "1"})
    job.refresh_from_db()
    assert job.pinned and AuditEntry.objects.get().action == "job.pin"
    staff.client.post(f"/manage/jobs/{job.pk}/pin/", {"pinned": "0"})
    job.refresh_from_db()
    assert not job.pinned and AuditEntry.objects.first().action == "job.unpin"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59.6, "1 min 00 s"), (3600, "1 h 00 min"), (7505, "2 h 05 min"), (98_000, "1 d 3 h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_files_of_records_lie_in_the_data_folder(tmp_path: Path) -> None:
    from webapp.storage.places import portable

    inside = Path(settings.REALM_DATA) / "indexes" / "gen"
    assert portable(inside) == "indexes/gen" and resolve("indexes/gen") == inside
    assert resolve(portable(tmp_path)) == tmp_path
