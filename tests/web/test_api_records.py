"""Models, indexes, corpora and the like over REST, and deployments."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from realm_core.files import read_json, write_json
from tests.tiny import tiny_deployment, tiny_model
from tests.web.conftest import Person
from tests.web.console import another_corpus, another_model
from tests.web.described import described as api_description
from tests.web.operating import TokenClient, evaluation, job, post, problem, question_set, span_set, walk
from tests.web.pages import stored
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.models import AuditEntry, Deployment, IndexGeneration
from webapp.storage.places import resolve


def test_an_index_says_how_it_is_searched_and_why(program: TokenClient, tmp_path: Path) -> None:
    index = stored.deployment().index
    IndexGeneration.every.filter(pk=index.pk).update(path=str(tmp_path))
    assert one_of(program, "indexes", index.pk)["search"] == "", "its files are not there"
    write_json(tmp_path / "manifest.json", {"format": 1, "rows": 10_033, "dim": 256})
    assert one_of(program, "indexes", index.pk)["search"] == "exact: 10,033 blocks take 10 MB"


def test_lineage(program: TokenClient) -> None:
    index = stored.deployment().index
    made = job()
    child = another_model("child", job=made, card="# Card")
    measured = evaluation(index, question_set())
    spans = span_set(index)

    listed = results(program, "models")
    assert [one["id"] for one in listed] == [child.pk, index.model_id] and "card" not in listed[0]
    shown = one_of(program, "models", child.pk)
    assert shown == listed[0] | {"card": "# Card"}
    assert (shown["parent"], shown["corpus"], shown["job"]) == (index.model_id, index.corpus_id, str(made.pk))
    parent = one_of(program, "models", index.model_id)
    assert (parent["children"], parent["indexes"], parent["evaluations"]) == ([child.pk], [index.pk], [measured.pk])

    shown = one_of(program, "indexes", index.pk)
    assert (shown["model"], shown["corpus"], shown["job"]) == (index.model_id, index.corpus_id, None)
    assert (shown["evaluations"], shown["deployments"]) == ([measured.pk], [Deployment.objects.get().pk])
    shown = one_of(program, "corpora", index.corpus_id)
    assert (shown["indexes"], shown["span_sets"], shown["model_versions"]) == ([index.pk], [spans.pk], [child.pk])
    shown = one_of(program, "evaluations", measured.pk)
    assert (shown["exact_match"], shown["figures"]) == (0.5, {"exact_match": 0.5})
    assert "figures" not in results(program, "evaluations")[0]
    assert one_of(program, "question-sets", measured.questions_id)["evaluations"] == [measured.pk]
    assert one_of(program, "span-sets", spans.pk)["corpus"] == index.corpus_id


def test_filters(program: TokenClient) -> None:
    first, second = stored.deployment().index, stored.deployment().index
    other = another_model()
    dev, test = question_set("dev"), question_set("test")
    of_dev, of_test = evaluation(first, dev), evaluation(second, test)
    assert found(program, f"models?parent={first.model_id}") == [other.pk]
    assert found(program, f"indexes?model={other.pk}") == []
    assert found(program, f"indexes?model={first.model_id}&corpus={first.corpus_id}") == [second.pk, first.pk]
    assert found(program, f"evaluations?questions={dev.pk}") == [of_dev.pk]
    assert found(program, f"evaluations?index={second.pk}") == [of_test.pk]
    assert found(program, "question-sets?purpose=measure") == [test.pk, dev.pk]
    assert found(program, "question-sets?purpose=learn") == []
    corpora = [another_corpus("small", snapshot_id=language, language=language) for language in ("fr", "en")]
    assert found(program, "corpora?language=fr") == [corpora[0].pk] and found(program, "corpora?language=FR") == []
    assert found(program, "corpora?name=small") == [one.pk for one in reversed(corpora)]
    assert found(program, "corpora?name=small&language=en") == [corpora[1].pk]
    for wrong in ("indexes?model=x", "question-sets?purpose=x", "corpora?model=1", f"models/{10**9}?card=1"):
        problem(program.get(f"/api/v1/{wrong}"), 400)
    for gone in (f"models/{10**9}", f"indexes/{10**30}", "corpora/0", f"deployments/{10**9}"):
        problem(program.get(f"/api/v1/{gone}"), 404)


@pytest.mark.parametrize("name", ["corpora", "models", "indexes", "question-sets", "span-sets", "evaluations"])
def test_every_list_is_cut_by_time(program: TokenClient, name: str) -> None:
    index = stored.deployment().index
    records: dict[str, Any] = {
        "corpora": index.corpus,
        "models": index.model,
        "indexes": index,
        "question-sets": (questions := question_set()),
        "span-sets": span_set(index),
        "evaluations": evaluation(index, questions),
    }
    made = records[name].created_at
    later = made + timedelta(microseconds=1)
    assert found(program, f"{name}?{urlencode({'since': made})}") == [records[name].pk]
    assert found(program, f"{name}?{urlencode({'since': made, 'before': later})}") == [records[name].pk]
    assert found(program, f"{name}?{urlencode({'since': later})}") == []
    assert found(program, f"{name}?{urlencode({'before': made})}") == []


@pytest.mark.parametrize(
    ("address", "field", "says"),
    [
        ("corpora?name=", "name", "1 to 100 characters"),
        ("corpora?language=" + "x" * 21, "language", "1 to 20 characters"),
        ("corpora?name=a%00b", "name", "without"),
        ("models?since=2026-01-31", "since", "a time with its offset"),
        ("span-sets?before=soon", "before", "a time with its offset"),
        ("deployments?model=x", "model", "whole number"),
        ("deployments?index=-1", "index", "whole number"),
        ("deployments?active=1", "active", "true or false"),
        ("deployments?since=now", "since", "a time with its offset"),
        ("deployments?order=note", "order", "one of id, activated_at"),
        ("deployments?is_active=true", "is_active", "no such parameter"),
        ("deployments?order=id&cursor=cD1ub3doZXJl", "cursor", "no cursor of this list"),
    ],
)
def test_a_wrong_parameter_is_named(program: TokenClient, address: str, field: str, says: str) -> None:
    (error,) = problem(program.get(f"/api/v1/{address}"), 400)["errors"]
    assert error["field"] == field and says in error["detail"]


def test_a_list_costs_the_same_however_long_it_is(program: TokenClient, django_assert_max_num_queries: Any) -> None:
    for _ in range(12):
        stored.deployment()
    for name in ("models", "indexes", "corpora", "deployments", "evaluations", "question-sets", "span-sets", "jobs"):
        job()
        with django_assert_max_num_queries(8):  # the token, its use, the page, and what points at its rows
            program.get(f"/api/v1/{name}")


# ---- deployments


def test_deployments_are_chosen_and_ordered(program: TokenClient) -> None:
    first, second = stored.deployment(), stored.deployment()
    third = Deployment.activate(first.index)
    Deployment.objects.filter(pk=third.pk).update(activated_at=second.activated_at - timedelta(hours=1))
    all_of_them = [third.pk, second.pk, first.pk]
    assert found(program, "deployments") == found(program, "deployments?order=-id") == all_of_them
    assert found(program, "deployments?order=id") == all_of_them[::-1]
    assert found(program, "deployments?order=-activated_at") == [second.pk, first.pk, third.pk]
    assert found(program, f"deployments?index={first.index_id}") == [third.pk, first.pk]
    assert found(program, f"deployments?model={first.model_id}") == all_of_them
    assert found(program, "deployments?model=0") == []
    assert found(program, "deployments?active=true") == [third.pk]
    assert found(program, "deployments?active=false") == [second.pk, first.pk]
    at = urlencode({"since": second.activated_at})
    assert found(program, f"deployments?{at}") == [second.pk]
    assert found(program, f"deployments?{urlencode({'before': second.activated_at})}") == [third.pk, first.pk]
    pages = walk(program, "/api/v1/deployments?page_size=1&order=id")
    assert [one["id"] for page in pages for one in page["results"]] == all_of_them[::-1]


@pytest.fixture
def pair(db: None, tmp_path_factory: pytest.TempPathFactory) -> IndexGeneration:
    """A real index with its model: the check before a deployment reads the files."""
    model, index, corpus = tiny_deployment(tmp_path_factory.getbasetemp() / "pair")
    record_corpus(corpus)
    return record_index(index, model=record_model(model))


def test_deploy_and_roll_back(program: TokenClient, pair: IndexGeneration, staff: Person) -> None:
    first = post(program, "deployments", {"index": pair.pk, "note": "The newest articles"})
    assert first.status_code == 201 and first.json()["note"] == "The newest articles"
    body = first.json()
    assert (body["index"], body["model"], body["is_active"], body["activated_by"]) == (
        *(pair.pk, pair.model_id, True),
        "Stella",
    )
    assert program.get(first["Location"]).json() == body
    other = IndexGeneration.objects.get(pk=pair.pk)
    other.pk, other.generation = None, "another"
    other.save()
    second = post(program, "deployments", {"index": other.pk, "model": pair.model_id}).json()
    assert second["is_active"] and not program.get(first["Location"]).json()["is_active"]
    back = post(program, f"deployments/{body['id']}/activate", {})
    third = back.json()
    assert back.status_code == 201 and back["Location"].endswith(f"/deployments/{third['id']}")
    active = Deployment.active()
    assert active is not None and active.pk == third["id"] and active.index == pair
    assert [one["id"] for one in results(program, "deployments")] == [third["id"], second["id"], body["id"]]
    entries = AuditEntry.objects.order_by("pk")
    for same in (third, body):
        again = problem(post(program, f"deployments/{same['id']}/activate", {}), 422)
        assert f"Deployment {third['id']} is active already" in again["detail"]
    again = problem(post(program, "deployments", {"index": pair.pk}), 422)
    assert f"Deployment {third['id']} is active already" in again["detail"]
    assert [(e.action, e.by) for e in entries] == [(a, staff.user) for a in ("deploy", "deploy", "roll-back")]


def test_doubts_are_told_and_must_be_confirmed(program: TokenClient, pair: IndexGeneration, tmp_path: Path) -> None:
    post(program, "deployments", {"index": pair.pk})
    folder = Path(shutil.copytree(resolve(pair.model.path), tmp_path / "sibling"))
    config = read_json(folder / "config.json")
    config["model"]["min_probability"] = 0.25
    (folder / "config.json").write_text(json.dumps(config))
    sibling = record_model(folder)
    wanted = {"index": pair.pk, "model": sibling.pk}
    told = problem(post(program, "deployments", wanted), 409)
    assert told["doubts"] and all(doubt in told["detail"] for doubt in told["doubts"])
    problem(post(program, "deployments", wanted | {"confirm": "0123456789abcdef"}), 409)
    assert Deployment.objects.count() == 1
    assert post(program, "deployments", wanted | {"confirm": told["confirm"]}).json()["model"] == sibling.pk
    assert told["doubts"][0] in AuditEntry.objects.first().details["confirmed"]  # type: ignore[union-attr]
    problem(post(program, f"deployments/{Deployment.objects.last().pk}/activate", {}), 409)  # type: ignore[union-attr]


def test_what_cannot_answer_is_refused(program: TokenClient, pair: IndexGeneration, tmp_path: Any) -> None:
    other = record_model(tiny_model(tmp_path, seed=1))
    told = problem(post(program, "deployments", {"index": pair.pk, "model": other.pk, "confirm": "x"}), 422)
    assert "embeds blocks differently" in told["detail"]
    broken = stored.deployment().index  # a row whose files never were
    Deployment.objects.all().delete()
    assert "cannot be used" in problem(post(program, "deployments", {"index": broken.pk}), 422)["detail"]
    assert not Deployment.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "index"),
        ({"index": 10**9}, "index"),
        ({"index": -1}, "index"),
        ({"index": 10**30}, "index"),
        ({"index": "1"}, "index"),
        ({"index": 1, "model": 10**9}, "model"),
        ({"index": 1, "confirm": True}, "confirm"),
        ({"index": 1, "note": "x" * 201}, "note"),
        ({"index": 1, "force": True}, "force"),
        ([], ""),
    ],
)
def test_a_malformed_deployment_is_refused_by_field(program: TokenClient, body: Any, field: str) -> None:
    errors = problem(post(program, "deployments", body), 400)["errors"]
    assert field in {error["field"] for error in errors}
    assert not Deployment.objects.exists()


def results(program: TokenClient, address: str) -> list[dict[str, Any]]:
    return list(program.get(f"/api/v1/{address}").json()["results"])


def found(program: TokenClient, address: str) -> list[int]:
    return [one["id"] for one in results(program, address)]


def one_of(program: TokenClient, name: str, record_id: int) -> dict[str, Any]:
    return dict(program.get(f"/api/v1/{name}/{record_id}").json())


def test_an_index_whose_files_were_removed_is_read_but_not_listed(program: TokenClient) -> None:
    index = stored.deployment().index
    assert program.get(f"/api/v1/indexes/{index.pk}").json()["removed_at"] is None
    IndexGeneration.objects.filter(pk=index.pk).update(removed_at=timezone.now())
    read = program.get(f"/api/v1/indexes/{index.pk}")
    assert read.status_code == 200 and read.json()["removed_at"]
    assert program.get("/api/v1/indexes").json()["results"] == []


def test_every_answer_has_an_example_that_is_as_described() -> None:
    schema = api_description()
    components = schema["components"]["schemas"]
    for address, operations in schema["paths"].items():
        for method, operation in operations.items():
            contents = [
                told["content"]["application/json"]
                for status, told in operation["responses"].items()
                if status.startswith("2") and "application/json" in told.get("content", {})
            ]
            if address == "/api/v1/schema/" or not contents:
                continue
            shown = [(content["schema"], one["value"]) for content in contents for one in _examples(content)]
            assert shown, f"{method} {address}"
            for kind, value in shown:
                of_one, one = (kind["items"], value[0]) if kind.get("type") == "array" else (kind, value)
                described = components[of_one["$ref"].rpartition("/")[2]]["properties"]
                if address != "/api/v1/ask/batch":  # of what comes of a question, one of two
                    assert one.keys() == described.keys(), f"{method} {address}"
                if "results" in described and method == "get":
                    item = components[described["results"]["items"]["$ref"].rpartition("/")[2]]["properties"]
                    assert one["results"][0].keys() == item.keys(), address


def _examples(content: dict[str, Any]) -> list[dict[str, Any]]:
    return list(content.get("examples", {}).values())
