"""Why an answer is wrong: told on its page and over REST, with what the engine, the corpus and the evidence know."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from realm_core.evaluation.why import Why
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.operating import TokenClient, post, problem
from tests.web.pages import stored
from tests.web.pages.ingested import AUSTRALIA, ingested
from tests.web.pages.pages import Page
from tests.web.pages.stored import ODYSSEY
from webapp.explaining.serializers import WhySerializer
from webapp.models import AskedAnswer, CorpusSnapshot, Deployment, IndexGeneration, ModelVersion

pytestmark = pytest.mark.django_db
CLARKE = "Arthur C. Clarke"


@pytest.fixture
def asked(engine: FakeEngine, tmp_path: Path) -> AskedAnswer:
    """An answer whose engine answers, from a corpus that is there and says nothing of it."""
    kept = stored.store()
    ingested(tmp_path, AUSTRALIA)
    kept.deployment.index.corpus = CorpusSnapshot.objects.get(name="small")
    kept.deployment.index.save()
    return kept


def see(client: Client, asked: AskedAnswer, right_answer: str, **headers: str) -> Any:
    return client.post(f"/answers/{asked.pk}/why/", {"right_answer": right_answer}, headers=headers)


def told(member: Person, asked: AskedAnswer, right_answer: str) -> dict[str, Any]:
    """What REST says; the page says the same."""
    response = post(member.client, f"answers/{asked.pk}/why", {"answer": right_answer})
    assert response.status_code == 200, response.content
    body: dict[str, Any] = response.json()
    page = Page(see(member.client, asked, right_answer).content.decode())
    assert page.one("p", "why__detail") == " ".join(body["detail"].split())
    return {**body, "detail": body["detail"].replace("\N{NO-BREAK SPACE}", " ")}


# ── What is told ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_right(member: Person, asked: AskedAnswer) -> None:
    why = told(member, asked, " the Stanley  Kubrick.")
    assert (why["cause"], why["detail"]) == ("right", "“the Stanley Kubrick.” is the answer that was given.")


def test_outweighed(member: Person, asked: AskedAnswer, engine: FakeEngine) -> None:
    why = told(member, asked, CLARKE)
    assert why["cause"] == "outweighed"
    assert why["detail"] == (
        "Passage 3 (Arthur C. Clarke) says “Arthur C. Clarke”, which has 19.0 % over all passages; “Stanley Kubrick” "
        "outweighs it with 52.0 %, most of it from passage 1 (2001: A Space Odyssey)."
    )
    assert (why["chosen"]["block_id"], why["right"]["block_id"]) == (ODYSSEY[0].block_id, ODYSSEY[2].block_id)
    assert why["right"]["probability"] == pytest.approx(0.19)
    assert engine.looked_for == []  # the evidence says it all


def test_withheld(member: Person, engine: FakeEngine) -> None:
    asked = stored.store(stored.payload(explains="no_answer"))
    why = told(member, asked, "Stanley Kubrick")
    assert (why["cause"], why["no_answer_probability"]) == ("withheld", pytest.approx(0.2178, abs=1e-3))
    assert "too improbable to be given: it has 52.0 %, and that the passages hold no answer has" in why["detail"]


def test_withheld_by_its_confidence(member: Person, engine: FakeEngine) -> None:
    value = {**stored.payload(explains="no_answer"), "min_confidence": 0.455, "confidence_offset": -2.0}
    detail = told(member, stored.store(value), "Stanley Kubrick")["detail"]
    assert re.search(r"but not sure enough to be given: 2\d\.\d.%, and it must be 45\.5.%\.$", detail)


def test_misread(member: Person, asked: AskedAnswer) -> None:
    why = told(member, asked, "artificial intelligence")
    assert (why["cause"], why["chosen"]["text"], why["right"]["text"]) == ("misread", None, None)
    assert why["detail"] == (
        "Passage 4 (HAL 9000) holds “artificial intelligence”, but was read as most probably holding no answer "
        "(98.0 %); no span for “artificial intelligence” was likely there."
    )
    why = told(member, asked, "1968")
    assert why["detail"].startswith(
        "Passage 1 (2001: A Space Odyssey) holds “1968”, but was read as saying “Stanley Kubrick” (80.0 %); "
    )
    assert why["detail"].endswith("and that it holds no answer 5.0 %.")


def test_not_retrieved(member: Person, asked: AskedAnswer, engine: FakeEngine) -> None:
    engine.rank = 17
    asked.exclude = ["0" * 32]
    asked.save()
    why = told(member, asked, "Canberra")
    assert (why["cause"], why["rank"], why["looked_at"]) == ("not_retrieved", 17, 1000)
    assert why["detail"] == (
        "The corpus says “Canberra”, but the best passage that does has rank 17; the first 5 were read."
    )
    assert engine.looked_for[0] == (asked.question, ("Canberra",), 1000, ("0" * 32,))
    engine.rank = None
    why = told(member, asked, "Canberra")
    assert (why["cause"], why["rank"], why["looked_at"]) == ("not_retrieved", None, 1000)
    assert why["detail"] == "The corpus says “Canberra”, but in none of the first 1,000 passages; 5 were read."


def test_not_in_the_corpus(member: Person, asked: AskedAnswer) -> None:
    why = told(member, asked, "Wellington")
    assert (why["cause"], why["detail"]) == (
        "not_in_corpus",
        "No passage of the corpus says “Wellington”, so it could not be found.",
    )


@pytest.mark.parametrize("changed", ["model", "index"])
def test_no_engine_of_another_deployment_is_searched(
    member: Person, asked: AskedAnswer, engine: FakeEngine, changed: str
) -> None:
    engine.rank = 3
    replaced = IndexGeneration.objects.get()
    replaced.pk, replaced.generation = None, "gen-0"
    if changed == "model":
        replaced.model = ModelVersion.objects.create(name="another", version="1", model_hash="a" * 16, path="another")
    replaced.save()
    asked.deployment = Deployment.objects.create(model=replaced.model, index=replaced, is_active=False)
    asked.save()
    why = told(member, asked, "Canberra")
    assert (why["cause"], why["rank"], why["looked_at"]) == ("not_retrieved", None, 0)
    assert why["detail"] == (
        "The corpus says “Canberra”, but in no passage that was read. Its rank is not known, because another model or "
        "index is deployed now."
    )
    assert told(member, asked, "Wellington")["cause"] == "not_in_corpus"
    assert told(member, asked, CLARKE)["cause"] == "outweighed"
    assert engine.looked_for == []


def test_without_an_engine_and_without_a_corpus(member: Person, loader: Loader) -> None:
    loader.damaged = {stored.deployment().pk}
    asked = stored.store()
    why = told(member, asked, "Canberra")
    assert (why["cause"], why["rank"]) == ("not_read", None)
    assert why["detail"].startswith("No passage that was read says “Canberra”. Its corpus cannot be read, so")
    CorpusSnapshot.objects.update(removed_at=timezone.now())
    why = told(member, asked, "Canberra")
    assert why["detail"].startswith("No passage that was read says “Canberra”. Its corpus was removed, so")
    assert told(member, asked, CLARKE)["cause"] == "outweighed"


def test_an_expected_answer_that_is_another_wording_is_explained(member: Person, engine: FakeEngine) -> None:
    value = stored.payload()
    value["answers"][0]["also"] = [CLARKE]
    why = told(member, stored.store(value), CLARKE)
    assert why["detail"] == ("“Stanley Kubrick” names the same as “Arthur C. Clarke”; with all wordings it has 52.0 %.")


# ── Who is told, and how ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_form_is_for_those_who_are_signed_in(member: Person, outsider: Person, asked: AskedAnswer) -> None:
    for person, is_there in ((member, True), (outsider, False)):
        page = person.client.get(f"/answers/{asked.pk}/").content.decode()
        assert ("If this is wrong, see why" in page) == ('id="why-form"' in page) == is_there
        Page(page)
    assert see(outsider.client, asked, CLARKE)["Location"].startswith("/accounts/login/?next=/answers/")
    assert problem(post(outsider.client, f"answers/{asked.pk}/why", {"answer": CLARKE}), 401)
    assert member.client.get(f"/answers/{asked.pk}/why/")["Location"] == f"/answers/{asked.pk}/#why"
    program = TokenClient(member.user, "feedback")
    assert problem(post(program, f"answers/{asked.pk}/why", {"answer": CLARKE}), 403)


def test_htmx_gets_the_part_that_changes(member: Person, asked: AskedAnswer) -> None:
    response = see(member.client, asked, CLARKE, **{"HX-Request": "true"})
    part = Page(response.content.decode())
    assert part.one("p", "why__detail").startswith("Passage 3") and not part.all("h1")
    assert [attributes["value"] for attributes, _ in part.all("input")] == [CLARKE]


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "Write the right answer"),
        ("the !", "Write the right answer"),
        ("x" * 301, "may have at most 300 characters"),
    ],
)
def test_what_is_no_answer_is_refused(member: Person, asked: AskedAnswer, typed: str, says: str) -> None:
    response = see(member.client, asked, typed)
    page = Page(response.content.decode())
    assert response.status_code == 422 and any(says in text for _, text in page.all("p", "error"))
    refused = problem(post(member.client, f"answers/{asked.pk}/why", {"answer": typed}), 400)
    assert [error["field"] for error in refused["errors"]] == ["answer"] and says in refused["errors"][0]["detail"]
    assert problem(post(member.client, f"answers/{asked.pk}/why", {"answer": 7}), 400)
    unknown = "00000000-0000-4000-8000-000000000000"
    assert problem(post(member.client, f"answers/{unknown}/why", {"answer": CLARKE}), 404)


def test_it_counts_as_a_question(member: Person, asked: AskedAnswer, settings: Any) -> None:
    settings.ASK_RATE = "1/min"
    assert see(member.client, asked, CLARKE).status_code == 200
    response = see(member.client, asked, CLARKE)
    assert response.status_code == 429 and "That was a lot of questions" in response.content.decode()
    assert problem(post(member.client, f"answers/{asked.pk}/why", {"answer": CLARKE}), 429)


def test_the_serialiser_has_every_field() -> None:
    assert set(WhySerializer().fields) == {field.name for field in fields(Why)} | {"detail"}
