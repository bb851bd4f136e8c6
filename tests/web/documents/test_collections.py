"""Questions keep to the collections that they name, and a private one is shown at no door to those without right."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client

from tests.web.asked import ask as ask_here
from tests.web.conftest import Person
from tests.web.documents import folds
from tests.web.operating import TokenClient, call_tool, post, problem
from webapp.articles import service as articles
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import show
from webapp.models import AskedAnswer, Collection, Deployment, Document, EvidenceBlock, Feedback, Review
from webapp.purges.service import purge

SECRET = "The vault of Turku is opened by the word heron."
QUESTION = "Which word opens the vault of Turku?"
VAULT = DocumentInput(Text(SECRET), "vault", "Vault", licence="CC0", tags=("keys",), collection="board")
PUBLIC = DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku", licence="CC0", collection="travel")


@pytest.fixture
def board(answering: Deployment, member: Person) -> Collection:
    """A private collection that the member may read, with a document, beside a public one."""
    documents.add([VAULT, PUBLIC], by=None)
    board = Collection.objects.create(name="board", title="The board’s papers", private=True)
    group = Group.objects.create(name="board members")
    board.groups.add(group)
    member.user.groups.add(group)
    return board


@pytest.fixture
def asked(board: Collection, member: Person) -> AskedAnswer:
    """An answer that the member was given from the private collection."""
    return ask_here(QUESTION, k=20, asker=member.user)


@pytest.fixture
def stranger(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_user("Stray"), backend="django.contrib.auth.backends.ModelBackend")
    return client


def ask(client: Client, **question: Any) -> Any:
    body = {"question": QUESTION, "k": 20, **question}
    return client.post("/api/v1/ask", json.dumps(body), content_type="application/json")


def titles(answer: dict[str, Any]) -> set[str]:
    return {block["title"] for block in answer["evidence"]}


def vault_block(asked: AskedAnswer) -> str:
    return next(block["block_id"] for block in asked.payload["evidence"] if block["title"] == "Vault")


# ── Where a question is looked in ───────────────────────────────────────────────────────────────────────────────────


def test_a_question_keeps_to_its_collections(board: Collection, member: Person) -> None:
    everything = ask(member.client).json()
    assert {"Vault", "Turku", "Mars"} <= titles(everything)
    assert everything["collections"] == [] and everything["filters"] == {}
    assert {"board", "travel", "tiny"} == {block["collection"] for block in everything["evidence"]}
    travel = ask(member.client, collections=["travel"]).json()
    assert titles(travel) == {"Turku"} and travel["collections"] == ["travel"]
    both = ask(member.client, collections=["travel", "board"]).json()
    assert titles(both) == {"Turku", "Vault"}
    found = member.client.post(
        "/api/v1/retrieve",
        json.dumps({"question": QUESTION, "collections": ["board"]}),
        content_type="application/json",
    ).json()
    assert [(one["title"], one["collection"]) for one in found["blocks"]] == [("Vault", "board")]


def test_a_question_keeps_to_its_filters(board: Collection, member: Person) -> None:
    documents.add([replace(PUBLIC, document_id="dated", title="Dated", date=_day("2026-01-31"))], by=None)
    assert titles(ask(member.client, filters={"tags": ["keys", "locks"]}).json()) == {"Vault"}
    assert titles(ask(member.client, filters={"titles": ["Turku", "Mars"]}).json()) == {"Turku", "Mars"}
    dated = ask(member.client, filters={"since": "2026-01-01", "until": "2026-02-01"}).json()
    assert titles(dated) == {"Dated"} and dated["filters"] == {"since": "2026-01-01", "until": "2026-02-01"}
    assert titles(ask(member.client, collections=["travel"], filters={"tags": ["keys"]}).json()) == set()
    problem(ask(member.client, filters={"since": "2026-02-01", "until": "2026-01-01"}), 400)
    problem(ask(member.client, filters={"since": "soon"}), 400)
    problem(ask(member.client, filters={"colour": ["red"]}), 400)
    problem(ask(member.client, filters={"tags": [str(number) for number in range(51)]}), 400)


def _day(text: str) -> Any:
    from datetime import date

    return date.fromisoformat(text)


def test_where_no_block_passes_the_answer_says_so(board: Collection, member: Person) -> None:
    response = ask(member.client, filters={"languages": ["XX"]})
    assert response.status_code == 201
    answer = response.json()
    assert answer["answer"] is None and answer["evidence"] == [] and answer["filters"] == {"languages": ["xx"]}
    page = member.client.get(f"/answers/{answer['id']}/").content.decode()
    assert "Nothing to read" in page


def test_a_batch_may_say_where_for_all_and_for_one(board: Collection, outsider: Person) -> None:
    batch = {
        "questions": [
            QUESTION,
            {"question": QUESTION, "collections": ["tiny"]},
            {"question": "Where?", "collections": ["x"]},
        ],
        "k": 20,
        "collections": ["travel"],
    }
    told = outsider.client.post("/api/v1/ask/batch", json.dumps(batch), content_type="application/json").json()
    first, second, third = told["results"]
    assert titles(first["answer"]) == {"Turku"} and first["answer"]["collections"] == ["travel"]
    assert "Mars" in titles(second["answer"]) and "Turku" not in titles(second["answer"])
    assert third["problem"]["errors"][0]["field"] == "collections"


def test_asking_again_looks_in_the_same_documents(board: Collection, member: Person) -> None:
    first = ask(member.client, collections=["travel"], filters={"languages": ["en"]}).json()
    member.client.post(f"/answers/{first['id']}/again/")
    again = AskedAnswer.objects.get(again_of=first["id"])
    assert (again.collections, again.filters) == (["travel"], {"languages": ["en"]})
    assert titles(again.payload) == {"Turku"}


def test_weights_count_in_the_prior(board: Collection, member: Person) -> None:
    before = {block["title"]: block for block in ask(member.client, k=50).json()["evidence"]}
    Collection.objects.create(name="travel", weight=5.0)
    after = {block["title"]: block for block in ask(member.client, k=50).json()["evidence"]}
    assert sum(block["retriever_prior"] for block in after.values()) == pytest.approx(1.0)
    odds = [one["Turku"]["retriever_prior"] / one["Mars"]["retriever_prior"] for one in (before, after)]
    assert odds[1] / odds[0] == pytest.approx(5.0, rel=1e-4)


def test_the_command_line_looks_everywhere_or_where_it_is_told(board: Collection) -> None:
    out = StringIO()
    call_command("ask", QUESTION, "--k", "20", "--collection", "board", "--json", stdout=out)
    assert titles(json.loads(out.getvalue())) == {"Vault"}


def test_the_command_line_refuses_what_does_not_exist(board: Collection) -> None:
    with pytest.raises(CommandError, match="no collection 'boards'"):
        call_command("ask", QUESTION, "--collection", "boards")


# ── Documents keep their collection ─────────────────────────────────────────────────────────────────────────────────


def test_documents_say_their_collection(deployed: Deployment, program: TokenClient, tmp_path: Any) -> None:
    made = post(program, "documents", {"id": "one", "title": "One", "text": "A text.", "collection": " press  room "})
    assert made.status_code == 201, made.content
    assert program.get("/api/v1/documents/one").json()["collection"] == "press room"
    assert Document.objects.get().collection == "press room"
    post(program, "documents", {"id": "two", "title": "Two", "text": "Another text."})
    assert program.get("/api/v1/documents/two").json()["collection"] == "tiny"
    file = tmp_path / "three.txt"
    file.write_text("A third text.")
    call_command("documents", "add", str(file), "--id", "three", "--collection", "press room", stdout=StringIO())
    listed = program.get("/api/v1/documents?collection=press room").json()["results"]
    assert [one["id"] for one in listed] == ["three", "one"]
    assert len(program.get("/api/v1/documents?collection=tiny").json()["results"]) == 13
    problem(post(program, "documents", {"title": "T", "text": "x", "collection": "x" * 101}), 400)


def test_a_change_that_does_not_say_where_leaves_it_there(board: Collection, program: TokenClient) -> None:
    body = {"title": "Vault", "text": "The word is now crane."}
    assert program.put("/api/v1/documents/vault", body, content_type="application/json").status_code == 200
    assert Document.objects.get(document_id="vault").collection == "board"
    body |= {"collection": "", "more_readers": True}
    assert program.put("/api/v1/documents/vault", body, content_type="application/json").status_code == 200
    assert Document.objects.get(document_id="vault").collection == "tiny"


# ── The doors of a private collection ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["board", "no such one"])
def test_a_hidden_collection_is_refused_as_one_that_does_not_exist(
    board: Collection, outsider: Person, stranger: Client, name: str
) -> None:
    for client in (outsider.client, stranger):
        [error] = problem(ask(client, collections=[name]), 400)["errors"]
        assert error == {"field": "collections", "detail": f"There is no collection {name!r}."}
    page = outsider.client.post("/", {"question": QUESTION, "collections": [name]})
    assert page.status_code == 422 and f"There is no collection {name!r}." in unescape(page.content.decode())


def test_questions_of_others_are_not_answered_from_a_private_collection(
    board: Collection, outsider: Person, stranger: Client
) -> None:
    for client in (outsider.client, stranger):
        assert "Vault" not in titles(ask(client).json())
        assert ask(client, filters={"tags": ["keys"]}).json()["evidence"] == []
        body = json.dumps({"question": QUESTION, "k": 20})
        found = client.post("/api/v1/retrieve", body, content_type="application/json").json()["blocks"]
        assert found and SECRET not in {block["text"] for block in found}
        sent = json.dumps({"questions": [QUESTION], "k": 20})
        told = client.post("/api/v1/ask/batch", sent, content_type="application/json").json()
        assert "Vault" not in titles(told["results"][0]["answer"])
        client.post("/", {"question": QUESTION})
    assert EvidenceBlock.objects.exists() and not EvidenceBlock.objects.filter(collection="board").exists()


def test_a_repeat_is_not_answered_from_what_somebody_else_may_read(
    board: Collection, member: Person, outsider: Person, staff: Person
) -> None:
    assert "Vault" in titles(ask(member.client).json())
    assert "Vault" not in titles(ask(outsider.client).json())
    assert "Vault" in titles(ask(staff.client).json()), "admins read everything"


def test_who_leaves_the_group_cannot_read_its_collection_any_more(board: Collection, member: Person) -> None:
    assert "Vault" in titles(ask(member.client).json())
    board.groups.clear()
    assert "Vault" not in titles(ask(member.client).json())
    board.private = False
    board.save()
    assert "Vault" in titles(ask(member.client).json())


def test_a_group_that_is_deleted_makes_nothing_public(board: Collection, outsider: Person) -> None:
    Group.objects.all().delete()
    assert "Vault" not in titles(ask(outsider.client).json())


def test_an_answer_from_it_is_for_its_asker_the_group_and_admins(
    asked: AskedAnswer, member: Person, staff: Person, outsider: Person, stranger: Client
) -> None:
    addresses = [f"/answers/{asked.pk}/", f"/api/v1/answers/{asked.pk}"]
    colleague = User.objects.create_user("Colleague")
    colleague.groups.add(Group.objects.get(name="board members"))
    in_group = Client()
    in_group.force_login(colleague, backend="django.contrib.auth.backends.ModelBackend")
    for address in addresses:
        for client in (member.client, staff.client, in_group):
            assert client.get(address).status_code == 200, address
        for client in (outsider.client, stranger):
            response = client.get(address)
            assert response.status_code == 404 and "heron" not in response.content.decode(), address
    Collection.objects.get().groups.clear()
    for address in addresses:
        assert member.client.get(address).status_code == 200, "its asker keeps it"
        assert in_group.get(address).status_code == 404


def test_an_answer_that_only_names_it_is_not_shown(board: Collection, member: Person, outsider: Person) -> None:
    named = ask(member.client, collections=["board"], filters={"languages": ["xx"]}).json()
    assert named["evidence"] == []
    assert outsider.client.get(f"/answers/{named['id']}/").status_code == 404
    assert outsider.client.get(f"/api/v1/answers/{named['id']}").status_code == 404
    assert member.client.get(f"/answers/{named['id']}/").status_code == 200


def test_an_answer_asked_again_from_it_is_not_shown_beside_the_earlier(
    board: Collection, member: Person, outsider: Person
) -> None:
    earlier = ask(outsider.client).json()
    member.client.post(f"/answers/{earlier['id']}/again/")
    again = AskedAnswer.objects.get(again_of=earlier["id"])
    assert "Vault" in titles(again.payload)
    assert str(again.pk) not in outsider.client.get(f"/answers/{earlier['id']}/").content.decode()
    assert str(again.pk) in member.client.get(f"/answers/{earlier['id']}/").content.decode()


def test_blocks_and_articles_of_a_private_collection_are_not_found(
    asked: AskedAnswer, member: Person, outsider: Person, stranger: Client
) -> None:
    block_id = vault_block(asked)
    addresses = [
        f"/api/v1/blocks/{block_id}",
        f"/api/v1/blocks/{block_id}/article",
        f"/blocks/{block_id}/",
        f"/blocks/{block_id}/?answer={asked.pk}",
    ]
    for address in addresses:
        assert member.client.get(address).status_code == 200, address
        for client in (outsider.client, stranger):
            response = client.get(address)
            assert response.status_code == 404 and "heron" not in response.content.decode(), address
    documents.remove(["vault"], by=None)  # now only answers have a copy
    for client in (outsider.client, stranger):
        assert client.get(f"/blocks/{block_id}/").status_code == 404
        assert client.get(f"/blocks/{block_id}/?answer={asked.pk}").status_code == 404
    assert "heron" in member.client.get(f"/blocks/{block_id}/?answer={asked.pk}").content.decode()


def test_a_passage_that_a_public_document_has_too_is_shown_with_that_one(
    board: Collection, member: Person, outsider: Person
) -> None:
    """The private one came first, so the passage is stored with it; also after a fold, which stores it once."""
    documents.add([replace(VAULT, document_id="open", collection="travel", licence="CC BY 4.0")], by=None)
    for folded in (False, True):
        if folded:
            folds.fold()
        found = ask(outsider.client).json()
        [block] = [one for one in found["evidence"] if one["title"] == "Vault"]
        assert block["collection"] == "travel"
        shown = outsider.client.get(f"/api/v1/blocks/{block['block_id']}/article")
        assert shown.status_code == 200 and shown.json()["licence"] == "CC BY 4.0"
        assert outsider.client.get(f"/blocks/{block['block_id']}/").status_code == 200
        both = ask(member.client).json()
        assert [one["collection"] for one in both["evidence"] if one["title"] == "Vault"] == ["board"]
        travel = Collection.objects.create(name="travel", weight=2.0)
        both = ask(member.client).json()
        assert [one["collection"] for one in both["evidence"] if one["title"] == "Vault"] == ["travel"]
        travel.delete()
    documents.remove(["vault"], by=None)
    assert [one["collection"] for one in ask(member.client).json()["evidence"] if one["title"] == "Vault"] == ["travel"]


def test_a_removed_document_of_a_private_collection_is_not_found_in_the_base(
    board: Collection, outsider: Person
) -> None:
    answer = ask(outsider.client).json()
    [block_id] = [block["block_id"] for block in answer["evidence"] if block["title"] == "Mars"]
    assert outsider.client.get(f"/blocks/{block_id}/").status_code == 200
    documents.change("Mars", DocumentInput(Text(show("Mars").text), title="Mars", collection="board"), by=None)
    documents.remove(["Mars"], by=None)
    for address in (f"/blocks/{block_id}/", f"/api/v1/blocks/{block_id}", f"/api/v1/blocks/{block_id}/article"):
        assert outsider.client.get(address).status_code == 404, address
    assert articles.find(block_id, hidden={"tiny"}) is None, "the base's own collection decides, too"
    assert articles.find(block_id, hidden=()) is not None


def test_a_fold_does_not_take_documents_out_of_it(
    board: Collection, member: Person, outsider: Person, asked: AskedAnswer
) -> None:
    folds.fold()
    block_id = vault_block(asked)
    assert member.client.get(f"/api/v1/blocks/{block_id}").json()["text"] == SECRET
    for address in (f"/blocks/{block_id}/", f"/api/v1/blocks/{block_id}", "/api/v1/documents/vault"):
        assert outsider.client.get(address).status_code == 404, address
    assert "Vault" not in titles(ask(outsider.client).json()) and "Vault" in titles(ask(member.client).json())


def test_a_document_moved_to_a_private_collection_is_not_found_in_the_base(board: Collection, outsider: Person) -> None:
    mars = ask(outsider.client, filters={"titles": ["Mars"]}).json()["evidence"][0]
    documents.change("Mars", DocumentInput(Text(mars["text"]), title="Mars", collection="board"), by=None)
    assert outsider.client.get(f"/api/v1/blocks/{mars['block_id']}").status_code == 404
    assert ask(outsider.client, filters={"titles": ["Mars"]}).json()["evidence"] == []


def test_documents_of_a_private_collection_are_not_listed(
    board: Collection, member: Person, outsider: Person, staff: Person
) -> None:
    for client, sees in ((outsider.client, False), (member.client, True), (staff.client, True)):
        ids = {one["id"] for one in client.get("/api/v1/documents").json()["results"]}
        assert ("vault" in ids, "turku" in ids) == (sees, True)
        assert client.get("/api/v1/documents/vault").status_code == (200 if sees else 404)
        listed = client.get("/api/v1/documents?collection=board").json()["results"]
        assert [one["id"] for one in listed] == (["vault"] if sees else [])
    documents.remove(["vault"], by=None)
    assert outsider.client.get("/api/v1/documents/vault").status_code == 404
    assert outsider.client.get("/api/v1/documents?status=removed").json()["results"] == []


def test_why_says_nothing_of_it(asked: AskedAnswer, member: Person, stranger: Client) -> None:
    body = json.dumps({"answer": "the word heron"})
    address = f"/api/v1/answers/{asked.pk}/why"
    assert stranger.post(address, body, content_type="application/json").status_code == 404
    assert member.client.post(address, body, content_type="application/json").status_code == 200
    theirs = ask(stranger, k=1).json()
    told = stranger.post(f"/api/v1/answers/{theirs['id']}/why", body, content_type="application/json").json()
    assert told["cause"] == "not_in_corpus", told


def test_feedback_on_its_answers_is_for_those_who_read_it(
    asked: AskedAnswer, outsider: Person, stranger: Client, curator: Person, member: Person
) -> None:
    address, word = f"/api/v1/answers/{asked.pk}/feedback", json.dumps({"better_answer": "heron"})
    for client in (outsider.client, stranger):
        assert client.post(address, word, content_type="application/json").status_code == 404
        assert client.get(address).status_code == 404
        assert client.post(f"/answers/{asked.pk}/feedback/", {"better_answer": "heron"}).status_code == 404
    assert member.client.post(address, word, content_type="application/json").status_code == 201
    page = curator.client.get("/manage/feedback/").content.decode()
    assert "heron" not in page and QUESTION not in page
    said = Feedback.objects.get()
    verdict = {"verdict": "accepted", "seen": said.changed_at.isoformat()}
    assert curator.client.post(f"/manage/feedback/{said.pk}/review/", verdict).status_code == 404
    Feedback.objects.update(review=Review.ACCEPTED)
    export = curator.client.get("/manage/feedback/export/", follow=True)
    assert b"heron" not in export.content


def test_a_block_of_it_cannot_be_named_as_evidence(asked: AskedAnswer, stranger: Client, member: Person) -> None:
    theirs = ask(stranger, k=1).json()
    word = json.dumps({"block_id": vault_block(asked), "better_answer": "heron"})
    address = f"/api/v1/answers/{theirs['id']}/feedback"
    problem(stranger.post(address, word, content_type="application/json"), 400)


def test_language_models_read_nothing_of_a_private_collection(asked: AskedAnswer, outsider: Person) -> None:
    client = outsider.client
    assert call_tool(client, "read_block", block_id=vault_block(asked))["isError"]
    assert call_tool(client, "ask", question=QUESTION, collections=["board"])["isError"]
    assert "heron" not in json.dumps(call_tool(client, "ask", question=QUESTION, k=20))
    assert "heron" not in json.dumps(call_tool(client, "retrieve", question=QUESTION, k=20))
    kept = call_tool(client, "retrieve", question=QUESTION, k=20, collections=["travel"])["structuredContent"]
    assert [block["title"] for block in kept["blocks"]] == ["Turku"]


@pytest.mark.both_databases
def test_older_documents_and_answers_get_the_collection_of_their_corpus(deployed: Deployment) -> None:
    documents.add([VAULT], by=None)
    asked = AskedAnswer.objects.create(question="?", k=1, payload={}, deployment=deployed, latency_ms=1.0)
    figures = dict.fromkeys(("prior", "likelihood", "posterior", "support"), 1.0)
    for rank in (1, 2, 3):
        EvidenceBlock.objects.create(answer=asked, rank=rank, block_id=str(rank) * 32, **figures)
    Document.objects.update(collection="")
    import_module("webapp.migrations.0022_collections").name_collections(apps, None)
    assert Document.objects.get().collection == "tiny"
    assert set(EvidenceBlock.objects.values_list("collection", flat=True)) == {"tiny"}


def test_a_purge_leaves_an_answer_as_private_as_it_was(asked: AskedAnswer, outsider: Person, member: Person) -> None:
    assert "Turku" in titles(asked.payload)
    purge(["turku"], by=None)
    asked.refresh_from_db()
    assert "Turku" not in titles(asked.payload) and "Vault" in titles(asked.payload)
    assert outsider.client.get(f"/answers/{asked.pk}/").status_code == 404
    assert member.client.get(f"/answers/{asked.pk}/").status_code == 200
    purge(["vault"], by=None)
    assert outsider.client.get("/api/v1/documents?status=purged").json()["results"][0]["id"] == "turku"
    assert outsider.client.get("/api/v1/documents/vault").status_code == 404
