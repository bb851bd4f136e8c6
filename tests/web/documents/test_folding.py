"""A fold changes no answer, keeps every record, and loses no edit."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.utils import timezone

from realm_core.errors import RealmError
from tests.tiny import ARTICLES
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.console import ANSWERS, measured, question_set
from tests.web.documents import folds
from tests.web.documents.conftest import copied, meanwhile, titles
from webapp.artefacts.removing import remove_superseded
from webapp.artefacts.uses import uses
from webapp.deployments import service as deploying
from webapp.documents import bringing, folding
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.listing import DocumentQuery, listed
from webapp.documents.viewing import show
from webapp.evaluations import service as comparing
from webapp.evaluations.service import Candidate, find, own_normalisation
from webapp.models import (
    AskedAnswer,
    AuditEntry,
    CorpusChange,
    Deployment,
    Document,
    Evaluation,
    GoneBlock,
    IndexGeneration,
    Job,
)
from webapp.purges import service as purging
from webapp.serving.engine import holder
from workers.executions import EXECUTIONS, RunAgain

FINLAND = Text("Turku is a city in Finland.\nIts castle was founded in 1280.")
TURKU = DocumentInput(FINLAND, "turku", "Turku", licence="CC0", tags=("city",))
MARS = DocumentInput(Text("Mars is red. Its moons are Phobos and Deimos."), "Mars", "Mars", collection="space")
QUESTIONS = [f"What is said about {title}?" for title in (*ARTICLES, "Turku")]


@pytest.fixture
def folders(folders: tuple[Path, Path, Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """The tiny deployment, copied to the data folder, because a fold writes beside it."""
    return copied(folders, tmp_path)


@pytest.fixture
def edited(answering: Deployment, staff: Person) -> Deployment:
    documents.add([TURKU], by=staff.user)
    documents.change("Mars", MARS, by=staff.user)
    documents.remove(["Nile"], by=staff.user)
    return answering


def answers() -> list[AskedAnswer]:
    return [ask(question, k=5) for question in QUESTIONS]


def told(asked: AskedAnswer) -> list[tuple[str, str, Any]]:
    """The answer and its evidence, with figures to five decimal places."""
    answer = asked.payload["answer"]
    return [
        (answer["text"], "", pytest.approx(answer["probability"], abs=1e-5)),
        *(
            (block["block_id"], block["collection"], pytest.approx(block["posterior"], abs=1e-5))
            for block in asked.payload["evidence"]
        ),
    ]


def test_the_answers_stay_as_they_are(edited: Deployment) -> None:
    before = answers()
    after = folds.fold()
    assert after.index != edited.index and after.model == edited.model
    for was, now in zip(before, answers(), strict=True):
        assert told(was) == told(now)
        assert was.payload["corpus"].startswith(f"tiny@{edited.index.corpus.snapshot_id}+")
        assert now.payload["corpus"] == f"tiny@{after.index.corpus.snapshot_id}" and now.deployment == after
    with pytest.raises(folding.NothingToFold):
        folding.start(by=None)
    assert AuditEntry.objects.get(action="documents.fold").details["deployment"] == after.pk


@pytest.mark.postgresql_first
def test_documents_keep_their_records(edited: Deployment, staff: Person) -> None:
    rows = Document.objects.order_by("pk").values("document_id", "status", "changed_at", "added_by")
    before = list(rows)
    history = list(CorpusChange.objects.values())
    after = folds.fold()
    assert list(rows.all()) == before
    assert list(CorpusChange.objects.values()) == history
    assert set(Document.objects.values_list("index", flat=True)) == {after.index.pk}
    shown = show("turku")
    assert (shown.about.licence, shown.about.tags, shown.row.added_by) == ("CC0", ("city",), staff.user)
    assert show("Mars").about.collection == "space" and show("Berlin").about.collection == "tiny"
    assert show("Nile").status == "removed" and "Nile" not in titles()
    assert listed(DocumentQuery(title="Berlin")).total == 1 and bringing.waiting() is None

    documents.change("turku", replace(TURKU, source=Text("Turku lies at the Aura.")), by=None)
    assert [change.kind for change in Document.objects.get(document_id="turku").changes.all()] == ["changed", "added"]
    assert show("turku").text == "Turku lies at the Aura." and show("turku").about.tags == ("city",)


def test_kept_answers_are_told_what_changed_since(edited: Deployment) -> None:
    asked = ask("What is said about Turku?", k=30)
    folds.fold()
    assert GoneBlock.in_evidence(asked) == {}
    documents.remove(["turku"], by=None)
    assert {change.document.document_id for change in GoneBlock.in_evidence(asked).values()} == {"turku"}
    assert "Turku" not in titles()


def test_what_was_measured_before_the_fold_counts_behind_it(edited: Deployment) -> None:
    """Of the corpus just as it was folded alone."""
    questions, other = question_set(), question_set("other")
    state = edited.index.state_now()
    assert state is not None
    found = own_normalisation(edited.model)
    measured(edited.model, edited.index, questions, ANSWERS, normalisation=found)  # before anything was edited
    measured(edited.model, edited.index, other, ANSWERS, normalisation=found, state_id="0123456789abcdef")
    equal = measured(edited.model, edited.index, questions, ANSWERS, normalisation=found, state_id=state.state_id)
    after = folds.fold()
    now = Candidate(after.model, after.index.corpus)
    assert find(now, questions, 0) == equal and list(comparing.measured(now)) == [equal]
    assert find(now, other, 0) is None
    [(first, second)] = comparing.measured_alike(now, now)
    assert first == second == equal

    documents.remove(["turku"], by=None)
    assert find(now, questions, 0) is None  # it is another corpus by now, as it would be without a fold
    assert list(comparing.measured(now)) == [equal]
    state = after.index.state_now()
    assert state is not None
    other_model = measured(after.model, after.index, questions, ANSWERS, normalisation=found, state_id=state.state_id)
    equal = Evaluation.objects.get(pk=equal.pk)  # whose index knows of the fold
    assert comparing.edited_between(equal, other_model)
    assert find(now, questions, 0) == other_model

    again = folds.fold()  # what was measured two folds ago is not of this corpus, what was before the last one is
    last = Candidate(again.model, again.index.corpus)
    assert find(last, questions, 0) == other_model and list(comparing.measured(last)) == [other_model]
    other_model = Evaluation.objects.get(pk=other_model.pk)
    assert comparing.asked_of(other_model) == (again.index.corpus_id, "")
    assert comparing.asked_of(equal) == (after.index.corpus_id, "")


def test_what_was_measured_of_an_edit_during_the_fold_counts_behind_it(edited: Deployment) -> None:
    job = folding.start(by=None)
    folds.compute(job)
    documents.remove(["turku"], by=None)
    state = edited.index.state_now()
    assert state is not None
    found = own_normalisation(edited.model)
    questions = question_set()
    equal = measured(edited.model, edited.index, questions, ANSWERS, normalisation=found, state_id=state.state_id)
    EXECUTIONS["fold"].record(job, folds.compute(job))
    after = Deployment.active()
    assert after is not None and after.index != edited.index and after.index.state_now() is not None
    assert find(Candidate(after.model, after.index.corpus), questions, 0) == equal
    again = folds.fold()  # nothing was edited between the two
    assert again.index != after.index
    assert find(Candidate(again.model, again.index.corpus), questions, 0) == equal


@pytest.mark.postgresql_first
def test_an_edit_during_the_fold_is_there_afterwards(edited: Deployment) -> None:
    job = folding.start(by=None)
    result = folds.compute(job)
    documents.add([replace(TURKU, document_id="oulu", title="Oulu")], by=None)
    documents.remove(["Berlin", "turku"], by=None)
    with pytest.raises(RunAgain):
        EXECUTIONS["fold"].record(job, result)
    assert Deployment.active() == edited and titles() >= {"Oulu", "Mars"}

    now = answers()
    again = folds.compute(job)
    assert again["generation"] == result["generation"], "what was folded is not folded again"
    EXECUTIONS["fold"].record(job, again)
    holder().refresh(wait=True)
    assert [told(one) for one in answers()] == [told(one) for one in now]
    assert titles() >= {"Oulu", "Mars"} and titles().isdisjoint({"Berlin", "Turku", "Nile"})
    assert show("oulu").text and folding.edits(Deployment.active().index).segments == 1  # type: ignore[union-attr]


@pytest.mark.postgresql_first
def test_an_edit_that_a_fold_overtakes_is_repeated_above_the_new_index(
    edited: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = folding.start(by=None)
    result = folds.compute(job)
    meanwhile(monkeypatch, documents.Edit, "_commit", lambda: EXECUTIONS["fold"].record(job, result))
    documents.add([replace(TURKU, document_id="oulu", title="Oulu")], by=None)
    holder().refresh(wait=True)
    active = Deployment.active()
    assert active is not None and active != edited
    assert "Oulu" in titles() and Document.objects.get(document_id="oulu").index == active.index


@pytest.mark.postgresql_first
def test_a_fold_that_fails_while_it_is_recorded_has_not_happened(
    edited: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = folding.start(by=None)
    result = folds.compute(job)
    before = list(Document.objects.values()), list(edited.index.states.values())
    with monkeypatch.context() as context:
        context.setattr(AuditEntry, "record", lambda *_given, **_more: 1 / 0)  # the last step
        with pytest.raises(ZeroDivisionError):
            EXECUTIONS["fold"].record(job, result)
    assert (list(Document.objects.values()), list(edited.index.states.values())) == before
    assert Deployment.active() == edited and IndexGeneration.every.count() == 1 and "Turku" in titles()
    EXECUTIONS["fold"].record(job, result)
    assert Deployment.active() != edited


def test_what_another_deployment_has_replaced_is_not_folded(edited: Deployment) -> None:
    job = folding.start(by=None)
    result = folds.compute(job)
    edited.is_active = False
    edited.save()
    with pytest.raises(RealmError, match="answers no more"):
        EXECUTIONS["fold"].record(job, result)


def test_nothing_goes_back_to_what_was_folded(edited: Deployment) -> None:
    after = folds.fold()
    with pytest.raises(RealmError, match=f"was folded into {after.index.generation}"):
        deploying.roll_back(Deployment.objects.get(pk=edited.pk))
    with pytest.raises(RealmError, match="was folded into"):
        Deployment.activate(IndexGeneration.objects.get(pk=edited.index_id))
    assert after.earlier(5) == [] and uses(IndexGeneration.objects.get(pk=edited.index_id)) == []


@pytest.mark.postgresql_first
def test_a_second_fold_removes_what_was_purged_after_the_first(edited: Deployment) -> None:
    documents.add([replace(TURKU, document_id="oulu", title="Oulu")], by=None)
    first = folds.fold()
    purge = purging.purge(["turku"], by=None)
    assert "Turku" not in titles() and len(purge.remaining) == 2
    assert folding.edits(first.index).worth_folding, "for the base that a fold made still has it"
    second = folds.fold()
    assert not folding.edits(second.index).worth_folding and titles() >= {"Oulu", "Mars"}
    assert remove_superseded(by="retention") == [], "a web process may still answer from there"
    later = timezone.now() + timedelta(days=2)
    assert len(remove_superseded(by="retention", now=later)) == 2
    first.index.refresh_from_db()
    assert first.index.removed_at and first.index.corpus.removed_at and not edited.index.removed_at
    again = purging.purge(["turku"], by=None)
    assert again.files == [] and again.remaining == []
    assert remove_superseded(by="retention", now=later) == []
    purging.purge(["oulu"], by=None)
    assert folding.edits(second.index).purged, "also where what it was folded from is no more"


def test_it_begins_by_itself_when_it_is_worth_it(
    edited: Deployment, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folding.edits(edited.index) == folding.Edits(segments=2, documents=2, gone=2, base=len(ARTICLES))
    assert folding.start_if_due() is None
    monkeypatch.setattr(folding, "FEWEST_EDITED", 4)
    settings.REALM_FOLD = "off"
    assert folding.start_if_due() is None
    settings.REALM_FOLD = "auto"
    job = folding.start_if_due()
    assert job is not None and folding.start_if_due() is None
    assert AuditEntry.objects.get(action="job.start").name == "folding"
    Job.objects.filter(pk=job.pk).update(state="failed")
    assert folding.start_if_due() is None, "the same state would fail again"
    documents.remove(["Berlin"], by=None)
    assert folding.start_if_due() is not None


@pytest.mark.parametrize(
    ("edits", "worth"),
    [
        (folding.Edits(segments=200, documents=200, base=10_000), False),
        (folding.Edits(segments=201, documents=201, base=10_000), True),
        (folding.Edits(segments=5, documents=900, gone=99, base=1_000), False),
        (folding.Edits(segments=5, documents=900, gone=100, base=9_999), True),
        (folding.Edits(segments=5, documents=900, gone=100, base=10_000), False),
        (folding.Edits(gone=1, base=10_000, purged=True), True),
    ],
)
def test_what_is_worth_folding(edits: folding.Edits, worth: bool) -> None:
    assert edits.worth_folding == worth


def test_page_and_command_start_it(edited: Deployment, staff: Person) -> None:
    client = staff.client
    page = client.get("/manage/documents/").content.decode()
    assert "Fold them" in page and re.search(
        r">2</span> added or changed, <span class=.num.>2</span> removed or replaced", page
    )
    job = Job.objects.get(pk=client.post("/manage/documents/fold/").url.split("/")[-2])  # type: ignore[attr-defined]
    assert (job.kind, job.created_by) == ("fold", staff.user)
    page = client.get("/manage/documents/").content.decode()
    assert "Fold them" not in page and f"/manage/jobs/{job.pk}/" in page
    with pytest.raises(CommandError, match=f"already by job {job.pk}"):
        call_command("documents", "fold")
    EXECUTIONS["fold"].record(job, folds.compute(job))
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    assert "Fold them" not in client.get("/manage/documents/").content.decode()
    into, old = IndexGeneration.objects.get(folded_from__isnull=False), edited.index_id
    for one, other, words in ((old, into.pk, "Folded into"), (into.pk, old, "Folded from")):
        page = client.get(f"/manage/indexes/{one}/").content.decode()
        assert words in page and f'href="/manage/indexes/{other}/"' in page
    assert "Deploy …" not in client.get(f"/manage/indexes/{old}/").content.decode()
    told = {pk: client.get(f"/api/v1/indexes/{pk}").json() for pk in (old, into.pk)}
    assert (told[old]["folded_from"], told[old]["folded_into"]) == ([], into.pk)
    assert (told[into.pk]["folded_from"], told[into.pk]["folded_into"]) == ([old], None)
    assert "nothing to fold" in client.post("/manage/documents/fold/", follow=True).content.decode()
