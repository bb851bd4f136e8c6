"""Two corpora that were ingested apart are asked together, and each passage is its own corpus's."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import derived_folders
from realm_core.files import read_json
from realm_core.index.build import build
from realm_core.index.postings import keep_postings
from realm_core.runs.activity import Activity
from tests.in_memory_source import InMemorySource
from tests.tiny import ARTICLES, tiny_model
from tests.web.conftest import Person
from tests.web.documents import folds
from tests.web.documents.conftest import copied, deploy_confirmed, titles
from tests.web.operating import call_tool
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.artefacts.uses import uses
from webapp.deployments import service as deploying
from webapp.documents import bringing, sweeping
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import show
from webapp.jobs import service as jobs
from webapp.jobs.form import JobForm
from webapp.kinds import KINDS, ParameterError
from webapp.models import PURGED_TITLE, Collection, Deployment, IndexGeneration, Job
from webapp.purges import masks
from webapp.purges import service as purging
from webapp.purges.remaining import RemovalStage, held_folders
from webapp.storage.places import resolve
from workers.executions import EXECUTIONS, RunAgain

HANDBOOK = {
    "Harbour": "The harbour of Turku opens at nine. Its pilot is called Ada.",
    "Mars": "Mars is a bar at the harbour of Turku. It has two rooms.",
}
EVERYTHING = "What is there?"


@pytest.fixture
def folders(folders: tuple[Path, Path, Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """The tiny deployment, copied to the data folder, because a purge writes beside it."""
    return copied(folders, tmp_path)


@pytest.fixture
def handbook(answering: Deployment, tmp_path: Path) -> IndexGeneration:
    """The index of another corpus, by the model of the tiny one."""
    return index_of("handbook", HANDBOOK, Path(answering.model.path), tmp_path)


def index_of(name: str, texts: dict[str, str], model: Path, data: Path) -> IndexGeneration:
    articles = [RawArticle(title, title, f"https://{name}.example/{title}", text) for title, text in texts.items()]
    source = InMemorySource(articles, name=name, language="fi", licence="CC0", attribution=f"The {name}")
    corpus = ingest(source, name=name, output=data / "corpora", activity=Activity(quiet=True), processes=1)
    record_corpus(corpus)
    return record_index(build(data / model, corpus, data / "indexes", Activity(quiet=True), device="cpu"))


def join(*indexes: IndexGeneration, name: str = "all") -> IndexGeneration:
    """The job, as a worker does it."""
    job = jobs.start("join", {"index": [one.pk for one in indexes], "corpus_name": name}, by=None)
    return record(job, folds.compute(job))


def record(job: Job, result: dict[str, object]) -> IndexGeneration:
    kept = EXECUTIONS["join"].record(job, result)
    Job.objects.filter(pk=job.pk).update(state="succeeded", result=kept)
    return IndexGeneration.objects.get(pk=kept["index"])


def ask(client: Client, **question: Any) -> dict[str, Any]:
    body = {"question": EVERYTHING, "k": 30, **question}
    answer: dict[str, Any] = client.post("/api/v1/ask", json.dumps(body), content_type="application/json").json()
    return answer


def texts_by_collection(answer: dict[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for block in answer["evidence"]:
        found.setdefault(block["collection"], set()).add(block["text"])
    return found


def test_a_question_names_one_corpus_or_all(answering: Deployment, handbook: IndexGeneration, member: Person) -> None:
    both = join(answering.index, handbook)
    assert (both.corpus.name, both.corpus.articles, both.rows) == ("all", len(ARTICLES) + 2, len(ARTICLES) + 2)
    assert both.model == answering.model and both.job == both.corpus.job and both.job is not None
    assert (both.corpus.licence, both.corpus.source) == ("CC BY-SA 4.0; CC0", "join")
    deploy_confirmed(both)

    assert texts_by_collection(ask(member.client)) == {"tiny": {*ARTICLES.values()}, "handbook": {*HANDBOOK.values()}}
    only = ask(member.client, collections=["handbook"])
    assert texts_by_collection(only) == {"handbook": {*HANDBOOK.values()}} and only["corpus"].startswith("all@")
    assert texts_by_collection(ask(member.client, filters={"languages": ["fi"]})).keys() == {"handbook"}
    rights = {"tiny": ("CC BY-SA 4.0", "Written for the tests"), "handbook": ("CC0", "The handbook")}
    for collection, own in rights.items():
        block = ask(member.client, collections=[collection])["evidence"][0]
        article = member.client.get(f"/api/v1/blocks/{block['block_id']}/article").json()
        assert (article["licence"], article["attribution"]) == own
        page = member.client.get(f"/blocks/{block['block_id']}/").content.decode()
        assert all(text in page for text in own)

    page = member.client.get("/").content.decode()
    assert 'value="handbook"' in page and 'value="tiny"' in page
    page = member.client.post("/", {"question": EVERYTHING, "collections": ["handbook"]}, follow=True).content.decode()
    assert "two rooms" in page and "Photosynthesis" not in page
    told = call_tool(Client(), "retrieve", question=EVERYTHING, k=30, collections=["handbook"])
    assert {block["title"] for block in told["structuredContent"]["blocks"]} == {"Harbour", "Mars"}


def test_private_collections_and_weights_are_of_corpora_too(
    answering: Deployment, handbook: IndexGeneration, member: Person, outsider: Person
) -> None:
    deploy_confirmed(join(answering.index, handbook))
    priors = []
    for weight in (1.0, 5.0):
        Collection.objects.update_or_create(name="handbook", defaults={"weight": weight})
        blocks = {block["title"]: block["retriever_prior"] for block in ask(member.client)["evidence"]}
        priors.append(blocks["Harbour"] / blocks["Berlin"])
    assert priors[1] / priors[0] == pytest.approx(5.0, rel=1e-4)
    secret = Collection.objects.get(name="handbook")
    secret.private = True
    secret.save()
    group = Group.objects.create(name="staff of the harbour")
    secret.groups.add(group)
    assert texts_by_collection(ask(outsider.client)).keys() == {"tiny"}
    assert outsider.client.get("/api/v1/documents/Harbour").status_code == 404
    member.user.groups.add(group)
    assert texts_by_collection(ask(member.client)).keys() == {"tiny", "handbook"}


@pytest.mark.postgresql_first
def test_edits_above_the_parts_are_carried_in(answering: Deployment, handbook: IndexGeneration, staff: Person) -> None:
    documents.add([DocumentInput(Text("Oulu is a city."), "oulu", "Oulu", licence="CC BY 4.0", tags=("x",))], by=None)
    wall = DocumentInput(Text("Berlin has a wall."), title="Berlin", collection="walls")
    documents.change("Berlin", wall, by=None)
    documents.remove(["Nile"], by=None)
    both = join(answering.index, handbook)
    assert not bringing.edited_above(answering.index, both)
    assert not [one for one in deploying.check(both).doubts if "Documents" in one]
    documents.add([DocumentInput(Text("Rauma has lace."), "rauma", "Rauma")], by=None)
    [doubt] = [one for one in deploying.check(both).doubts if "join the corpora again" in one]
    assert doubt.startswith("Edits of 1 document")
    deploy_confirmed(both)
    assert bringing.waiting() is None
    assert titles() == {*ARTICLES, "Oulu", "Harbour"} - {"Nile"}
    oulu, berlin = show("oulu").about, show("Berlin").about
    assert (oulu.licence, oulu.tags, oulu.collection, berlin.collection) == ("CC BY 4.0", ("x",), "tiny", "walls")
    assert (show("Mars").about.collection, show("handbook:Mars").about.collection) == ("tiny", "handbook")
    documents.change("handbook:Mars", DocumentInput(Text("Mars is closed."), title="Mars"), by=None)
    assert show("Mars").text == ARTICLES["Mars"] and show("handbook:Mars").text == "Mars is closed."
    folded = folds.fold()
    assert folded.index.corpus.name == "all" and show("handbook:Mars").text == "Mars is closed."
    assert not bringing.edited_above(handbook, folded.index)


def test_the_corpus_says_what_it_was_joined_from(
    answering: Deployment, handbook: IndexGeneration, staff: Person
) -> None:
    page = staff.client.get(f"/manage/corpora/{join(handbook, answering.index).corpus_id}/").content.decode()
    _, joined = page.split("Joined from", 1)
    parts = [joined.index(f'"/manage/corpora/{index.corpus_id}/"') for index in (handbook, answering.index)]
    assert parts == sorted(parts) and "Source" not in page
    assert "Joined from" not in staff.client.get(f"/manage/corpora/{handbook.corpus_id}/").content.decode()


def test_what_an_unfinished_join_needs_is_kept(answering: Deployment, handbook: IndexGeneration) -> None:
    documents.add([DocumentInput(Text("Oulu is a city."), "oulu", "Oulu")], by=None)
    job = jobs.start("join", {"index": [answering.index.pk, handbook.pk]}, by=None)
    folds.compute(job)
    [state] = list(sweeping._states_of_jobs([answering.index]))[:1]
    assert state.segments and list(sweeping._states_of_jobs([handbook]))
    assert any("works on it" in one for one in uses(handbook)), "nor is a part removed"


def test_a_purge_while_it_is_joined_leaves_nothing_behind(
    answering: Deployment, handbook: IndexGeneration, tmp_path: Path
) -> None:
    keep_postings(Snapshot.open(resolve(answering.index.corpus.path)), Activity(quiet=True))
    job = jobs.start("join", {"index": [answering.index.pk, handbook.pk]}, by=None)
    result = folds.compute(job)
    purging.purge(["Nile"], by=None)
    assert derived_folders(Path(str(result["snapshot"])))
    with pytest.raises(RunAgain, match="purged meanwhile"):
        EXECUTIONS["join"].record(job, result)
    assert not Path(str(result["snapshot"])).exists() and not Path(str(result["generation"])).exists()
    assert not derived_folders(Path(str(result["snapshot"])))
    again = record(job, folds.compute(job))
    assert again.rows == len(ARTICLES) + 1
    assert not any(b"The Nile" in path.read_bytes() for path in (tmp_path / again.corpus.path).iterdir())


@pytest.mark.postgresql_first
def test_what_is_purged_later_is_masked_in_whole_and_parts(answering: Deployment, handbook: IndexGeneration) -> None:
    both = join(answering.index, handbook)
    purging.purge(["Nile"], by=None)
    deploy_confirmed(both)
    assert titles() == {*ARTICLES, "Harbour"} - {"Nile"}
    purging.purge(["handbook:Mars", "Berlin"], by=None)
    documents.add([DocumentInput(Text(HANDBOOK["Mars"]), "bar", "Mars")], by=None)
    deploy_confirmed(handbook)
    assert titles() == {"Harbour"}
    deploy_confirmed(answering.index)
    assert titles() == {*ARTICLES} - {"Nile", "Berlin"}
    deploy_confirmed(both)
    assert titles() == {*ARTICLES, "Harbour"} - {"Nile", "Berlin"} and show("bar").text == HANDBOOK["Mars"]


def test_the_receipt_names_what_still_holds_it_in_whole_and_parts(
    answering: Deployment, handbook: IndexGeneration, staff: Person
) -> None:
    documents.add([DocumentInput(Text("The mole of Turku is 90 m long."), "mole", "Mole")], by=None)
    tiny, both = answering.index, join(answering.index, handbook)
    purge = purging.purge(["Nile"], by=None)
    assert purge.remaining == [tiny.corpus.path, tiny.path, both.corpus.path, both.path]
    stages = [one.stage for one in held_folders(purge)]
    assert stages == [RemovalStage.ANSWERS, RemovalStage.ANSWERS, RemovalStage.USED, RemovalStage.REMOVABLE]

    deploy_confirmed(both)
    purge = purging.purge(["mole"], by=None)
    *own, segment = purge.remaining
    assert own == [both.corpus.path, both.path] and segment.startswith("living/tiny/segments/")
    page = staff.client.get(f"/manage/documents/purges/{purge.pk}/").content.decode()
    assert "edits of another corpus: deploy it and fold them" in page and "by hand" not in page
    deploy_confirmed(tiny)
    folds.fold()
    sweeping.sweep(by=None, now=timezone.now() + timedelta(days=2))
    assert held_folders(purge)[-1].stage == RemovalStage.REMOVED
    assert purging.purge(["Mars", "Berlin"], by=None).remaining[-2:] == [both.corpus.path, both.path]


def test_what_was_brought_over_to_another_corpus_is_purged_there_before_it_answers(
    answering: Deployment, handbook: IndexGeneration
) -> None:
    """Otherwise a roll-back to that index would show the purged document."""
    documents.add([DocumentInput(Text("The mole of Turku is 90 m long."), "mole", "Mole")], by=None)
    tiny = answering.index
    deploy_confirmed(handbook)
    bringing.bring(by=None)
    assert "Mole" in titles()
    deploy_confirmed(tiny)
    [segment] = purging.purge(["mole"], by=None).remaining
    assert segment.startswith(f"living/{handbook.corpus.name}/segments/")
    deploy_confirmed(handbook)
    assert "Mole" not in titles()
    assert (show("mole").status, show("mole").title) == ("purged", PURGED_TITLE)


def test_what_was_purged_of_an_index_that_is_not_masked_yet_is_left_out(
    answering: Deployment, handbook: IndexGeneration, tmp_path: Path
) -> None:
    """Another index of the corpus, built behind the purge."""
    purging.purge(["Nile"], by=None)
    model, corpus = (tmp_path / one for one in (answering.model.path, answering.index.corpus.path))
    later = record_index(build(model, corpus, tmp_path / "indexes", Activity(quiet=True), name="later"))
    both = join(handbook, later)
    assert both.rows == len(ARTICLES) + 1 and masks.unmasked_purges(later) is None


def test_what_cannot_be_joined_is_refused_at_once(
    answering: Deployment, handbook: IndexGeneration, tmp_path: Path
) -> None:
    tiny = answering.index
    other = tiny_model(tmp_path, seed=1)
    record_model(other)
    strange = index_of("strange", {"Odd": "An odd text."}, other, tmp_path)
    for given, says in (
        ([], "is needed"),
        ([tiny.pk], "must name two or more indexes"),
        ([tiny.pk, 999], "names no index"),
        ([tiny.pk, strange.pk], "embeds blocks differently"),
    ):
        with pytest.raises(ParameterError) as refused:
            jobs.start("join", {"index": given}, by=None)
        assert says in refused.value.errors["index"]
    model, corpus = (tmp_path / one for one in (answering.model.path, tiny.corpus.path))
    again = build(model, corpus, tmp_path / "indexes", Activity(quiet=True), name="again")
    with pytest.raises(ParameterError, match="names two of the corpus tiny"):
        jobs.start("join", {"index": [tiny.pk, record_index(again).pk]}, by=None)


def test_the_form_starts_it(answering: Deployment, handbook: IndexGeneration, staff: Person) -> None:
    form = JobForm(KINDS["join"], None, {})
    assert list(form.fields) == ["index", "corpus_name", "search"]
    page = staff.client.get("/manage/jobs/new/join/").content.decode()
    assert "Join corpora" in page and handbook.generation in page
    given = {"index": [str(answering.index.pk), str(handbook.pk)], "corpus_name": "all", "search": "auto"}
    staff.client.post("/manage/jobs/new/join/", given)
    job = Job.objects.get(kind="join")
    assert job.parameters["corpus_name"] == "all" and set(job.parameters["index"]) == {answering.index.pk, handbook.pk}
    result = folds.compute(job)
    assert read_json(Path(str(result["generation"])) / "manifest.json")["search"]["kind"] == "exact"
