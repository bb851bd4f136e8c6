"""Segments go when nothing needs them any more, and never under a question, a kept answer or a fold."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from realm_core.errors import RealmError
from tests.waiting import wait_until
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents import folds
from tests.web.documents.conftest import deploy_confirmed, meanwhile
from webapp.artefacts.removing import remove_superseded
from webapp.articles import service as articles
from webapp.documents import folding, sweeping
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import show
from webapp.models import AskedAnswer, AuditEntry, CorpusSnapshot, CorpusState, Deployment, IndexGeneration, Job
from webapp.serving.engine import load_engine
from webapp.serving.living import store_of
from webapp.storage.places import keep_files, living_dir
from workers.executions import EXECUTIONS

TURKU = DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku", licence="CC0")
LATER = replace(TURKU, source=Text("Turku was founded in 1229."))
LAST = replace(TURKU, source=Text("Turku has a cathedral."))


def segments() -> set[str]:
    return {path.name for path in living_dir().glob("*/segments/*")}


def current() -> set[str]:
    """The names of the segments of all current states."""
    return {name for row in CorpusState.objects.filter(is_current=True) for name in row.state["segments"]}


def age(days: float = 2) -> None:
    """Let everything that was edited so far have been edited some days earlier."""
    for row in CorpusState.objects.all():
        CorpusState.objects.filter(pk=row.pk).update(created_at=row.created_at - timedelta(days=days))
    AskedAnswer.objects.update(created_at=F("created_at") - timedelta(days=days))
    for folder in living_dir().glob("*/segments/*"):
        then = folder.stat().st_mtime - days * 86400
        os.utime(folder, (then, then))


@pytest.fixture
def edited(answering: Deployment) -> Deployment:
    """Three segments, of which the last alone is of the current state."""
    for given in (TURKU, LATER, LAST):
        documents.add([given], by=None) if given is TURKU else documents.change("turku", given, by=None)
    assert len(segments()) == 3 and len(current()) == 1
    return answering


@pytest.mark.postgresql_first
def test_what_nothing_needs_goes_after_a_day(edited: Deployment) -> None:
    assert sweeping.earlier(IndexGeneration.objects.get()) == 2
    assert sweeping.sweep(by="retention") == [], "a process may be about to open an earlier state"
    age()
    gone = sweeping.sweep(by="retention")
    assert len(gone) == 2 and segments() == current()
    assert len(AuditEntry.objects.get(action="segments.remove").details["segments"]) == 2
    assert sweeping.earlier(IndexGeneration.objects.get()) == 0 and sweeping.sweep(by="retention") == []
    load_engine(Deployment.objects.get(pk=edited.pk)).close()
    assert show("turku").text == "Turku has a cathedral."
    asked = ask("What has Turku?", k=20)
    assert asked.payload["corpus"].endswith(f"+{CorpusState.objects.get(is_current=True).state_id}")


def test_a_state_is_kept_for_a_day_from_the_edit_that_replaced_it(edited: Deployment) -> None:
    age()
    last = current()
    documents.remove(["turku"], by=None)
    sweeping.sweep(by="retention")
    assert segments() == last and current() == set()
    age()
    sweeping.sweep(by="retention")
    assert segments() == set()


@pytest.mark.postgresql_first
def test_an_edit_that_uses_an_old_segment_again_keeps_it(edited: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swept between the moment at which the edit has found it there and that at which it commits."""
    age()
    meanwhile(monkeypatch, documents.Edit, "_commit", lambda: sweeping.sweep(by="retention"))
    documents.change("turku", TURKU, by=None)
    assert current() < segments() and show("turku").text == "Turku is a city in Finland."
    load_engine(Deployment.objects.get(pk=edited.pk)).close()


