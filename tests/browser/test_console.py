"""The console in a browser: a job is started, watched and followed to its end; a model is looked at and deployed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.waiting import wait_until
from tests.web.conftest import FakeEngine
from tests.web.console import ANSWERS, another_index, another_model, measured, question_set, whole, write_files
from webapp.models import (
    AuditEntry,
    Deployment,
    Evaluation,
    IndexGeneration,
    Job,
    JobKind,
    JobMetric,
    JobState,
    ModelVersion,
    Purpose,
    Schedule,
    Worker,
)
from webapp.models.schedule import ScheduleStage
from webapp.sources import service as sources

pytestmark = pytest.mark.usefixtures("no_workers")
_LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"


@pytest.fixture
def active(engine: FakeEngine) -> Deployment:
    found = Deployment.active()
    assert found is not None
    return whole(found)


@pytest.fixture
def rival(active: Deployment) -> IndexGeneration:
    """The index of a model that measures worse than the deployed one."""
    questions = question_set()
    model = another_model("realm-worse", block_hash="other")
    index = another_index(model)
    write_files(model, index, active.index.corpus)
    measured(active.model, active.index, questions, ANSWERS)
    measured(model, index, questions, (*ANSWERS[:2], "Paro", "Iron"))
    return index


@pytest.fixture
def console(live_server: LiveServer, active: Deployment, page: Page) -> Iterator[Page]:
    """A page on which somebody of the staff has logged in."""
    log_in(page, live_server)
    yield page


def log_in(page: Page, live_server: LiveServer) -> None:
    """Open the overview as somebody of the staff who has logged in."""
    client = Client()
    staff = User.objects.create_user("Stella", is_staff=True)
    client.force_login(staff, backend="django.contrib.auth.backends.ModelBackend")
    AuditEntry.objects.all().delete()  # tests see what they cause, not this login
    cookie = client.cookies[django_settings.SESSION_COOKIE_NAME]
    page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": live_server.url}])
    page.goto(f"{live_server.url}/manage/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_start_a_job_watch_it_and_follow_it_to_its_end(console: Page, live_server: LiveServer) -> None:
    question_set("learnt", Purpose.LEARN)
    page = console
    page.get_by_role("link", name="Start a job").click()
    page.get_by_role("link", name="Fine-tune").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fine-tune")
    page.get_by_label("Epochs").fill("0")
    page.get_by_label("Index").select_option(index=1)
    page.get_by_role("button", name="Fine-tune").click()
    expect(page.locator("#id_epochs_error")).to_contain_text("Must be at least 1, not 0.")
    page.get_by_label("Epochs").fill("4")
    page.get_by_text("more settings").click()
    page.get_by_label("Dropout").fill("0.2")
    page.get_by_role("button", name="Fine-tune").click()
    expect(page.locator(".state-line")).to_contain_text("queued")
    expect(page.locator("dd strong")).to_have_text(["4", "0.2"])  # what differs from its default
    job = Job.objects.get()

    # A worker takes it; the page sees that by itself.
    Job.claim(job.pk, "somebody", 3600)
    job.heartbeat("somebody", 3600, progress={"done": 25, "total": 100, "unit": "steps", "rate": 2.0}, log="begun")
    expect(page.locator(".state-line")).to_contain_text("running")
    expect(page.locator(".progress-line")).to_contain_text("25 of 100 steps")
    expect(page.locator("#log")).to_contain_text("begun")
    for step in (10, 20):
        values = {"finetune.loss": 3.0 - step / 10}
        JobMetric.objects.create(job=job, step=step, time=timezone.now(), values=values)
    image = page.locator("#plot-loss")
    expect(image).to_be_visible()
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("image => image.naturalWidth") > 0

    # Something has been opened and is being read: it stays so while the page goes on.
    page.get_by_text("settings with their defaults").click()
    page.evaluate(
        """() => {
          window.empty = 0;
          const look = () => {
            const image = document.getElementById("plot-loss");
            if (!image || image.naturalWidth === 0) window.empty += 1;
            requestAnimationFrame(look);
          };
          look();
        }"""
    )
    shown = image.get_attribute("src")
    JobMetric.objects.create(job=job, step=30, time=timezone.now(), values={"finetune.loss": 0.5})
    expect(image).not_to_have_attribute("src", shown or "")
    expect(page.locator("figcaption").first).to_contain_text("0.5")
    assert page.evaluate("window.empty") == 0  # no frame was without the picture: it does not flicker
    expect(page.locator("#default-settings")).to_have_attribute("open", "")

    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("status").first).to_contain_text("asked to stop")
    job.finish("somebody", JobState.STOPPED, log="begun\nstopped")
    expect(page.locator(".state-line")).to_contain_text("stopped")
    expect(page.locator("#log")).to_contain_text("stopped")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".state-line")).to_contain_text("queued")
    assert list(AuditEntry.objects.values_list("action", flat=True)) == ["job.resume", "job.stop", "job.start"]
    assert AuditEntry.objects.filter(name="Stella").count() == 3


def test_the_log_follows_and_stays_where_one_reads(console: Page, live_server: LiveServer) -> None:
    job = Job.objects.create(kind="ict", state=JobState.QUEUED)
    Job.claim(job.pk, "somebody", 3600)
    log = "".join(f"line {number}\n" for number in range(200))
    job.heartbeat("somebody", 3600, log=log)
    page = console
    page.goto(f"{live_server.url}/manage/jobs/{job.pk}/")
    last = page.get_by_text("line 199")
    at_end = "log => { const { bottom } = log.getBoundingClientRect(); return [log.scrollTop, bottom]; }"
    frame = page.locator("#log")
    assert frame.evaluate(at_end)[0] == 0  # counted from the end
    expect(last).to_be_visible()
    job.heartbeat("somebody", 3600, log=log + "the newest line\n")
    expect(frame).to_contain_text("the newest line")
    assert frame.evaluate("log => log.scrollTop") == 0
    frame.evaluate("log => log.scrollTo(0, -500)")
    job.heartbeat("somebody", 3600, log=log + "the newest line\nand one more\n")
    expect(frame).to_contain_text("and one more")
    assert frame.evaluate("log => log.scrollTop") < -400


@pytest.mark.parametrize(
    "place", ["overview", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("list", "parts"))]
)
def test_who_has_tabbed_to_a_link_stays_there_while_the_page_looks_again(
    console: Page, live_server: LiveServer, place: str
) -> None:
    whole = Job.objects.create(kind=JobKind.INDEX, state=JobState.RUNNING)
    part = Job.objects.create(kind=JobKind.INDEX_SHARD, parent=whole, state=JobState.RUNNING)
    address, polled, wanted = {
        "overview": ("/manage/", "/manage/status/", whole),
        "list": ("/manage/jobs/", "/manage/jobs/table/", whole),
        "parts": (f"/manage/jobs/{whole.pk}/", f"/manage/jobs/{whole.pk}/status/", part),
    }[place]
    page = console
    page.goto(live_server.url + address)
    focused = "document.activeElement.getAttribute('href')"
    for _ in range(300):  # a look of the page in between may begin at its top again
        page.keyboard.press("Tab")
        if page.evaluate(focused) == f"/manage/jobs/{wanted.pk}/":
            break
    page.evaluate("window.before = document.activeElement")
    with page.expect_response(lambda response: response.url.endswith(polled)):
        pass
    # Not wait_for_function: it asks a second time by `eval`, which the pages' policy forbids.
    wait_until(lambda: page.evaluate("!document.contains(window.before)"))
    assert page.evaluate(focused) == f"/manage/jobs/{wanted.pk}/"


def test_compare_deploy_what_is_worse_and_go_back(
    console: Page, live_server: LiveServer, active: Deployment, rival: IndexGeneration
) -> None:
    page = console
    page.get_by_role("navigation", name="Manage").get_by_role("link", name="Compare").click()
    page.get_by_label("Second model").select_option(str(rival.model_id))
    page.get_by_label("Questions", exact=True).select_option(index=1)
    page.get_by_label("How many of the questions").fill("0")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".table--compare tbody tr").first).to_contain_text("−50.0")
    expect(page.locator(".differences li")).to_have_count(2)
    page.get_by_role("link", name="B alone").click()
    expect(page.locator(".differences li")).to_have_count(0)

    page.get_by_role("navigation", name="Manage").get_by_role("link", name="Indexes").click()
    page.get_by_role("link", name="Deploy … gen-other").click()
    expect(page.get_by_text("It answers worse on plain-dev").first).to_be_visible()
    page.get_by_label("Note").fill("It is smaller")
    page.get_by_role("button", name="Deploy").click()
    assert Deployment.active() == active  # the browser itself asks for the tick
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Deploy").click()
    expect(page.get_by_role("status").first).to_contain_text("answers questions as soon as it is loaded")
    deployed = Deployment.active()
    assert deployed is not None and (deployed.index, deployed.note) == (rival, "It is smaller")

    page.get_by_role("link", name=f"Go back … to deployment {active.pk}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Go back to deployment {active.pk}")
    expect(page.get_by_role("checkbox")).to_have_count(0)  # it measures better
    page.get_by_role("button", name="Go back").click()
    expect(page.get_by_role("status").first).to_be_visible()
    back = Deployment.active()
    assert back is not None and back.index == active.index
    page.get_by_role("navigation", name="Manage").get_by_role("link", name="Audit").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody")).to_contain_text("I have read this and want to deploy it anyway.")


def addresses(active: Deployment) -> list[str]:
    """Every kind of page of the console, with names that are long."""
    model = another_model(_LONG)
    ModelVersion.objects.filter(pk=model.pk).update(card=f"# {_LONG}")
    index = another_index(model, f"{_LONG}-1")
    questions = question_set(_LONG)
    learnt = question_set("learnt", Purpose.LEARN)
    first = measured(active.model, active.index, questions, ANSWERS)
    second = measured(model, index, questions, (*ANSWERS[:2], _LONG, "no"))
    job = Job.objects.create(
        kind=JobKind.INDEX,
        state=JobState.RUNNING,
        parameters={"model": model.pk, "corpus": active.index.corpus_id, "shard_rows": 7},
        progress={"done": 10, "total": 1000, "unit": "blocks", "rate": 1.5, "seconds_left": 700, "message": _LONG},
        log=f"{_LONG * 5}\n",
    )
    Job.objects.create(kind=JobKind.INDEX_SHARD, parent=job, state=JobState.FAILED, error=_LONG)
    failed = Job.objects.create(
        kind="ict", state=JobState.FAILED, error=_LONG, finished_at=timezone.now(), parameters={"name": _LONG}
    )
    for name, value in (("loss", 2.0), ("accuracy", 0.5), ("sequences_per_s", 9.0)):
        JobMetric.objects.create(job=failed, step=1, time=timezone.now(), values={f"ict.{name}": value})
    device = {"name": "cuda:0", "kind": _LONG, "memory_used": 2**35, "memory_total": 2**36, "utilisation": 0.5}
    Worker.objects.create(name=f"{_LONG}:1", host=_LONG, queues=["index"], slots=1, devices=[device])
    schedule = Schedule.objects.create(corpus_name="vital-en", trigger="every", hours=1, last_outcome=_LONG)
    AuditEntry.record("job.start", _LONG, by=_LONG, parameters={"name": _LONG})
    if not sources.sources():
        sources.add(f"{_LONG}.jsonl", [b"{}"], by=None)
    spans = active.index.corpus.span_sets.create(path="s", tagger=_LONG, spans=1, blocks=1)
    return [
        "/manage/",
        "/manage/jobs/",
        "/manage/jobs/new/",
        "/manage/jobs/new/finetune/",
        f"/manage/jobs/{job.pk}/",
        f"/manage/jobs/{failed.pk}/",
        "/manage/models/",
        f"/manage/models/{model.pk}/",
        "/manage/indexes/",
        f"/manage/indexes/{index.pk}/",
        "/manage/corpora/",
        f"/manage/corpora/{active.index.corpus_id}/",
        "/manage/corpora/files/",
        f"/manage/spans/{spans.pk}/",
        "/manage/questions/",
        f"/manage/questions/{learnt.pk}/",
        f"/manage/evaluations/{second.pk}/",
        "/manage/compare/",
        f"/manage/compare/{first.pk}/{second.pk}/",
        "/manage/deployments/",
        f"/manage/deployments/deploy/?index={index.pk}",
        "/manage/schedules/",
        f"/manage/schedules/{schedule.pk}/",
        "/manage/audit/",
    ]


def test_send_a_file_choose_it_to_be_ingested_and_remove_it(console: Page, tmp_path: Path, settings: Any) -> None:
    settings.REALM_DATA = tmp_path
    page = console
    page.get_by_role("navigation", name="Manage").get_by_role("link", name="Corpora").click()
    page.get_by_role("link", name="Files to ingest").click()
    page.get_by_label("File", exact=True).set_input_files(
        {"name": "towns.jsonl", "mimeType": "application/json", "buffer": b'{"id": "1", "title": "T", "text": "T."}'}
    )
    page.get_by_role("button", name="Add").click()
    row = page.get_by_role("row", name="towns.jsonl")
    expect(row).to_contain_text("39")
    row.get_by_role("link", name="Ingest").click()
    expect(page.get_by_label("File", exact=True)).to_have_value("towns.jsonl")
    expect(page.get_by_label("Source", exact=True)).to_have_value("jsonl")
    page.go_back()
    page.get_by_role("row", name="towns.jsonl").get_by_role("button", name="Remove").click()
    expect(page.locator(".empty")).to_contain_text("There is no file yet.")
    assert not list((tmp_path / "sources").iterdir())


def test_on_a_phone_both_menus_are_a_line_each_and_begin_at_the_open_page(
    console: Page, live_server: LiveServer
) -> None:
    console.set_viewport_size({"width": 390, "height": 844})
    console.goto(f"{live_server.url}/manage/audit/")
    for menu, link in (("Main", "Manage"), ("Manage", "Audit")):
        place = console.get_by_role("navigation", name=menu)
        assert place.bounding_box()["height"] < 50  # type: ignore[index]
        expect(place.get_by_role("link", name=link, exact=True)).to_be_in_viewport(ratio=1)
    assert console.evaluate("document.documentElement.scrollWidth") <= 390
    first = console.get_by_role("navigation", name="Manage").get_by_role("link", name="Overview")
    expect(first).not_to_be_in_viewport(ratio=1)
    first.focus()
    expect(first).to_be_in_viewport(ratio=1)


def test_on_a_phone_the_stage_of_a_schedule_is_not_cut_off(console: Page, live_server: LiveServer) -> None:
    """The table scrolls what is wider than it."""
    stage = ScheduleStage.CHECK_NOW
    Schedule.objects.create(corpus_name="towns", trigger="every", hours=6, stage=stage, last_run_at=timezone.now())
    console.set_viewport_size({"width": 390, "height": 844})
    console.goto(f"{live_server.url}/manage/schedules/")
    expect(console.get_by_text(stage.label, exact=True)).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_columns_of_a_comparison_have_short_names_and_the_page_the_whole_ones(
    console: Page, live_server: LiveServer, rival: IndexGeneration, width: int
) -> None:
    ModelVersion.objects.filter(pk=rival.model_id).update(version="0f3a9c1b7d5e2468")
    first, second = Evaluation.objects.order_by("pk")
    console.set_viewport_size({"width": width, "height": 844})
    console.goto(f"{live_server.url}/manage/compare/{first.pk}/{second.pk}/")
    column = console.get_by_role("columnheader", name="B realm-worse")
    expect(column).to_have_text("B realm-worse")
    expect(column).to_have_attribute("title", "realm-worse 0f3a9c1b7d5e2468")
    expect(console.get_by_role("link", name="realm-worse 0f3a9c1b7d5e2468")).to_be_visible()
    assert column.locator("bdi").bounding_box()["height"] < 30  # type: ignore[index]  # one line
    row = console.get_by_role("row", name="Exact match, what was withheld")
    assert row.bounding_box()["height"] < 110  # type: ignore[index]
    assert console.evaluate("document.documentElement.scrollWidth") <= width


def test_everything_can_be_done_without_javascript(
    live_server: LiveServer, active: Deployment, browser: Browser
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    log_in(page, live_server)
    page.get_by_role("link", name="Start a job").click()
    page.get_by_role("link", name="Ingest a corpus").click()
    page.get_by_role("button", name="Ingest a corpus").click()
    expect(page.locator(".state-line")).to_contain_text("queued")
    job = Job.objects.get()
    Job.claim(job.pk, "somebody", 3600)
    page.get_by_role("link", name="Look again").click()
    expect(page.locator(".state-line")).to_contain_text("running")
    page.get_by_role("button", name="Stop").click()
    job.refresh_from_db()
    assert job.state == JobState.STOPPING
    context.close()
