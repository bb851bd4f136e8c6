"""`POST /api/v1/fill`: what it answers, and what it says of what it cannot fill."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from django.test import Client
from rest_framework import serializers

from realm_core.errors import RealmError
from realm_core.serving import filled
from tests.web.conftest import FakeEngine, Loader
from tests.web.operating import post, problem
from tests.web.pages.fillings import SENTENCE, marginals
from webapp.filling import examples
from webapp.filling.serializers import (
    FillingEvidenceSerializer,
    FillingSerializer,
    GuessSerializer,
    MaskSerializer,
    WordSerializer,
)
from webapp.models import AskedAnswer

ADDRESS = "/api/v1/fill"


def test_fill(client: Client, engine: FakeEngine) -> None:
    body = {"sentence": f"  {SENTENCE}\n", "k": 3, "exclude": ["a" * 32], "truth": " Fermat "}
    response = post(client, "fill", body)
    assert response.status_code == 200 and response["Content-Type"] == "application/json"
    assert engine.filled == [(SENTENCE, 3, ("a" * 32,), "Fermat")]
    said = response.json()
    assert said["sentence"] == SENTENCE and said["explains"] == "truth"
    assert said["truth"]["marginal"] == pytest.approx(marginals()["fermat"])
    assert [guess["text"] for guess in said["guesses"]] == list(marginals())[:5]
    assert sum(block["prior"] for block in said["evidence"]) == pytest.approx(1)
    total = sum(block["prior"] * block["likelihood"] for block in said["evidence"])
    assert total == pytest.approx(said["truth"]["marginal"])
    (null,) = [block for block in said["evidence"] if block["block_id"] is None]
    assert null["utility"] == 0 and null["text"] == ""
    assert AskedAnswer.objects.count() == 0


@pytest.mark.parametrize("truth", [{}, {"truth": None}, {"truth": ""}, {"truth": " \n"}])
def test_all_but_the_sentence_may_be_left_out(client: Client, engine: FakeEngine, truth: dict[str, Any]) -> None:
    said = post(client, "fill", {"sentence": SENTENCE, **truth}).json()
    assert engine.filled == [(SENTENCE, 8, (), None)]
    assert (said["truth"], said["explains"]) == (None, "guess")


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({}, "sentence", "required"),
        ({"sentence": ""}, "sentence", "Write a sentence with [MASK]"),
        ({"sentence": " \n\t"}, "sentence", "Write a sentence with [MASK]"),
        ({"sentence": None}, "sentence", "null"),
        ({"sentence": 7}, "sentence", "string"),
        ({"sentence": "Nothing is missing."}, "sentence", "write [MASK] in place of a word"),
        ({"sentence": "[MASK]" * 11}, "sentence", "at most 10 [MASK]; this one has 11"),
        ({"sentence": "[MASK]" + "x" * 1000}, "sentence", "at most 1000 characters; this one has 1006"),
        ({"sentence": SENTENCE, "k": 1}, "k", "between 2 and 50"),
        ({"sentence": SENTENCE, "k": 51}, "k", "between 2 and 50"),
        ({"sentence": SENTENCE, "k": "8"}, "k", "integer"),
        ({"sentence": SENTENCE, "k": None}, "k", "null"),
        ({"sentence": SENTENCE, "exclude": ["x"]}, "exclude[0]", "32 hexadecimal"),
        ({"sentence": SENTENCE, "exclude": "x"}, "exclude", "list"),
        ({"sentence": SENTENCE, "truth": 3}, "truth", "string"),
        ({"sentence": SENTENCE, "truth": "x" * 201}, "truth", "at most 200"),
        ({"sentence": SENTENCE, "question": "Who?"}, "question", "no such field"),
        ([], "", "dictionary"),
    ],
)
def test_a_wrong_field_is_named(client: Client, engine: FakeEngine, body: Any, field: str, said: str) -> None:
    told = problem(post(client, "fill", body), 400)
    assert [error["field"] for error in told["errors"]] == [field]
    assert said in told["errors"][0]["detail"]
    assert engine.filled == []


def test_every_wrong_field_is_named_at_once(client: Client, engine: FakeEngine) -> None:
    told = problem(post(client, "fill", {"sentence": "x", "k": 1, "truth": "x" * 201}), 400)
    assert [error["field"] for error in told["errors"]] == ["sentence", "k", "truth"]


def test_a_model_without_an_encoder_reads_the_gap(client: Client, engine: FakeEngine) -> None:
    engine.has_encoder = False
    found = post(client, "fill", {"sentence": SENTENCE, "truth": "Fermat"}).json()
    assert found["filled_by"] == "reader" and found["masks"] == [] and found["truth"]["text"] == "Fermat"
    assert {guess["without_retrieval"] for guess in found["guesses"]} == {None}
    assert {block["utility"] for block in found["evidence"]} == {None}
    assert all(block["block_id"] for block in found["evidence"])  # no null block
    assert sum(block["prior"] for block in found["evidence"]) == pytest.approx(1.0)
    assert found["no_answer_probability"] > 0


def test_a_refusal_of_the_engine_is_a_422(client: Client, engine: FakeEngine) -> None:
    engine.error = RealmError("The sentence is too long.")
    told = problem(post(client, "fill", {"sentence": SENTENCE}), 422)
    assert told["detail"] == "The sentence is too long."


@pytest.mark.django_db
def test_nothing_to_fill_with(client: Client, loader: Loader) -> None:
    response = post(client, "fill", {"sentence": SENTENCE})
    assert "Nothing is deployed" in problem(response, 503)["detail"]
    assert int(response["Retry-After"]) > 0


def test_sentences_count_as_questions(client: Client, engine: FakeEngine, settings: Any) -> None:
    settings.ASK_RATE = "2/hour"
    assert post(client, "ask", {"question": "Who?"}).status_code == 201
    assert post(client, "fill", {"sentence": SENTENCE}).status_code == 200
    problem(post(client, "fill", {"sentence": SENTENCE}), 429)


def test_it_is_posted(client: Client, engine: FakeEngine) -> None:
    problem(client.get(ADDRESS), 405)
    problem(client.post(ADDRESS, {"sentence": SENTENCE}), 415)


@pytest.mark.parametrize(
    ("serializer", "record"),
    [
        (FillingSerializer, filled.Filling),
        (FillingEvidenceSerializer, filled.FillingEvidence),
        (GuessSerializer, filled.Guess),
        (MaskSerializer, filled.MaskWords),
        (WordSerializer, filled.Word),
    ],
)
def test_the_description_has_the_fields_of_the_filling(serializer: type[serializers.Serializer], record: type) -> None:
    assert set(serializer().fields) == {field.name for field in fields(record)}


@pytest.mark.django_db
def test_the_examples_are_of_the_described_shape(client: Client) -> None:
    serializer = FillingSerializer(data=examples.FILLING)
    assert serializer.is_valid(), serializer.errors
    assert set(examples.FILLING) == set(serializer.fields)
    truth, evidence = examples.FILLING["truth"], examples.FILLING["evidence"]
    assert sum(block["prior"] * block["likelihood"] for block in evidence) == pytest.approx(truth["marginal"])
    described = client.get("/api/v1/schema/?format=json").json()["paths"][ADDRESS]["post"]
    assert described["responses"].keys() == {*("200", "400", "401", "403", "413", "415", "422", "429", "503")}
    assert described["requestBody"]["content"]["application/json"]["examples"]["Sentence"]["value"] == examples.SENTENCE
