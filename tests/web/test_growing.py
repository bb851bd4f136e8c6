"""A corpus that answers part by part: which parts it has, which of them answer, and what stops it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from realm_core.corpus.default import DefaultSource
from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.corpus.wordnet import ADDRESS
from realm_core.files import write_json
from realm_core.runs.activity import Activity
from tests.in_memory_source import InMemorySource
from tests.migrated import migrated_back
from tests.web.console import another_corpus, another_index
from tests.web.pages import stored
from webapp.artefacts.registering import record_corpus
from webapp.deployments import service as deploying
from webapp.deployments.service import Finding, PairCheck, Verdict
from webapp.jobs.service import start
from webapp.models import CorpusSnapshot, Deployment, IndexGeneration, Job, JobKind, JobState, Schedule
from webapp.models.schedule import ScheduleStage
from webapp.schedules import growth
from webapp.schedules import service as scheduling
from webapp.schedules.service import advance

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]


@pytest.fixture
def answers() -> Deployment:
    """What answers before: another corpus, of 1,000 articles."""
    deployed = stored.deployment()
    CorpusSnapshot.objects.update(articles=1000)
    return deployed


@pytest.fixture
def chain(answers: Deployment, quality: list[Verdict]) -> Schedule:
    """One that has just begun. Nothing is ever measured."""
    quality[0] = Verdict.DOUBT
    parameters = {"source": "vital", "corpus_name": "wiki", "articles_at_most": growth.FIRST_ARTICLES}
    return scheduling.follow(start(JobKind.INGEST, parameters, by=None), "wiki", deploy=True)


def ended(chain: Schedule, **result: Any) -> Job:
    chain.refresh_from_db()
    assert chain.last_job is not None
    Job.objects.filter(pk=chain.last_job.pk).update(state=JobState.SUCCEEDED, result=result)
    return chain.last_job


def part(digit: str, articles: int, share: float, **values: Any) -> CorpusSnapshot:
    """A part of the corpus."""
    return another_corpus("wiki", snapshot_id=digit * 16, source="vital", articles=articles, share=share, **values)


def ingested(chain: Schedule, articles: int, share: float) -> Job | None:
    """Its ingest ends with a part; the next job."""
    number = CorpusSnapshot.objects.count()
    corpus = part(f"{number}", articles, share, path=f"corpora/part-{number}")
    assert ended(chain, corpus=corpus.pk).kind == JobKind.INGEST
    return next(iter(advance()), None)


def indexed(chain: Schedule) -> Job | None:
    """Its index job ends; the next job."""
    job = ended(chain)
    assert job.kind == JobKind.INDEX
    IndexGeneration.objects.create(
        generation=f"part-{job.parameters['corpus']}",
        model_id=job.parameters["model"],
        corpus_id=job.parameters["corpus"],
        path="i",
        rows=3,
        dim=2,
    )
    return next(iter(advance()), None)


def answering() -> int:
    """How many articles answer."""
    active = Deployment.active()
    assert active is not None
    return active.index.corpus.articles


def test_parts_answer_until_all_of_it_does(chain: Schedule) -> None:
    """Also where nothing was measured: a person wants it."""
    asked_for, answered = [], []
    for articles, share in ((1900, 0.01), (15_900, 0.2), (80_000, 1.0)):
        chain.refresh_from_db()
        assert chain.last_job is not None
        asked_for.append(chain.last_job.parameters["articles_at_most"])
        ingested(chain, articles, share)
        indexed(chain)
        answered.append(answering())
    assert asked_for == [2000, 16_000, 0], "a fifth times eight is more than all of it"
    assert answered == [1900, 15_900, 80_000]
    chain.refresh_from_db()
    assert chain.stage == "" and "is built and deployed, as deployment" in chain.last_outcome and advance() == []


def test_a_part_that_is_smaller_than_what_answers_is_not_even_indexed(chain: Schedule) -> None:
    CorpusSnapshot.objects.update(articles=20_000)
    job = ingested(chain, 1900, 0.01)
    assert job is not None and job.parameters["articles_at_most"] == 128_000
    chain.refresh_from_db()
    assert "has no more articles than what answers. Now ingesting the first 128,000" in chain.last_outcome
    ingested(chain, 128_000, 0.6)
    CorpusSnapshot.objects.filter(name="vital-en").update(articles=130_000)  # a fold of many new documents
    job = indexed(chain)
    assert job is not None and job.parameters["articles_at_most"] == 0 and answering() == 130_000
    ingested(chain, 120_000, 1.0)
    indexed(chain)
    assert answering() == 120_000, "all of it answers, however much there is"


@pytest.mark.parametrize(
    ("name", "articles", "share", "first"),
    [
        ("vital-en", 1999, 1.0, 2000),
        ("vital-en", 10_000, 1.0, 16_000),
        ("wiki", 250_000, 1.0, 0),
        ("wiki", 16_000, 0.1, 128_000),
    ],
)
def test_the_first_part_is_larger_than_what_answers(
    answers: Deployment, name: str, articles: int, share: float, first: int
) -> None:
    CorpusSnapshot.objects.update(name=name, articles=articles, share=share)
    assert growth.first_articles("wiki") == first


def test_the_dictionary_of_the_default_corpus_does_not_put_off_the_first_part(answers: Deployment) -> None:
    """A line each: they outnumber its articles, and the first part would be eight times as large."""
    addresses = [article.url for article in DefaultSource().articles(0)]
    entries = sum(address.startswith(ADDRESS) for address in addresses)
    CorpusSnapshot.objects.update(articles=len(addresses), dictionary_entries=entries)
    assert len(addresses) > 16_000 > len(addresses) - entries > 2000
    assert growth.first_articles("simplewiki") == 16_000
    active = Deployment.active()
    assert growth.is_larger(part("1", 16_000, 0.06), active)
    assert not growth.is_larger(part("2", len(addresses) - entries, 0.06), active)
    assert not growth.is_larger(part("3", 16_000, 0.06, dictionary_entries=9000), active)


@pytest.mark.parametrize("parts", [0, 1])
def test_what_a_person_deploys_between_two_parts_stays(chain: Schedule, answers: Deployment, parts: int) -> None:
    ingested(chain, 1900, 0.01)
    if parts:
        indexed(chain)
        ingested(chain, 15_900, 0.2)
    back = Deployment.activate(answers.index)
    assert indexed(chain) is None and Deployment.active() == back
    chain.refresh_from_db()
    assert chain.stage == "" and f"deployment {back.pk}, which it did not make, answers by now" in chain.last_outcome


def test_a_fold_does_not_end_a_growing_corpus(chain: Schedule) -> None:
    ingested(chain, 1900, 0.01)
    indexed(chain)
    first = Deployment.objects.get(is_active=True).index
    ingested(chain, 15_900, 0.08)

    fold = Job.objects.create(kind=JobKind.FOLD, state=JobState.SUCCEEDED, parameters={"index": first.pk})
    into = another_index(first.model, "fold", corpus=part("f", 1901, 0.01, job=fold), job=fold)
    IndexGeneration.objects.filter(pk=first.pk).update(folded_into=into)
    Deployment.activate(into)

    job = indexed(chain)
    assert answering() == 15_900
    assert job is not None and job.parameters["articles_at_most"] == 128_000 and job.parameters["source"] == "vital"


def test_a_job_that_somebody_started_already_is_waited_for(chain: Schedule) -> None:
    ended(chain)
    corpus = part("1", 1900, 0.01)
    ended(chain, corpus=corpus.pk)
    model = Deployment.objects.get().model
    same = start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk}, by=None)
    assert advance() == [same]
    indexed(chain)
    assert answering() == 1900


def test_when_all_was_read_it_ends_even_if_the_record_says_a_part(chain: Schedule) -> None:
    """The last part equals the whole where no article follows it."""
    ingested(chain, 1900, 0.99)
    assert indexed(chain) is not None
    ended(chain, corpus=Deployment.objects.get(is_active=True).index.corpus_id)
    assert advance() == []
    chain.refresh_from_db()
    assert chain.stage == "" and chain.ingested_by is not None and not chain.ingested_by.parameters["articles_at_most"]


@pytest.mark.parametrize("about", ["Calibration", "Quality on trivia"])
def test_no_doubt_but_that_it_was_never_measured_is_passed_over(
    chain: Schedule, monkeypatch: pytest.MonkeyPatch, about: str
) -> None:
    def check(index: IndexGeneration, model: Any = None) -> PairCheck:
        findings = (Finding(about, Verdict.DOUBT, "A doubt."), Finding("Quality", Verdict.DOUBT, "Never measured."))
        return PairCheck(index.model, index, Deployment.active(), findings)

    monkeypatch.setattr(deploying, "check", check)
    ingested(chain, 1900, 0.01)
    indexed(chain)
    chain.refresh_from_db()
    assert answering() == 1000 and "was not deployed: A doubt." in chain.last_outcome


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_a_pair_is_checked(chain: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite nobody else could write for minutes. A person who stops the run meanwhile is heard."""
    check, seen = deploying.check, []

    def slow(index: IndexGeneration, model: Any = None) -> PairCheck:
        seen.append(connection.in_atomic_block)
        if len(seen) == 2:
            Schedule.objects.update(stage=ScheduleStage.REST)
        return check(index, model)

    monkeypatch.setattr(deploying, "check", slow)
    ingested(chain, 1900, 0.01)
    indexed(chain)
    assert seen == [False] and answering() == 1900
    ingested(chain, 15_900, 0.2)
    indexed(chain)
    assert seen == [False, False] and answering() == 1900


