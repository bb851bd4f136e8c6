"""What may be asked, and what is kept of it."""

from __future__ import annotations

from functools import partial

import pytest
from django.contrib.auth.models import AnonymousUser
from hypothesis import given
from hypothesis import strategies as st

from realm_core.evaluation.tasks import Calibrate, Evaluate
from realm_core.settings import MAX_K
from tests.web.asked import ask
from tests.web.conftest import FakeEngine, Person
from tests.web.described import described
from tests.web.pages import stored
from webapp.access.collections import CollectionAccess
from webapp.asking import service as asking
from webapp.filling import service as filling
from webapp.mcp.tools import TOOLS
from webapp.models import AskedAnswer, EvidenceBlock
from webapp.refusals import InvalidRequest
from webapp.text import one_line

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize(
    ("typed", "cleaned"),
    [
        ("  Who\n\twas  it? ", "Who was it?"),
        ("Cafe\u0301", "Café"),
        ("Cafe\x00\u0301", "Café"),
        ("a\x00b\x07c", "abc"),
        ("safe\u202etxt.exe", "safetxt.exe"),
        ("Who\u200b direc\u200dted\ufeff it?", "Who directed it?"),
        ("Hamlet?\u200d", "Hamlet?"),
        ('"\u200dHamlet"', '"Hamlet"'),
        ("\u200eIr\u00adan\u2061", "Iran"),
        ("e\u200d\u0301\u200d", "é"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("broken \ud800 half", "broken half"),
        ("日本の首都はどこですか。", "日本の首都はどこですか。"),
        ("क्\u200dष", "क्\u200dष"),  # a joiner that the script needs
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_one_line(typed: str, cleaned: str) -> None:
    assert one_line(typed) == cleaned


@given(st.text(st.characters(), max_size=200))
def test_a_cleaned_question_stays_as_it_is_and_can_be_stored(typed: str) -> None:
    cleaned = one_line(typed)
    assert one_line(cleaned) == cleaned
    assert "\x00" not in cleaned and "\n" not in cleaned
    cleaned.encode()


def test_every_wrong_field_is_named() -> None:
    with pytest.raises(InvalidRequest) as caught:
        asking.checked("", 99, ["no"], access=CollectionAccess())
    assert [error.field for error in caught.value.errors] == ["question", "k", "exclude[0]"]


def test_the_longest_question_and_the_most_blocks_are_allowed() -> None:
    request = asking.checked(
        "x" * asking.MAX_QUESTION_CHARACTERS, asking.MAX_K, ["b" * 32, "b" * 32], access=CollectionAccess()
    )
    assert request.exclude == ("b" * 32,)


def test_k_has_the_same_upper_bound_everywhere() -> None:
    for check in (partial(asking.checked, access=CollectionAccess()), filling.checked):
        words = ("Who is [MASK]?",)
        check(*words, MAX_K)
        with pytest.raises(InvalidRequest, match=f"and {MAX_K}"):
            check(*words, MAX_K + 1)
    for tool in ("ask", "retrieve"):
        assert TOOLS[tool].takes["properties"]["k"]["maximum"] == MAX_K
    schemas = described()["components"]["schemas"]
    for name, low in (("QuestionRequest", 1), ("BatchRequest", 1), ("SentenceRequest", 2)):
        k = schemas[name]["properties"]["k"]
        assert (k.get("minimum"), k.get("maximum")) == (low, MAX_K)
    for task in (Evaluate, Calibrate):
        assert [limit.le for limit in task.model_fields["k"].metadata if hasattr(limit, "le")] == [MAX_K]


def test_answer_and_evidence_are_kept(engine: FakeEngine, member: Person) -> None:
    asked = ask("  Who directed it? ", k=3, exclude=["a" * 32], asker=member.user)
    assert engine.asked == [("Who directed it?", 3, ("a" * 32,))]
    kept = AskedAnswer.objects.get(pk=asked.pk)
    assert (kept.question, kept.k, kept.exclude, kept.asker) == ("Who directed it?", 3, ["a" * 32], member.user)
    assert kept.deployment_id == engine.deployment_id
    assert kept.answer_text == "Stanley Kubrick"
    share = kept.probability / (kept.probability + kept.no_answer_probability)
    assert kept.confidence == pytest.approx(share)
    calibration = {"confidence": kept.confidence, "confidence_slope": 1.0, "confidence_offset": 0.0}
    calibration |= {"confidence_likelihood": 0.0, "confidence_margin": 0.0, "min_confidence": 0.0}
    assert kept.payload == {**stored.payload(), "question": "Who directed it?", "read_as": "", **calibration}
    assert kept.probability == pytest.approx(kept.payload["answer"]["probability"])
    evidence = EvidenceBlock.objects.filter(answer=kept)
    assert [block.block_id for block in evidence] == [e["block_id"] for e in kept.payload["evidence"]]
    assert sum(block.posterior for block in evidence) == pytest.approx(1)
    for block, told in zip(evidence, kept.payload["evidence"], strict=True):
        assert (block.title, block.text, block.url) == (told["title"], told["text"], told["url"])


def test_an_anonymous_asker_is_known_by_the_session_alone(engine: FakeEngine) -> None:
    asked = ask("Who?", asker=AnonymousUser(), session_key="abc")
    assert asked.asker is None and asked.session_key == "abc"


def test_nothing_is_kept_of_a_question_that_failed(engine: FakeEngine) -> None:
    engine.error = RuntimeError("bug")
    with pytest.raises(RuntimeError):
        ask("Who?")
    assert AskedAnswer.objects.count() == 0


@pytest.mark.django_db
def test_without_a_block_the_numbers_are_those_of_the_other_blocks() -> None:
    asked = stored.store()
    gone = stored.ODYSSEY[0]
    answer = asking.without(asked, [gone.block_id])
    expected = stored.marginals(stored.without(stored.ODYSSEY, gone.title))
    assert {a.text: a.probability for a in answer.answers} == pytest.approx(expected)
    assert sum(block.prior for block in answer.evidence) == pytest.approx(1)
    asked.refresh_from_db()
    assert asked.payload == stored.payload()


@pytest.mark.django_db
def test_only_blocks_that_were_read_can_be_taken_away() -> None:
    with pytest.raises(InvalidRequest, match="not one of the blocks"):
        asking.without(stored.store(), ["f" * 32])
