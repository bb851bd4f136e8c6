"""Documents in, changed, out: what is asked afterwards is answered from the corpus as it is then."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.utils.timezone import now

from realm_core.corpus.records import Section
from realm_core.living.documents import LivingDocument
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents.conftest import deploy_confirmed, meanwhile
from webapp.articles import service as articles
from webapp.documents import bringing
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, File, Text, Unreadable
from webapp.documents.listing import DocumentQuery, following, listed
from webapp.documents.viewing import DocumentMissing, show
from webapp.models import AuditEntry, CorpusChange, CorpusState, Deployment, Document, IndexGeneration
from webapp.refusals import InvalidRequest

TURKU = DocumentInput(
    Text("Turku is a city in Finland.\nIts castle was founded in 1280."), "turku", "Turku", licence="CC0"
)
OULU = DocumentInput(File(b"# Oulu\n\nOulu is a city by the sea.\n", "oulu.md"), "oulu")


def read_for(question: str) -> tuple[str, dict[str, str]]:
    """The corpus that an answer names, and the titles and texts of all blocks that it was read from."""
    payload = ask(question, k=20).payload
    return payload["corpus"], {block["title"]: block["text"] for block in payload["evidence"]}


def test_what_is_asked_follows_every_edit(answering: Deployment, staff: Person) -> None:
    base, read = read_for("Where is Turku?")
    assert "+" not in base and "Turku" not in read

    edited = documents.add([TURKU], by=staff.user)
    assert edited.document_ids == ["turku"]
    assert set(edited.timings_ms) == {"read", "publish", "commit", "open"}
    corpus, read = read_for("Where is Turku?")
    assert corpus == f"{base}+{edited.changes[0].after.state_id}" and "1280" in read["Turku"]

    changed = documents.change("turku", replace(TURKU, source=Text("Turku was founded in 1229.")), by=staff.user)
    assert changed.changes[0].before == edited.changes[0].after
    corpus, read = read_for("Where is Turku?")
    assert corpus == f"{base}+{changed.changes[0].after.state_id}" and read["Turku"] == "Turku was founded in 1229."

    documents.remove(["turku", "Nile"], by=staff.user)
    corpus, read = read_for("Where is Turku?")
    assert corpus not in (base, f"{base}+{changed.changes[0].after.state_id}") and not {"Turku", "Nile"} & read.keys()

    kinds = [(one.kind, one.document.document_id) for one in CorpusChange.objects.order_by("pk")]
    assert kinds == [("added", "turku"), ("changed", "turku"), ("removed", "turku"), ("removed", "Nile")]
    assert CorpusState.objects.filter(is_current=True).count() == 1 and CorpusState.objects.count() == 4
    actions = AuditEntry.objects.filter(action__startswith="document.").values_list("action", "name")
    assert set(actions) == {(f"document.{one}", "Stella") for one in ("add", "change", "remove")}


def test_the_ledger_names_the_blocks(deployed: Deployment) -> None:
    added = documents.add([TURKU], by=None).changes[0]
    assert len(added.blocks_new) == 1 and not added.blocks_gone
    changed = documents.change("turku", replace(TURKU, source=Text("Another text.")), by=None).changes[0]
    assert changed.blocks_gone == added.blocks_new and len(changed.blocks_new) == 1
    gone = documents.remove(["turku"], by=None).changes[0]
    assert gone.blocks_gone == changed.blocks_new and not gone.blocks_new


def test_what_is_there_already_changes_nothing(deployed: Deployment) -> None:
    first = documents.add([TURKU], by=None)
    again = documents.change("turku", TURKU, by=None)
    assert not again.changes and CorpusChange.objects.get() == first.changes[0]
    assert CorpusState.objects.get(is_current=True) == first.changes[0].after
    with pytest.raises(documents.DocumentExists, match="'turku' already"):
        documents.add([TURKU], by=None)


def test_a_changed_text_keeps_the_headings_that_still_stand_in_it(deployed: Deployment) -> None:
    rules = b"# Rules\n\n## Leave\n\nThirty days.\n\n### Trainees\n\nTen days.\n\n## Sickness\n\nCall us.\n"
    documents.add([DocumentInput(File(rules, "rules.md"), "rules", licence="CC0")], by=None)
    before = show("rules")
    text = before.text.replace("Thirty", "Forty").replace("Sickness\n", "") + "\nLeave"
    documents.change("rules", DocumentInput(Text(text), title="Rules"), by=None)
    after = show("rules")
    assert after.text == "Leave\nForty days.\nLeave › Trainees\nTen days.\nCall us.\nLeave"
    assert [block.section for block in before.passages] == ["Leave"]
    assert [block.section for block in after.passages] == ["Leave"]
    document = LivingDocument("rules", "Rules", before.text, (Section("Leave", 0), Section("Leave › Trainees", 19)))
    assert document.sections_of(after.text) == (Section("Leave", 0), Section("Leave › Trainees", 18))
    assert document.sections_of("Of leave\nnothing.\nLeave › Trainees") == (Section("Leave › Trainees", 18),)
    twice = LivingDocument("n", "N", "Notes\nOne.\nNotes\nTwo.", (Section("Notes (page 1)", 0), Section("Notes", 11)))
    assert twice.sections_of("Notes\n1.\nNotes\n2.") == (Section("Notes", 0), Section("Notes", 9))
    unsaid = LivingDocument("t", "Turku", "It is a city.\nIt is old.", (Section("History", 14),))
    assert unsaid.sections_of("It is a city.\nIt is old.\nIt is big.") == ()


def test_the_list_and_one_document(deployed: Deployment) -> None:
    whole = listed(count=100)
    assert whole.total == 12 and all(one.row is None for one in whole.documents)
    documents.add([TURKU, OULU], by=None)
    documents.remove(["Nile"], by=None)
    page = listed(count=3)
    assert page.total == 13 and {one.document_id for one in page.documents[:2]} == {"turku", "oulu"}
    ids = [one.document_id for start in range(0, 13, 3) for one in listed(start=start, count=3).documents]
    assert len(ids) == len(set(ids)) == 13 and "Nile" not in ids
    assert [one.document_id for one in listed(DocumentQuery(title="URK")).documents] == ["turku"]
    assert [one.title for one in listed(DocumentQuery(title="stanley")).documents] == ["Stanley Kubrick"]
    assert [one.document_id for one in listed(DocumentQuery(status="removed")).documents] == ["Nile"]

    shown = show("turku")
    assert (shown.about.licence, shown.about.attribution) == ("CC0", "") and shown.blocks == 1
    assert shown.text.endswith("in 1280.") and len(shown.passages) == 1
    assert show("oulu").title == "Oulu" and show("Mars").text.startswith("Mars is")
    assert show("Nile").status == "removed" and not show("Nile").text
    with pytest.raises(DocumentMissing):
        show("nothing")


def test_pasted_text_is_text_whatever_it_is_called(deployed: Deployment) -> None:
    titles = ("report.pdf", "notes.md", "data.csv", "page.html", "rows.jsonl", "feed.xml", "a.docx")
    texts = ("# One, two.\nThree, four, five.", "MZ is a mark.", "<html><p>One.</p>", "It begins with %PDF-1.7.")
    pasted = list(product(titles, texts))
    documents.add([DocumentInput(Text(text), str(n), title) for n, (title, text) in enumerate(pasted)], by=None)
    found = [show(str(number)) for number in range(len(pasted))]
    assert [(one.title, one.text) for one in found] == pasted and {one.format for one in found} == {"text"}


def test_the_list_of_those_that_were_added_in_a_period(answering: Deployment, another_index: IndexGeneration) -> None:
    """Ingested documents do not count as added, even if they were changed, nor do documents that are brought over."""
    documents.add([TURKU], by=None)
    documents.change("Mars", DocumentInput(Text("Mars is red."), title="Mars"), by=None)
    between = now()
    documents.add([OULU], by=None)
    documents.change("turku", DocumentInput(Text("Turku is old."), title="Turku"), by=None)

    def ids(**period: datetime) -> set[str]:
        query = DocumentQuery(**period)
        pages, position = following(query, None, 1)
        while position is not None:
            page, position = following(query, position, 1)
            pages += page
        found = listed(query)
        assert found.total == len(found.documents) == len(pages)
        assert {one.document_id for one in found.documents} == {one.document_id for one in pages}
        return {one.document_id for one in pages}

    def check() -> None:
        assert ids(added_since=between) == {"oulu"} and ids(added_before=between) == {"turku"}
        assert ids(added_since=between - timedelta(days=1)) == {"oulu", "turku"}
        assert ids(added_since=now()) == ids(added_since=between, added_before=between) == set()
        assert [one.document_id for one in listed(DocumentQuery("TUR", added_before=between)).documents] == ["turku"]

    check()
    deploy_confirmed(another_index)
    bringing.bring(by=None)
    check()


def test_the_text_says_each_heading_once_with_those_above_it(deployed: Deployment) -> None:
    first = b"# Handbook\n\nFor all.\n\n## Annual leave\n\n30 days.\n\n### Trainees\n\n28 days.\n\n"
    last = b"## Annual leave\n\nAsk early.\n\n## Travel\n\n### Trains\n\nSecond class.\n"
    given = File(first + last, "handbook.md")
    documents.add([DocumentInput(given, "handbook", licence="CC0")], by=None)
    said = "For all.\nAnnual leave\n30 days.\nAnnual leave › Trainees\n28 days.\nAnnual leave\nAsk early."
    said += "\nTravel › Trains\nSecond class."  # also of one that has no text of its own
    assert (show("handbook").title, show("handbook").text) == ("Handbook", said)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (DocumentInput(File(b"%PDF-1.7 cut", "report.pdf"), "report"), Unreadable, "report.pdf"),
        (DocumentInput(File(b"\x89PNG\r\n\x1a\n", "image.png")), Unreadable, "image.png is a PNG image"),
        (DocumentInput(Text("A text without a title.")), InvalidRequest, "title"),
        (replace(TURKU, document_id="other"), Unreadable, "with the same text"),
    ],
)
def test_what_is_refused_leaves_nothing(deployed: Deployment, wrong: DocumentInput, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        documents.add([TURKU, wrong], by=None)
    with pytest.raises(DocumentMissing):
        documents.remove(["Mars", "nothing"], by=None)
    assert not CorpusState.objects.exists() and not Document.objects.exists() and listed().total == 12


@pytest.mark.parametrize("edited_before", [False, True])
def test_of_two_edits_at_once_the_second_goes_on_from_the_first(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch, edited_before: bool
) -> None:
    if edited_before:
        documents.remove(["Nile"], by=None)
    meanwhile(monkeypatch, documents.Edit, "_commit", lambda: documents.add([OULU], by=None))
    documents.add([TURKU], by=None)
    assert {"turku", "oulu"} <= {one.document_id for one in listed(count=100).documents}
    last, first = CorpusChange.objects.all()[:2]
    assert last.before == first.after and last.document.document_id == "turku"


def test_an_edit_that_dies_before_its_commit_has_not_happened(
    answering: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    meanwhile(monkeypatch, documents.Edit, "_commit", killed)
    with pytest.raises(KeyboardInterrupt):
        documents.add([TURKU], by=None)
    assert listed().total == 12 and not CorpusState.objects.exists() and "Turku" not in read_for("Where is Turku?")[1]
    documents.add([TURKU], by=None)
    assert "Turku" in read_for("Where is Turku?")[1]


def test_blocks_of_added_documents_are_found_by_their_ids(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    asked = ask("Where is Turku?", k=20)
    block_id = show("turku").passages[0].block_id
    found = articles.find(block_id, hidden=())
    assert found is not None and found.licence == "CC0" and found.article.title == "Turku"
    assert found.corpus_id == asked.payload["corpus"] and len(found.blocks) == 1
    assert articles.is_in_its_corpus("1280", asked, None) and articles.count_holding("1280", asked, None) == 1
    documents.remove(["turku"], by=None)
    assert articles.find(block_id, hidden=()) is None
    assert (
        articles.find(block_id, asked, hidden=()) is not None
    )  # a kept answer names the state that it was answered from
