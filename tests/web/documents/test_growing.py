"""What a schedule deploys has the edits of what answered, from the first moment on; whoever measures it finds them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

import realm_core.living.editing
from realm_core.object_store import put_folder
from tests.tiny import ARTICLES
from tests.web.conftest import Person
from tests.web.console import ANSWERS, measured, question_set
from tests.web.documents.conftest import Snapshots, deploy_confirmed, meanwhile, titles
from tests.web.documents.growing import active, advance
from tests.web.operating import TokenClient, post, problem
from webapp.collections import service as collections
from webapp.collections.service import CollectionSettings
from webapp.deployments import service as deploying
from webapp.documents import bringing
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import show
from webapp.evaluations.service import own_normalisation
from webapp.models import (
    CorpusSnapshot,
    CorpusState,
    Deployment,
    Document,
    IndexGeneration,
    Job,
    JobKind,
    JobState,
    QuestionSet,
    Schedule,
)
from webapp.models.schedule import ScheduleStage
from webapp.purges import masks
from webapp.schedules import service as scheduling
from webapp.serving import living
from webapp.serving.engine import holder
from webapp.serving.living import current_view
from webapp.storage.places import resolve

TURKU = DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku", licence="CC0", tags=("cities",))
MARS = DocumentInput(Text("Mars is red."), "Mars", "Mars")
BACH = "Johann Sebastian Bach"


@pytest.fixture
def edited(answering: Deployment) -> None:
    """Four documents: one added, one changed, one removed, one moved to another collection."""
    documents.add([TURKU], by=None)
    documents.change("Mars", MARS, by=None)
    documents.remove(["Nile"], by=None)
    move_bach("board")


def move_bach(collection: str) -> None:
    bach = show(BACH)
    documents.change(BACH, DocumentInput(Text(bach.text), title=bach.title, collection=collection), by=None)


def about_to_measure(later: IndexGeneration, questions: QuestionSet) -> Schedule:
    """A run that deploys an index which measures no worse, and has just built it."""
    return Schedule.objects.create(
        corpus_name=later.corpus.name,
        trigger="every",
        hours=1,
        questions=questions,
        deploy=True,
        stage=ScheduleStage.INDEX,
        corpus=later.corpus,
        last_job=Job.objects.create(kind=JobKind.INDEX, state=JobState.SUCCEEDED),
    )


@pytest.mark.postgresql_first
def test_edits_are_there_from_the_first_moment_on(
    edited: None, later: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []
    activate = Deployment.activate

    def watched(index: IndexGeneration, **about: Any) -> Deployment:
        row = CorpusState.objects.get(index=index, is_current=True)
        view = bringing.opened(index, row)
        seen.append({one: view.collection_of(row) for one, row in view.with_ids(["Nile", BACH, "turku"]).items()})
        return activate(index, **about)

    monkeypatch.setattr(Deployment, "activate", watched)
    schedule = advance(later)
    assert active() == later, schedule.last_outcome
    assert seen == [{BACH: "board", "turku": "tiny"}]
    assert show("Mars").text == "Mars is red." and show("turku").about.licence == "CC0" and show("Oslo").text
    assert show("Nile").status == "removed" and bringing.waiting() is None


@pytest.mark.postgresql_first
def test_it_is_measured_with_the_edits_of_what_answers(edited: None, later: IndexGeneration) -> None:
    """A question about an edited document would be answered worse without it, and nothing ever be deployed."""
    now, questions = active(), question_set()
    schedule = about_to_measure(later, questions)
    for index, stage in ((later, ScheduleStage.CHECK), (now, ScheduleStage.CHECK_NOW)):
        [job] = scheduling.advance()
        schedule.refresh_from_db()
        assert (job.kind, job.parameters["index"], schedule.stage) == (JobKind.EVALUATE, index.pk, stage)
        state = index.state_now()
        assert state is not None and state.has_edits
        own = own_normalisation(now.model)
        measured(now.model, index, questions, ANSWERS, normalisation=own, state_id=state.state_id)
        if index == later:  # who edits meanwhile does not have it measured anew
            documents.change("turku", replace(TURKU, source=Text("Turku lies at the Aura.")), by=None)
        Job.objects.filter(pk=job.pk).update(state=JobState.SUCCEEDED)
    assert scheduling.advance() == []
    schedule.refresh_from_db()
    assert active() == later, schedule.last_outcome
    holder().refresh(wait=True)
    assert show("turku").text == "Turku lies at the Aura." and show("Nile").status == "removed"


def test_a_person_measures_it_with_the_edits_of_what_answers(
    edited: None, later: IndexGeneration, staff: Person
) -> None:
    questions, own = question_set(), own_normalisation(later.model)
    measured(later.model, later, questions, ANSWERS, normalisation=own)  # before, without them
    pair = {"index": later.pk, "model": later.model_id, "questions": questions.pk, "sample": 0}
    assert staff.client.post("/manage/deployments/measure/", pair).status_code == 302
    assert {job.parameters["index"] for job in Job.objects.filter(kind=JobKind.EVALUATE)} == {later.pk, active().pk}
    state = later.state_now()
    assert state is not None and state.has_edits and not deploying.edits_wait(later)
    view = bringing.opened(later, state)
    assert view.with_ids(["turku", "Nile"]).keys() == {"turku"}


def test_a_measurement_over_rest_brings_waiting_edits_over(
    edited: None, later: IndexGeneration, program: TokenClient
) -> None:
    parameters = {"index": later.pk, "questions": question_set().pk}
    assert deploying.edits_wait(later)
    assert post(program, "jobs", {"kind": "evaluate", "parameters": parameters}).status_code == 201
    assert not deploying.edits_wait(later)
    assert post(program, "jobs", {"kind": "evaluate", "parameters": parameters}).status_code == 409


def test_a_person_is_told_what_cannot_be_brought_over(
    edited: None, snapshots: Snapshots, staff: Person, program: TokenClient
) -> None:
    later = snapshots({**ARTICLES, f"id of {BACH}": "Q1339", "Oslo": "Oslo is in Norway."})
    pair = {"index": later.pk, "questions": question_set().pk}
    page = staff.client.post("/manage/deployments/measure/", pair | {"sample": 0})
    assert page.status_code == 422 and "It was not measured. The document" in page.content.decode()
    told = problem(post(program, "jobs", {"kind": "evaluate", "parameters": pair}), 422)
    assert "cannot be brought over" in told["detail"] and not Job.objects.filter(kind=JobKind.EVALUATE).exists()


def test_what_cannot_be_brought_over_is_not_measured(edited: None, snapshots: Snapshots) -> None:
    """The same text has another id in the later corpus."""
    texts = {**ARTICLES, f"id of {BACH}": "Q1339"}
    later = snapshots({**texts, "Oslo": "Oslo is in Norway."})
    schedule = about_to_measure(later, question_set())
    assert scheduling.advance() == []
    schedule.refresh_from_db()
    assert f"was not deployed: The document {BACH} cannot be brought over" in schedule.last_outcome


def test_what_is_edited_while_a_pair_is_prepared_is_there_too(
    edited: None, later: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a document whose earlier edit was brought over a moment ago."""

    def edits() -> None:
        move_bach("tiny")
        documents.remove(["Mars"], by=None)

    meanwhile(monkeypatch, masks, "mask_purged", edits)
    schedule = advance(later)
    assert active() == later, schedule.last_outcome
    assert show("Mars").status == "removed" and show(BACH).about.collection == "tiny"


