"""Why an answer is wrong, told after documents were edited: of the corpus as it was, and as it is."""

from __future__ import annotations

import gc

import pytest

from tests.web.asked import ask
from tests.web.documents.conftest import titles
from tests.web.documents.folds import fold
from webapp.access.collections import access_of
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.explaining import service as why
from webapp.models import AskedAnswer
from webapp.purges import service as purging
from webapp.serving import living

TRAPS = DocumentInput(Text("Ivo Brandt checks the moth traps."), "traps", "Traps")
OULU = DocumentInput(Text("Oulu is a city in Finland."), "oulu", "Oulu")
pytestmark = pytest.mark.usefixtures("answering")


@pytest.fixture
def asked() -> AskedAnswer:
    """An answer that did not read what says “Ivo Brandt”."""
    documents.add([TRAPS], by=None)
    traps = next(b["block_id"] for b in ask("traps", k=50).payload["evidence"] if b["title"] == "Traps")
    found = ask("What is there?", k=2, exclude=[traps])
    found.exclude = []
    found.save()
    assert "Traps" not in titles(found)
    return found


def told(asked: AskedAnswer, right: str = "Ivo Brandt") -> tuple[str, int | None, str]:
    explained = why.explain(AskedAnswer.objects.get(pk=asked.pk), right, access_of(None))
    return explained.why.cause, explained.why.rank, explained.detail


def test_nothing_was_edited(asked: AskedAnswer) -> None:
    cause, rank, detail = told(asked)
    assert cause == "not_retrieved" and rank
    assert (
        detail
        == f"The corpus says “Ivo Brandt”, but the best passage that does has rank {rank}; the first 2 were read."
    )


def test_another_document_was_added(asked: AskedAnswer) -> None:
    documents.add([OULU], by=None)
    cause, rank, detail = told(asked)
    assert cause == "not_retrieved" and rank
    assert detail == (
        "The corpus said “Ivo Brandt”, but in none of the 2 passages that were read. Documents changed since then. "
        f"In today's corpus the best passage that says it has rank {rank}."
    )


def test_the_document_with_the_answer_was_added_later(asked: AskedAnswer) -> None:
    documents.add([OULU], by=None)
    cause, rank, detail = told(asked, "Oulu")
    assert (cause, rank) == ("not_in_corpus", None)
    assert detail.startswith("No passage of the corpus said “Oulu”, so it could not be found. Documents changed since")
    assert "In today's corpus the best passage that says it has rank " in detail


def test_the_document_with_the_answer_was_removed_later(asked: AskedAnswer) -> None:
    documents.remove(["traps"], by=None)
    cause, rank, detail = told(asked)
    assert (cause, rank) == ("not_retrieved", None)
    assert detail.endswith("Documents changed since then. In today's corpus none of the first 1,000 passages says it.")


def test_causes_are_looked_for_in_today_s_corpus_once_a_purge_removed_the_state(asked: AskedAnswer) -> None:
    documents.add([OULU], by=None)
    later = ask("What is there?", k=2)
    assert "Traps" not in titles(later)
    purging.purge(["oulu"], by=None)
    ask("What is there?")  # the engine takes up the new state
    living._views.clear()
    gc.collect()  # what was read of the earlier one goes from memory, too
    cause, rank, detail = told(later)
    assert cause == "not_retrieved" and rank
    assert detail == (
        "No passage that was read says “Ivo Brandt”. Documents changed since then, and the corpus as it was then is "
        f"not kept. In today's corpus the best passage that says it has rank {rank}."
    )
    cause, rank, detail = told(later, "in Finland")
    assert (cause, rank) == ("not_read", None)
    assert detail.endswith("the corpus as it was then is not kept. No passage of the corpus says it today.")


def test_a_fold_alone_changes_no_document(asked: AskedAnswer) -> None:
    before = told(asked)
    assert fold() != asked.deployment
    assert told(asked) == before
    documents.add([OULU], by=None)
    assert "Documents changed since then. In today's corpus the best" in told(asked)[2]


def test_the_texts_that_answer_are_those_of_the_newest_state(asked: AskedAnswer) -> None:
    """Also where another process made the edit: this one still holds the view of the state before."""
    before = living.answering_view()
    assert before is not None and living.answering_view() is before
    documents.add([OULU], by=None)
    living._views[asked.deployment.index_id] = before
    after = living.answering_view()
    assert after is not None and after.state != before.state
    assert len(after) > len(before)
