"""What a correction can be used for: the block that says it, whether it was read or not, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.questions.question_file import read_questions
from tests.web.conftest import Person
from tests.web.pages import stored
from tests.web.pages.ingested import AUSTRALIA, ingested
from tests.web.test_feedback import decide, only, say
from webapp.articles import service as articles
from webapp.models import AskedAnswer, AuditEntry, CorpusSnapshot, Feedback, Review
from webapp.questions import service as questions

pytestmark = pytest.mark.django_db


@pytest.fixture
def australia(tmp_path: Path) -> tuple[AskedAnswer, str]:
    """An answer from a corpus that is there, and the id of a block of it that was not read."""
    asked = stored.store()
    snapshot = ingested(tmp_path, AUSTRALIA)
    asked.deployment.index.corpus = CorpusSnapshot.objects.get(name="small")
    asked.deployment.index.save()
    return asked, snapshot.block(0).block_id


def test_a_block_that_was_not_read_can_be_the_right_evidence(
    australia: tuple[AskedAnswer, str], outsider: Person, curator: Person, tmp_path: Path
) -> None:
    asked, block_id = australia
    link = f"http://localhost/blocks/{block_id}/?answer={asked.pk}"
    say(outsider.client, asked, right="no", better_answer="Canberra", other_block=link)
    assert only().block_id == block_id
    waiting = curator.client.get("/manage/feedback/").content.decode()
    assert "was not read" in waiting and "Its capital is Canberra" in waiting
    page = decide(curator, only(), "accepted").one("main")
    assert only().use == "It stands in the block that was named: Australia." and only().use in page
    (row,) = questions.feedback_questions(hidden=())
    assert (row["title"], row["answers"], row["block_ids"]) == ("Australia", ["Canberra"], [block_id])
    assert "Its capital is Canberra" in row["context"]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(questions.as_lines([row]))
    assert read_questions(file)[0].context == row["context"]  # within which training looks for the answer


@pytest.mark.parametrize(
    ("better", "says"),
    [
        ("Stanley Kubrick", "It stands in block 1, which was read: 2001: A Space Odyssey."),
        ("Sydney", "It stands in 1 other block of the corpus."),
        ("Wellington", ""),
    ],
)
def test_accepting_says_what_a_correction_can_be_used_for(
    australia: tuple[AskedAnswer, str], curator: Person, better: str, says: str
) -> None:
    one = Feedback.objects.create(answer=australia[0], session_key="s", right=False, better_answer=better)
    page = decide(curator, one, "accepted").one("main")
    one.refresh_from_db()
    assert one.use == says and says in page
    assert one.review == (Review.ACCEPTED if says else Review.WAITING)
    if not says:
        assert "“Wellington” stands in no block of the corpus" in page and not AuditEntry.objects.exists()


def test_a_corpus_too_large_to_look_through_is_no_reason_to_refuse(
    australia: tuple[AskedAnswer, str], curator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(articles, "MAX_BLOCKS_SEARCHED", 0)
    one = Feedback.objects.create(answer=australia[0], session_key="s", better_answer="Wellington")
    decide(curator, one, "accepted")
    one.refresh_from_db()
    assert one.review == Review.ACCEPTED and "too large" in one.use