def test_constant_edits_put_the_deployment_off(
    edited: None, later: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, numbers = masks.mask_purged, iter(range(99))

    def edited_behind(index: IndexGeneration, **about: Any) -> int:
        documents.add([replace(TURKU, document_id=f"turku-{(number := next(numbers))}", title=f"{number}")], by=None)
        return hold(index, **about)

    with monkeypatch.context() as patched:
        patched.setattr(masks, "mask_purged", edited_behind)
        schedule = advance(later)
    assert active() != later and schedule.stage == ScheduleStage.INDEX
    scheduling.advance()
    assert active() == later


def test_indexes_that_are_only_in_the_object_store_are_fetched(
    edited: None, later: IndexGeneration, snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine that deploys has neither built the index that answers nor the one that follows."""
    advance(later)
    monkeypatch.setenv("REALM_DATA", str(tmp_path))
    monkeypatch.setenv("REALM_STORE", f"file://{tmp_path / 'store'}")
    another = snapshots({**ARTICLES, "Bergen": "Bergen is in Norway."})
    for path in (later.path, later.corpus.path, another.path, another.corpus.path):
        put_folder(resolve(path))
        shutil.rmtree(resolve(path))
    living._views.clear()
    living._shared_store.cache_clear()
    schedule = advance(another)
    assert active() == another, schedule.last_outcome
    assert show("Nile").status == "removed" and show(BACH).about.collection == "board" and show("Bergen").text


@pytest.mark.postgresql_first
def test_an_edit_that_a_deployment_overtakes_is_made_above_that(
    edited: None, later: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, realm_core.living.editing, "edit", lambda: advance(later))
    documents.remove(["Mars"], by=None)
    assert active() == later and show("Mars").status == "removed"
    assert "Mars" not in current_view().with_ids(["Mars", "Nile"])


def test_a_removed_document_stays_removed_when_a_later_corpus_has_it_again(edited: None, snapshots: Snapshots) -> None:
    without = {title: text for title, text in ARTICLES.items() if title != "Nile"}
    advance(snapshots({**without, "Oslo": "Oslo is in Norway."}))
    assert show("Nile").status == "removed"
    again = snapshots({**ARTICLES, "Oslo": "Oslo is in Norway.", "Bergen": "Bergen is in Norway."})
    advance(again)
    assert active() == again and show("Nile").status == "removed"


def test_what_cannot_be_kept_private_is_not_deployed(edited: None, snapshots: Snapshots) -> None:
    """The same text has another id in the later corpus."""
    texts = {**ARTICLES, f"id of {BACH}": "Q1339"}
    later = snapshots({**texts, "Oslo": "Oslo is in Norway."})
    schedule = advance(later)
    assert active() != later and schedule.stage == ""
    assert f"was not deployed: The document {BACH} cannot be brought over" in schedule.last_outcome


# ── Another corpus ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_part_of_another_corpus_has_what_was_added_and_changed(
    edited: None, parts: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first moment on, and so has the next part; what was removed is not another corpus's article of that."""
    seen: list[set[str]] = []
    activate = Deployment.activate

    def watched(index: IndexGeneration, **about: Any) -> Deployment:
        view = bringing.opened(index, CorpusState.objects.get(index=index, is_current=True))
        seen.append(set(view.with_ids(["Mars", "Nile", BACH, "turku"])))
        return activate(index, **about)

    monkeypatch.setattr(Deployment, "activate", watched)
    first = parts("Nile", "Mars", "Berlin")
    schedule = advance(first)
    assert active() == first, schedule.last_outcome
    told = "3 documents that were added to tiny, or changed in it, are in wiki, too. 1 document was removed from tiny"
    assert told in schedule.last_outcome
    assert show("turku").text == "Turku is a city in Finland." and show("turku").about.tags == ("cities",)
    assert show("Mars").text == "Mars is red." and show("2").text == ARTICLES["Mars"]
    assert show(BACH).about.collection == "board" and show("1").text == ARTICLES["Nile"]
    assert bringing.waiting() is None and {"Turku", "Mars", "Nile", "Berlin"} <= titles()

    documents.change("turku", replace(TURKU, source=Text("Turku lies at the Aura.")), by=None)
    documents.remove(["1"], by=None)
    second = parts("Nile", "Mars", "Berlin", "Bhutan")
    advance(second)
    assert active() == second and seen == [{"Mars", BACH, "turku"}] * 2
    assert show("turku").text == "Turku lies at the Aura." and show("1").status == "removed" and show("4").text


def test_a_private_collection_stays_private_in_a_part_of_another_corpus(
    edited: None, parts: Snapshots, client: Client
) -> None:
    """Also the corpus's own, and though the same text is public there."""
    for name in ("tiny", "board"):
        collections.save(name, CollectionSettings(private=True), by=None)
    advance(parts(BACH, "Nile"))
    view = current_view()
    places = view.with_ids(["turku", BACH, "1"])
    assert {one: view.collection_of(row) for one, row in places.items()} == {
        BACH: "board",
        "turku": "tiny",
        "1": "wiki",
    }
    asked = client.post("/api/v1/ask", {"question": "What is there?", "k": 50}, "application/json").json()
    assert {block["title"] for block in asked["evidence"]} == {BACH, "Nile"}, (
        "who is not logged in reads the wiki alone"
    )


def test_a_document_with_the_number_of_a_page_takes_no_article_s_place(answering: Deployment, parts: Snapshots) -> None:
    documents.add([replace(TURKU, document_id=one, title=one) for one in ("1", "2", "turku")], by=None)
    first = parts("Nile", "Mars")
    schedule = advance(first)
    told = (
        "The document 1 cannot be brought over to later-1: the id is that of “Nile” there, and so it is with 1 other."
    )
    assert active() != first and told in schedule.last_outcome
    deploy_confirmed(first)  # by hand, the others come
    brought = bringing.bring(by=None)
    assert brought.left_out == tuple(
        f"{one} is left out: the id is that of “{title}” here." for one, title in (("1", "Nile"), ("2", "Mars"))
    )
    assert [one.document.document_id for one in brought.changes] == ["turku"] and not brought.there
    assert show("1").text == ARTICLES["Nile"]


def test_a_removal_holds_for_no_page_of_that_number(answering: Deployment, parts: Snapshots) -> None:
    documents.add([replace(TURKU, document_id="1")], by=None)
    documents.remove(["1"], by=None)
    first = parts("Nile", "Mars")
    schedule = advance(first)
    assert active() == first, schedule.last_outcome
    assert show("1").text == ARTICLES["Nile"]


def test_a_removal_holds_for_the_same_document(edited: None, snapshots: Snapshots) -> None:
    """Two corpora may have one: the same id, and title or address."""
    documents.change("Berlin", DocumentInput(Text("Berlin is a city."), title="The city of Berlin"), by=None)
    same = snapshots({**ARTICLES, "Oslo": "Oslo is in Norway."}, "wiki")
    schedule = advance(same)
    assert active() == same, schedule.last_outcome
    assert show("Nile").status == "removed" and show("Mars").text == "Mars is red."
    assert show("Berlin").about.title == "The city of Berlin"


def test_a_schedule_leaves_edits_of_another_corpus_to_a_person(edited: None, snapshots: Snapshots) -> None:
    """Nobody has said that it shall answer instead."""
    later = snapshots({**ARTICLES, "Oslo": "Oslo is in Norway."}, "other")
    schedule = about_to_measure(later, question_set())
    Schedule.objects.filter(pk=schedule.pk).update(stage=ScheduleStage.CHECK_NOW)
    for index in (active(), later):
        own, state = own_normalisation(later.model), index.state_now()
        about = {"state_id": state.state_id} if state is not None and state.has_edits else {}
        measured(later.model, index, QuestionSet.objects.get(), ANSWERS, normalisation=own, **about)
    scheduling.advance()
    schedule.refresh_from_db()
    assert active() != later and "was not deployed: Edits of 4 documents" in schedule.last_outcome
    assert not Document.objects.filter(index=later).exists()


@pytest.mark.postgresql_first
def test_a_fold_meanwhile_keeps_its_edits_in_what_follows(edited: None, later: IndexGeneration) -> None:
    """What is above the fold counts as well as what the fold took in."""
    assert deploying.check(later).doubts
    first = active()
    corpus = CorpusSnapshot.objects.create(
        snapshot_id="f" * 16, name="tiny", path=first.corpus.path, source="s", language="en", articles=12, blocks=12
    )
    into = IndexGeneration.objects.create(
        generation="folded", model=first.model, corpus=corpus, path=first.path, rows=12, dim=first.dim
    )
    CorpusState.objects.filter(index=first).update(index=into)
    Document.objects.filter(index=first).update(index=into)
    job = Job.objects.create(kind=JobKind.INDEX, state=JobState.SUCCEEDED, parameters={"corpus": later.corpus_id})
    schedule = scheduling.follow(job, "tiny", deploy=True)
    Schedule.objects.filter(pk=schedule.pk).update(stage=ScheduleStage.INDEX, corpus=later.corpus)
    IndexGeneration.objects.filter(pk=first.pk).update(folded_into=into)
    Deployment.activate(into)
    scheduling.advance()
    holder().refresh(wait=True)
    assert active() == later and show("Nile").status == "removed" and show(BACH).about.collection == "board"