@pytest.mark.postgresql_first
def test_what_a_stored_answer_was_read_from_is_kept_as_long_as_the_answer(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    asked = ask("Where is Turku?", k=20)
    [block] = [one["block_id"] for one in asked.payload["evidence"] if one["title"] == "Turku"]
    documents.change("turku", LATER, by=None)
    age()
    assert sweeping.sweep(by="retention") == []
    found = articles.find(block, asked, hidden=())
    assert found is not None and found.article.text == "Turku is a city in Finland."
    AskedAnswer.objects.filter(pk=asked.pk).delete()
    assert len(sweeping.sweep(by="retention")) == 1 and segments() == current()


@pytest.mark.postgresql_first
def test_only_answers_of_the_time_of_an_earlier_state_are_looked_at(answering: Deployment) -> None:
    """Otherwise each sweep would read all kept answers, while edits wait for its lock."""
    documents.add([TURKU], by=None)
    age()
    with CaptureQueriesContext(connection) as queries:
        assert sweeping.sweep(by="retention") == []
    assert not [one for one in queries if AskedAnswer._meta.db_table in one["sql"]], "all segments are current"
    documents.change("turku", LATER, by=None)
    asked = ask("Where is Turku?", k=20)
    documents.change("turku", LAST, by=None)
    age()
    with CaptureQueriesContext(connection) as queries:
        assert len(sweeping.sweep(by="retention")) == 1, "that of the first state, which nobody asked"
    read = [one["sql"] for one in queries if AskedAnswer._meta.db_table in one["sql"]]
    assert read and all('"created_at" BETWEEN' in sql for sql in read)
    assert len(segments()) == 2 and AskedAnswer.objects.get() == asked


def test_what_is_edited_above_an_index_that_does_not_answer_is_kept(
    answering: Deployment, another_index: IndexGeneration
) -> None:
    documents.add([TURKU], by=None)
    deploy_confirmed(another_index)
    age()
    assert sweeping.sweep(by="retention") == []
    deploy_confirmed(answering.index)
    assert show("turku").text == "Turku is a city in Finland."


@pytest.mark.postgresql_first
def test_an_unfinished_fold_keeps_what_it_began_with(edited: Deployment) -> None:
    job = folding.start(by=None)
    first = folds.task_of(job)  # which writes the state that all attempts fold
    began_with = current()
    documents.change("turku", TURKU, by=None)
    age()
    sweeping.sweep(by="retention")
    assert segments() == current() | began_with and first is not None
    EXECUTIONS["fold"].record(job, folds.compute(job))
    assert show("turku").text == "Turku is a city in Finland."
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    IndexGeneration.objects.filter(folded_from__isnull=False).update(created_at=timezone.now() - timedelta(days=2))
    age()
    sweeping.sweep(by="retention")
    assert segments() == current()
    assert remove_superseded(by="retention") == []


@pytest.mark.parametrize(("file", "content"), [("state-0.json", "{"), ("result.json", "{}"), ("result.json", "[]")])
def test_a_fold_that_cannot_be_read_keeps_its_own_corpus_alone(
    edited: Deployment, caplog: pytest.LogCaptureFixture, file: str, content: str
) -> None:
    own = edited.index
    corpus = CorpusSnapshot.objects.create(
        name="other", snapshot_id="o" * 16, path="corpora/other/o", source="x", language="en", articles=1, blocks=1
    )
    index = IndexGeneration.objects.create(
        generation="other", model=own.model, corpus=corpus, path="indexes/other", rows=1, dim=2
    )
    job = Job.objects.create(kind="fold", state="interrupted", parameters={"index": index.pk})
    job.run_dir.mkdir(parents=True)
    (job.run_dir / file).write_text(content)
    (living_dir() / "other" / "segments" / "a").mkdir(parents=True)
    age()
    assert len(sweeping.sweep(by="retention")) == 2 and segments() == {*current(), "a"}
    assert f"The segments of other are swept later: {job.run_dir / file}" in caplog.text
    Job.objects.filter(pk=job.pk).update(parameters={"index": own.pk})
    assert sweeping.sweep(by="retention") == ["Segment a of other"]


def test_what_was_removed_before_an_error_is_in_the_audit_trail(edited: Deployment) -> None:
    age()
    (living_dir() / "tiny" / "segments" / "zz").symlink_to("nowhere")
    assert len(sweeping.sweep(by="retention")) == 2
    assert len(AuditEntry.objects.get(action="segments.remove").details["segments"]) == 2


@pytest.mark.postgresql_first
def test_a_corpus_that_is_being_edited_is_left_to_the_next_sweep(edited: Deployment) -> None:
    age()
    with store_of(edited.index).lock():
        assert sweeping.sweep(by="retention") == []
    assert len(sweeping.sweep(by="retention")) == 2


def read_now(deployment: Deployment) -> Deployment:
    """A deployment as a process reads it that is about to load its engine: with the state that is current now."""
    found = Deployment.objects.select_related("model", "index__corpus", "index__model").get(pk=deployment.pk)
    _ = found.index.current_state
    return found


@pytest.mark.postgresql_first
def test_questions_are_answered_meanwhile(edited: Deployment) -> None:
    """By an engine with a state whose segments go, and by one that is loaded with the state before the last edit."""
    engine, failures, done, asked = load_engine(read_now(edited)), list[Exception](), threading.Event(), 0

    def keep_asking() -> None:
        nonlocal asked
        while not done.wait(0.2):  # so that the engine that closes finds a pause to release its memory in
            try:
                engine.ask("What has Turku?", k=5)
            except Exception as failure:
                failures.append(failure)
            asked += 1

    before, asker = segments(), threading.Thread(target=keep_asking)
    asker.start()
    try:
        for number in range(2):
            age()
            deployment = read_now(edited)
            documents.change("turku", replace(TURKU, source=Text(f"Turku has {number + 2} bridges.")), by=None)
            sweeping.sweep(by="retention")
            load_engine(deployment).close()
            wait_until(lambda so_far=asked: asked > so_far)
    finally:
        done.set()
        asker.join()
        engine.close()
    assert failures == [] and segments().isdisjoint(before)


def test_no_segment_is_removed_while_a_backup_runs(edited: Deployment) -> None:
    age()
    with keep_files(), pytest.raises(RealmError, match="backup"):
        sweeping.sweep(by="retention")
    assert len(segments()) == 3


def test_the_page_says_what_is_kept_and_why(edited: Deployment, staff: Person, client: Any) -> None:
    client.force_login(staff.user)
    page = client.get("/manage/documents/").content.decode()
    assert "edits</summary><p>Each of these segments" in page and "as long as a kept answer" in page
    age()
    sweeping.sweep(by="retention")
    assert "of earlier states" not in client.get("/manage/documents/").content.decode()
