"""What a correction can be used for: the block that says it, whether it was read or not, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.questions.question_file import read_questions
from tests.web.conftest import FakeEngine, Person
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
    assert only().use == "It is in the passage that was named: Australia." and only().use in page
    (row,) = questions.feedback_questions(hidden=())
    say(outsider.client, asked, right="no", better_answer="Sydney")
    assert (only().review, only().use) == (Review.WAITING, "")  # what was said of it held for the other answer
    assert (row["title"], row["answers"], row["block_ids"]) == ("Australia", ["Canberra"], [block_id])
    assert "Its capital is Canberra" in row["context"]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(questions.as_lines([row]))
    assert read_questions(file)[0].context == row["context"]  # within which training looks for the answer


@pytest.mark.parametrize(
    ("better", "says"),
    [
        ("Stanley Kubrick", "It is in passage 1, which was read: 2001: A Space Odyssey."),
        ("Sydney", "It is in 1 other passage of the corpus."),
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
        assert "“Wellington” is in no passage of the corpus" in page and not AuditEntry.objects.exists()


def test_a_named_block_that_does_not_say_it_is_not_used(australia: tuple[AskedAnswer, str], curator: Person) -> None:
    asked, block_id = australia
    one = Feedback.objects.create(
        answer=asked, session_key="s", right=False, better_answer="Sydney", block_id=stored.ODYSSEY[0].block_id
    )
    page = decide(curator, one, "accepted").one("main")
    one.refresh_from_db()
    says = "The passage that was named does not say it and is not used. It is in 1 other passage of the corpus."
    assert one.use == says and says in page and block_id != one.block_id
    (row,) = questions.feedback_questions(hidden=())
    assert not {"title", "context"} & row.keys()


@pytest.mark.parametrize(
    ("rank", "says"),
    [
        (None, "The answer is not among the 200 nearest passages."),
        (7, "The answer is in passage 7 of the 200 nearest."),
    ],
)
def test_in_a_large_corpus_the_answer_is_looked_for_in_the_nearest_blocks(
    engine: FakeEngine, curator: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rank: int | None, says: str
) -> None:
    monkeypatch.setattr(articles, "MAX_BLOCKS_SEARCHED", 0)
    engine.rank = rank
    asked = stored.store()
    one = Feedback.objects.create(answer=asked, session_key="s", better_answer="Wellington")
    page = decide(curator, one, "accepted").one("main")
    assert engine.looked_for == [(f"{asked.question} Wellington", ("Wellington",), 200, ())]
    one.refresh_from_db()
    assert one.use == f"The corpus is too large to look through at once. {says}" and one.use in page
    assert one.review == Review.ACCEPTED


@pytest.mark.parametrize("corpus", ["0123456789abcdef", "another@corpus"])
def test_a_correction_is_no_worse_because_its_corpus_cannot_be_searched(
    australia: tuple[AskedAnswer, str],
    request: pytest.FixtureRequest,
    curator: Person,
    monkeypatch: pytest.MonkeyPatch,
    corpus: str,
) -> None:
    monkeypatch.setattr(articles, "MAX_BLOCKS_SEARCHED", 0)
    if corpus != australia[0].payload["corpus"]:
        engine: FakeEngine = request.getfixturevalue("engine")
        engine.corpus_id = corpus
    one = Feedback.objects.create(answer=australia[0], session_key="s", better_answer="Wellington")
    decide(curator, one, "accepted")
    one.refresh_from_db()
    assert one.review == Review.ACCEPTED and one.use.endswith("training will show whether the answer is in it.")
