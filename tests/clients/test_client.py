"""The client package against a running server: everything that it can do, waiting and awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import httpx
import pytest

from realm_client import (
    AsyncClient,
    Client,
    Conflict,
    InvalidRequest,
    NewDocument,
    NotAllowed,
    NotFound,
    Question,
    Unreachable,
)
from tests.clients.conftest import Running
from tests.tiny import ARTICLES

QUESTION = "What is the capital of Bhutan?"


@pytest.fixture
def asker(running: Running) -> Iterator[Client]:
    with Client(running.address, token=running.asker) as client:
        yield client


@pytest.fixture
def admin(running: Running) -> Iterator[Client]:
    with Client(running.address, token=running.admin) as client:
        yield client


def test_ask_and_read_what_it_was_made_from(asker: Client) -> None:
    answer = asker.ask(QUESTION, k=3)
    assert answer.question == QUESTION and len(answer.evidence) == 3
    assert sum(block.prior for block in answer.evidence) == pytest.approx(1)
    assert answer.created_at > datetime.now(UTC) - timedelta(minutes=5)
    if answer.answer is not None:
        assert answer.text == answer.answer.text
        assert answer.probability == pytest.approx(sum(b.prior * b.likelihood for b in answer.evidence))
    assert asker.answer(answer.id) == answer
    gone = answer.evidence[0]
    without = asker.answer(answer.id, without=[gone.block_id])
    assert without.without == (gone.block_id,) and {b.block_id for b in without.evidence} == {
        b.block_id for b in answer.evidence[1:]
    }
    block = asker.block(gone.block_id)
    assert (block.text, block.title) == (gone.text, gone.title)
    article = asker.article(gone.block_id)
    assert article.text == ARTICLES[gone.title] and article.licence == "CC BY-SA 4.0"
    place = next(place for place in article.blocks if place.block_id == gone.block_id)
    assert article.text[place.start : place.end] == block.text
    excluded = asker.ask(QUESTION, k=3, exclude=[gone.block_id])
    assert gone.block_id not in {b.block_id for b in excluded.evidence}


def test_the_same_key_is_the_same_answer(asker: Client) -> None:
    first = asker.ask(QUESTION, idempotency_key="client-test-1")
    assert asker.ask(QUESTION, idempotency_key="client-test-1") == first
    assert asker.ask(QUESTION).id != first.id
    with pytest.raises(InvalidRequest, match="another request"):
        asker.ask("Who was Ada Lovelace?", idempotency_key="client-test-1")


def test_many_questions(asker: Client, running: Running) -> None:
    questions: list[str | Question] = [f"What is {title}?" for title in ARTICLES]
    questions[4] = Question("Where is the Nile?", k=2)
    questions[5] = ""
    counted = httpx.get(f"{running.address}/metrics").text
    results = list(asker.ask_many(questions, k=3))
    assert [result.index for result in results] == list(range(len(questions)))
    assert isinstance(results[5].error, InvalidRequest) and results[5].answer is None
    for result in results[:5] + results[6:]:
        asked = questions[result.index]
        assert result.error is None and result.answer is not None
        assert result.answer.question == (asked if isinstance(asked, str) else asked.question)
        assert len(result.answer.evidence) == (3 if isinstance(asked, str) else 2)
    told = httpx.get(f"{running.address}/metrics").text
    batches, alone, together = (
        _sample(told, f"realm_batch_questions_{name}") - _sample(counted, f"realm_batch_questions_{name}")
        for name in ("count", 'bucket{le="1.0"}', "sum")
    )
    assert alone < batches < together == len(questions) - 1  # the model reads several at once


def _sample(exposition: str, name: str) -> float:
    return next((float(line.split()[-1]) for line in exposition.splitlines() if line.startswith(f"{name} ")), 0.0)


def test_ones_own_answers(asker: Client, running: Running) -> None:
    kept = asker.ask(QUESTION)
    listed = asker.answers(page_size=1)
    assert next(listed).id == kept.id and next(listed).id != kept.id  # over two pages
    assert list(asker.answers(since=datetime.now(UTC) + timedelta(hours=1))) == []
    with Client(running.address) as nobody:
        assert list(nobody.answers()) == []


def test_retrieve_and_fill(asker: Client) -> None:
    found = asker.retrieve(QUESTION, k=4)
    assert [block.rank for block in found.blocks] == [1, 2, 3, 4]
    assert sum(block.prior for block in found.blocks) == pytest.approx(1)
    filling = asker.fill("The capital of [MASK] is Thimphu.", k=3, truth="Bhutan")
    assert filling.truth is not None and 0 <= filling.truth.marginal <= 1 and len(filling.evidence) == 3


def test_feedback(asker: Client) -> None:
    answer = asker.ask(QUESTION)
    with pytest.raises(NotFound):
        asker.feedback(answer.id)
    said = asker.give_feedback(answer.id, right=False, better_answer="Thimphu")
    assert (said.right, said.better_answer, said.review) == (False, "Thimphu", "waiting")
    assert asker.feedback(answer.id) == said
    asker.take_feedback_back(answer.id)
    with pytest.raises(NotFound):
        asker.feedback(answer.id)


def test_why(asker: Client, running: Running) -> None:
    answer = asker.ask(QUESTION)
    assert answer.text is not None and asker.why(answer.id, answer.text).cause == "right"
    missing = asker.why(answer.id, "nobody at all")
    assert (missing.cause, missing.right) == ("not_in_corpus", None) and "nobody at all" in missing.detail
    with pytest.raises(InvalidRequest) as wrong:
        asker.why(answer.id, " ")
    assert [error.field for error in wrong.value.errors] == ["answer"]
    with Client(running.address) as nobody, pytest.raises(NotAllowed):
        nobody.why(answer.id, "Thimphu")


def test_operators_list_and_change_records(admin: Client, asker: Client) -> None:
    with pytest.raises(NotAllowed):
        next(asker.models())
    model, (other, index) = next(admin.models()), admin.indexes()
    assert index.model == model.id and index.rows > 0
    deployment = next(admin.deployments())
    assert (deployment.index, deployment.is_active) == (index.id, True)
    assert list(admin.evaluations(order="-exact_match")) == []
    assert admin.model(model.id).card is not None and admin.index(index.id) == index
    corpus = next(admin.corpora(language=admin.corpus(index.corpus).language))
    assert corpus.id == index.corpus and list(admin.corpora(name="other")) == []
    assert list(admin.question_sets(purpose="learn")) == [] and list(admin.span_sets(corpus=corpus.id)) == []
    again = admin.deploy(other.id, note="again")
    assert again.is_active and again.note == "again" and next(admin.deployments()).id == again.id
    assert admin.activate(deployment.id).index == index.id
    with pytest.raises(InvalidRequest, match="is active already"):
        admin.activate(deployment.id)
    assert [one.is_active for one in admin.deployments(index=index.id, order="id")] == [False, True]
    assert len(list(admin.deployments(active=True))) == 1 and not admin.deployment(deployment.id).is_active

    job = admin.start_job("index", {"model": model.id, "corpus": index.corpus})
    with pytest.raises(Conflict) as duplicate:
        admin.start_job("index", {"model": model.id, "corpus": index.corpus})
    assert duplicate.value.job is not None and duplicate.value.job.endswith(job.id)
    assert [one.id for one in admin.jobs(state="queued", kind="index")] == [job.id]
    stopped = admin.stop_job(job.id)
    assert stopped.is_over and admin.wait_for(job.id).state == "stopped"
    assert admin.resume_job(job.id).state == "queued" and not admin.job(job.id).is_over
    admin.stop_job(job.id)
    log = admin.job_log(job.id)
    assert not log.active and log.size == log.next_offset and list(admin.job_metrics(job.id)) == []
    kinds = {kind.kind: kind for kind in admin.job_kinds()}
    assert "index" in kinds
    files = {setting.name: setting.files for setting in kinds["ingest"].settings}
    assert files["file"] == () and files["source"] is None  # none was put into sources/

    said = asker.give_feedback(asker.ask(QUESTION).id, right=False, better_answer="Thimphu")
    (listed,) = admin.all_feedback(since=said.changed_at, teaches=True)
    assert (listed.answer, listed.by, listed.review, listed.question) == (said.answer, "asker", "waiting", QUESTION)
    assert admin.feedback_export() == b""  # no curator has accepted it
    with pytest.raises(NotAllowed):
        next(asker.all_feedback())
    asker.take_feedback_back(said.answer)


def test_documents(admin: Client, asker: Client) -> None:
    text = NewDocument("Turku is a city in Finland.", title="Turku", id="trips/turku", licence="CC0", tags=("cities",))
    first = admin.add_document(text, idempotency_key="documents-1")
    assert [one.id for one in first.documents] == ["trips/turku"] and first.changes == 1
    again = admin.add_document(text, idempotency_key="documents-1")
    assert again.documents == first.documents and again.corpus == first.corpus and again.changes == 0
    with pytest.raises(Conflict):
        admin.add_document(text)
    with pytest.raises(NotAllowed):
        asker.add_document(text)
    oulu = NewDocument(title="Oulu", tags=("cities", "north"), date=date(2026, 1, 31))
    (file,) = admin.add_document(oulu, file=("oulu.md", b"# Oulu\n\nOulu is by the sea.")).documents
    shown = admin.document(file.id)
    assert (shown.format, shown.text, shown.licence) == ("markdown", "Oulu is by the sea.", "")
    assert (shown.tags, shown.date) == (("cities", "north"), date(2026, 1, 31))
    assert {one.id for one in admin.documents(page_size=1, title="u")} >= {"trips/turku", file.id}
    latin = "Une crème brûlée après le café, déjà vu à l'été.".encode("latin-1")
    towns = [("kemi.md", b"# Kemi\n\nKemi is a town."), ("tornio.txt", latin)]
    both = admin.add_files(towns, NewDocument(licence="CC0", tags=("towns",))).documents
    assert [one.title for one in both] == ["Kemi", "tornio"] and admin.document(both[1].id).tags == ("towns",)
    (none, guessed), kept = [one.warnings for one in both], admin.document(both[1].id).warnings
    assert (none, guessed[0], guessed) == ((), "Its encoding is stated nowhere; it was read as cp1252.", kept)
    assert "it is called “tornio”, as its file is" in guessed[1]

    answer = admin.ask("Where is Turku?", k=20)
    assert "Turku" in {block.title for block in answer.evidence}
    touched = admin.document_touched("trips/turku")
    assert touched.summary.answers == 1 == touched.summary.looked_at == sum(touched.summary.outcomes.values())
    (one,) = touched.results
    assert (one.answer, one.question, one.text) == (answer.id, answer.question, answer.text)
    assert touched == admin.document_touched("trips/turku", most=1)
    assert admin.document_touched("trips/turku", most=0).results == ()
    differing = admin.document_touched("trips/turku", differing=True)
    assert differing.results == (() if one.outcome == "same" else (one,)) and differing.summary == touched.summary

    admin.change_document("trips/turku", NewDocument("Turku is by a river.", title="Turku", tags=(), date=""))
    changed = admin.document("trips/turku")
    assert (changed.text, changed.licence, changed.tags) == ("Turku is by a river.", "CC0", ())
    change = next(admin.document_changes(document_id="trips/turku"))
    assert (change.kind, change.blocks_gone, change.blocks_new, change.by) == ("changed", 1, 1, "admin")
    assert [row.answer for row in admin.change_answers(change.id).results] == [answer.id]
    (gone,) = admin.answer(answer.id).evidence_gone
    assert (gone.kind, answer.evidence_gone, answer.purged_at) == ("changed", (), None)
    assert admin.document_touched("trips/turku").results == ()

    admin.remove_document("trips/turku")
    assert admin.document("trips/turku").status == "removed"
    restored = admin.restore_document("trips/turku", idempotency_key="back", if_match=changed.version)
    assert (restored.changes, restored.documents[0].version) == (1, changed.version)
    assert admin.document("trips/turku").text == changed.text
    assert admin.restore_document("trips/turku", idempotency_key="back", if_match=changed.version).changes == 0
    with pytest.raises(Conflict, match="is not removed"):
        admin.restore_document("trips/turku")
    with pytest.raises(InvalidRequest) as refused:
        admin.remove_documents(["trips/turku", "trips/nowhere"])
    assert [one.field for one in refused.value.errors] == ["ids[1]"]
    admin.remove_documents(["trips/turku", file.id])
    assert {admin.document(one).status for one in ("trips/turku", file.id)} == {"removed"}
    receipt = admin.purge_documents(["trips/turku", *(one.id for one in (file, *both))])
    assert receipt.answers >= 1 and receipt.remaining == () and admin.purge(receipt.id) == receipt
    purged = admin.answer(answer.id)
    assert purged.purged_at is not None and "Turku" not in {block.title for block in purged.evidence}
    kinds = [one.kind for one in admin.document_changes(document_id="trips/turku", page_size=2)]
    assert kinds == ["purged", "removed", "restored", "removed", "changed", "added"]


def test_what_goes_wrong(asker: Client, running: Running) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        asker.ask("", k=99)
    assert {error.field for error in wrong.value.errors} == {"question", "k"} and wrong.value.request_id
    with pytest.raises(NotFound):
        asker.block("../answers")
    with Client(running.address, token="realm_unknown") as stranger, pytest.raises(NotAllowed) as refused:
        stranger.ask(QUESTION)
    assert refused.value.status == 401
    with Client("http://127.0.0.1:9", retries=1) as nowhere, pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        nowhere.ask(QUESTION)


def test_awaited(running: Running) -> None:
    async def work() -> None:
        async with AsyncClient(running.address, token=running.asker) as realm:
            answers = await asyncio.gather(*(realm.ask(f"What is {title}?", k=2) for title in ARTICLES))
            assert [answer.question for answer in answers] == [f"What is {title}?" for title in ARTICLES]
            results = [result async for result in realm.ask_many(["Who?", "", "Where?"], k=2)]
            assert [result.error is None for result in results] == [True, False, True]
            kept = [one async for one in realm.answers(page_size=5)]
            assert {answer.id for answer in answers} <= {one.id for one in kept}
            said = await realm.give_feedback(answers[0].id, right=True)
            assert await realm.feedback(answers[0].id) == said
            assert (await realm.why(answers[0].id, "nobody at all")).cause == "not_in_corpus"
            found = await realm.retrieve(QUESTION, k=1)
            assert (await realm.block(found.blocks[0].block_id)).title in ARTICLES
            with pytest.raises(NotFound):
                await realm.answer("00000000-0000-4000-8000-000000000000")

    asyncio.run(work())


def test_both_clients_are_the_same() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        public = {name: one for name, one in vars(kind).items() if not name.startswith("_")}
        return {name: list(inspect.signature(one).parameters) for name, one in public.items()}

    assert methods(Client) == methods(AsyncClient)