def test_the_check_is_made_again_where_another_deployment_was_made_meanwhile(
    chain: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, checked = deploying.check, []

    def meanwhile(index: IndexGeneration, model: Any = None) -> PairCheck:
        found = check(index, model)
        if not checked:
            Deployment.activate(Deployment.objects.get().index)
        checked.append(found)
        return found

    monkeypatch.setattr(deploying, "check", meanwhile)
    ingested(chain, 1900, 0.01)
    indexed(chain)
    chain.refresh_from_db()
    assert len(checked) == 1 and answering() == 1000 and "which it did not make" in chain.last_outcome


# ── Records ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_record_has_the_share_that_the_manifest_says(tmp_path: Path) -> None:
    manifest: dict[str, Any] = {"snapshot_id": "a" * 16, "name": "wiki", "articles": 2, "blocks": 3, "share": 0.25}
    write_json(tmp_path / "manifest.json", manifest)
    assert record_corpus(tmp_path).share == 0.25
    del manifest["share"]
    write_json(tmp_path / "manifest.json", manifest | {"snapshot_id": "b" * 16})
    assert record_corpus(tmp_path).share == 1


@pytest.fixture
def with_dictionary(settings: LazySettings, tmp_path: Path) -> Path:
    """A snapshot of an article and two entries of the dictionary."""
    settings.REALM_DATA = tmp_path
    entries = [RawArticle(f"WordNet: {one}", one, f"{ADDRESS}{one}", f"{one}: a bird.") for one in ("Swan", "Gull")]
    articles = [RawArticle("Ada", "Ada", "https://en.wikipedia.org/wiki/Ada", "Ada was a mathematician."), *entries]
    source = InMemorySource(articles, name="default")
    return ingest(source, name="wiki", output=tmp_path / "corpora", activity=Activity(quiet=True), processes=1)


def test_the_record_has_the_entries_of_the_dictionary(with_dictionary: Path) -> None:
    corpus = record_corpus(with_dictionary)
    assert (corpus.articles, corpus.dictionary_entries) == (3, 2)


@pytest.mark.django_db(transaction=True)
def test_they_are_counted_in_an_earlier_version_s_corpora(answers: Deployment, with_dictionary: Path) -> None:
    record_corpus(with_dictionary)
    with migrated_back("0036_what_runs_came_to"):
        pass
    assert dict(CorpusSnapshot.objects.values_list("name", "dictionary_entries")) == {"vital-en": 0, "wiki": 2}


@pytest.mark.django_db(transaction=True)
def test_an_earlier_version_s_records_and_runs_are_taken_over(
    chain: Schedule, settings: LazySettings, tmp_path: Path
) -> None:
    """Shares by the manifests that are there; a run that indexes knows its corpus and its ingest."""
    ingested(chain, 1900, 0.01)
    corpus = CorpusSnapshot.objects.get(name="wiki")
    chain.refresh_from_db()
    CorpusSnapshot.objects.filter(pk=corpus.pk).update(job=chain.ingested_by)
    settings.REALM_DATA = tmp_path
    (tmp_path / corpus.path).mkdir(parents=True)
    write_json(tmp_path / corpus.path / "manifest.json", {"share": 0.125})
    with migrated_back("0023_folded_indexes"):
        pass
    assert dict(CorpusSnapshot.objects.values_list("name", "share")) == {"vital-en": 1.0, "wiki": 0.125}
    after = Schedule.objects.get()
    assert (after.corpus_id, after.ingested_by, after.answering) == (corpus.pk, chain.ingested_by, chain.answering)
