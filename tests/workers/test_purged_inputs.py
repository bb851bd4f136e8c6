"""No job reads what was purged: whichever index or snapshot it is given, however old, and whenever it was purged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from realm_core.corpus.store import Snapshot
from realm_core.errors import EXIT_REFUSED, RealmError
from realm_core.index.build import build
from realm_core.living.state import BASE, LivingState
from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder
from tests.core.running import activity_of
from tests.web.documents import folds
from tests.workers.work import QUICK, Work
from webapp.artefacts.registering import record_index
from webapp.deployments.service import deploy
from webapp.documents import folding
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.evaluations import service as comparing
from webapp.evaluations.outcomes import outcomes
from webapp.jobs import service as jobs
from webapp.models import PURGED_TITLE, CorpusSnapshot, Evaluation, IndexGeneration, Job, JobState
from webapp.purges import masks
from webapp.purges import service as purging
from webapp.serving.living import current_view, state_of, store_of
from webapp.storage.places import resolve
from workers import job_run
from workers.executions import EXECUTIONS
from workers.job_run import JobRun, Timing

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _deployed(work: Work) -> None:
    deploy(work.index)


@pytest.fixture
def purged() -> str:
    """A document of the base that was purged."""
    document_id = current_view().listed(0, 1)[0].id
    purging.purge([document_id], by=None)
    return document_id


def evaluate(work: Work, index: IndexGeneration, **settings: Any) -> Job:
    return jobs.start("evaluate", {"index": index.pk, "questions": work.measure.pk, **settings}, by=None)


def reads(job: Job, document_id: str) -> bool:
    """Whether the state that an attempt is given has a document."""
    EXECUTIONS[job.kind].command(job)
    index = IndexGeneration.every.get(pk=job.parameters["index"])
    return bool(store_of(index).view(LivingState.load(job.run_dir / "state-0.json")).with_ids([document_id]))


def test_an_index_that_was_built_later_is_masked_before_it_is_read(work: Work, purged: str, tmp_path: Path) -> None:
    folders = (resolve(one.path) for one in (work.model, work.corpus))
    later = record_index(build(*folders, tmp_path / "indexes", Activity(quiet=True), name="later"))
    assert later.current_state is None
    assert not reads(evaluate(work, later), purged)
    assert masks.unmasked_purges(later) is None


def test_an_index_that_was_folded_is_masked_before_it_is_read(work: Work) -> None:
    document_id = current_view().listed(0, 1)[0].id
    documents.add([DocumentInput(Text("Turku is a city."), "turku", "Turku")], by=None)
    folds.fold()
    purging.purge([document_id], by=None)
    assert not reads(evaluate(work, work.index), document_id)
    assert reads(evaluate(work, work.index, k=3), current_view().listed(0, 1)[0].id)


def training(work: Work, kind: str, corpus: CorpusSnapshot) -> Job:
    given: dict[str, dict[str, Any]] = {
        "ict": {"model": work.model.pk, "corpus": corpus.pk, **QUICK},
        "warmstart": {"corpus": corpus.pk},
        "spans": {"corpus": corpus.pk, "tagger": "dates"},
        "evaluate": {
            "model": work.model.pk,
            "corpus": corpus.pk,
            "questions": work.measure.pk,
            "retriever": "bm25",
        },
    }
    known = {one.name for one in jobs.KINDS[kind].described()} | {one.name for one in jobs.KINDS[kind].inputs}
    return jobs.start(kind, {name: value for name, value in given[kind].items() if name in known}, by=None)


@pytest.mark.parametrize("kind", ["ict", "warmstart", "spans", "evaluate"])
def test_a_snapshot_that_holds_it_is_refused_until_it_was_folded(work: Work, purged: str, kind: str) -> None:
    job = training(work, kind, work.corpus)
    with pytest.raises(RealmError, match=r"still holds 1 purged document, so it is read no more\. .* fold that"):
        EXECUTIONS[kind].command(job)
    made = folds.fold().index.corpus
    assert EXECUTIONS[kind].command(training(work, kind, made))


def test_a_snapshot_is_read_again_where_the_document_was_added_again_as_it_was(work: Work, purged: str) -> None:
    [row] = [row for row, one in enumerate(_ids(work)) if one == purged]
    text = _article(work, row)
    documents.add([DocumentInput(Text(text.text), purged, text.title, url=text.url)], by=None)
    assert masks.purged_in(work.corpus) == 0


def test_an_older_snapshot_is_refused_where_the_document_was_added_again_with_another_text(
    work: Work, purged: str
) -> None:
    documents.add([DocumentInput(Text("It is another text."), purged, "Another")], by=None)
    with pytest.raises(RealmError, match="still holds 1 purged document"):
        EXECUTIONS["spans"].command(training(work, "spans", work.corpus))


def test_an_index_of_it_is_built_and_masked_before_anybody_reads_it(work: Work, purged: str) -> None:
    job = jobs.start("index", {"model": work.model.pk, "corpus": work.corpus.pk}, by=None)
    assert EXECUTIONS["index"].command(job)


def _ids(work: Work) -> list[str]:
    ids: list[str] = _opened(work).article_table.column("id").to_pylist()
    return ids


def _article(work: Work, row: int) -> Any:
    return _opened(work).article(row)


def _opened(work: Work) -> Any:
    return Snapshot.open(resolve(work.corpus.path))


# ---- a purge while a job is starting


class _Starting:
    """A process that opens its files behind a purge."""

    pid = 0

    def __init__(self, purge: str) -> None:
        self._purge, self.status = purge, 0

    def start(self, folder: RunFolder, command: Sequence[str], /, **_about: Any) -> _Starting:
        if self._purge:
            purging.purge([self._purge], by=None)
        _, _, _, activity, *words = command
        try:
            activity_of(activity, words[:-1], run=folder.path)
        except RealmError as error:
            self.status = EXIT_REFUSED
            folder.log_file.write_text(f"error: {error}\n")
        return self

    def poll(self) -> int:
        return self.status


def attempt(job: Job, monkeypatch: pytest.MonkeyPatch, *, purge: str = "") -> Job:
    """One attempt at a job, as a worker makes it; purge: a document that is purged before its process opens a file."""
    process = _Starting(purge)
    monkeypatch.setattr(job_run, "start_in", process.start)
    monkeypatch.setattr(job_run, "end", lambda process, until: process.poll())
    monkeypatch.setattr(job_run, "enqueue", lambda job: None)
    claimed = Job.claim(job.pk, "me", 60)
    assert claimed is not None
    JobRun(claimed, "me", Timing(lease_s=60, beat_s=10, look_s=0.01)).run()
    claimed.refresh_from_db()
    return claimed


def add_crake() -> None:
    documents.add([DocumentInput(Text("The sailing club Crake was founded by Admiral Crake."), "c", "Crake")], by=None)
    documents.add([DocumentInput(Text("The sailing club Heron was founded by Admiral Heron."), "h", "Heron")], by=None)


def test_an_evaluation_that_was_just_starting_says_that_documents_were_purged(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_crake()
    ended = attempt(evaluate(work, work.index), monkeypatch, purge="c")
    says = f"Documents of {work.corpus.name} were purged since this job began; start another one."
    assert (ended.state, ended.error) == (JobState.FAILED, says)


def test_another_failure_is_told_as_it_was(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    add_crake()
    job = evaluate(work, work.index)
    state = state_of(work.index, work.index.state_now())
    manifest = resolve("living") / state.name / "segments" / state.segments[0] / "manifest.json"
    manifest.rename(manifest.with_name("away"))  # a disk that lost it
    ended = attempt(job, monkeypatch)
    manifest.with_name("away").rename(manifest)  # other tests have the same segment
    assert ended.state == JobState.FAILED and "manifest.json does not exist" in ended.error


def test_a_fold_that_was_just_starting_begins_anew(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    add_crake()
    job = folding.start(by=None)
    assert attempt(job, monkeypatch, purge="c").state == JobState.QUEUED
    ended = attempt(job, monkeypatch)
    assert ended.state == JobState.SUCCEEDED
    assert {"h"} == {one.id for one in current_view().described(list(current_view().with_ids(["c", "h"]).values()))}


def test_a_fold_that_was_killed_leaves_nothing_of_what_was_purged_since(work: Work) -> None:
    document_id = current_view().listed(0, 1)[0].id
    add_crake()
    job = folding.start(by=None)
    left = folds.compute(job)
    assert Path(str(left["snapshot"])).exists()
    purging.purge([document_id], by=None)
    EXECUTIONS["fold"].command(job)
    assert not Path(str(left["snapshot"])).exists() and not Path(str(left["generation"])).exists()
    assert LivingState.load(job.run_dir / "state-0.json").tombstones[BASE] == (0,)


# ---- what was measured before a purge


def test_evaluations_and_comparisons_name_no_purged_document(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    add_crake()
    first, second = (
        Evaluation.objects.get(job=attempt(evaluate(work, work.index, k=k), monkeypatch)) for k in (50, 49)
    )
    second.k = first.k

    def named() -> list[set[str]]:
        shown = [one.prediction for one in outcomes(first).of(None)]
        pairs = list(comparing.pairs(first, second))
        return [{title for one in some for title in one.blocks} for some in (shown, [pair.second for pair in pairs])]

    assert all("Crake" in titles for titles in named())
    purging.purge(["c"], by=None)
    for titles in named():
        assert "Crake" not in titles and {PURGED_TITLE, "Heron"} <= titles
