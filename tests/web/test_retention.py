"""What retention removes, and what it never touches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from realm_core.corpus.tables import tokens_folder
from realm_core.errors import RealmError
from tests.web.conftest import Person
from tests.web.console import another_corpus, another_index
from tests.web.operating import question_set
from tests.web.pages import stored
from webapp.artefacts import retention
from webapp.artefacts.registering import record_index
from webapp.jobs import service as jobs
from webapp.kinds import Kind, ParameterError, Parameters
from webapp.models import (
    AskedAnswer,
    AuditEntry,
    CorpusSnapshot,
    Deployment,
    Document,
    Feedback,
    IndexGeneration,
    Job,
    JobState,
    ModelVersion,
    RetentionRule,
    Review,
    Schedule,
)
from webapp.storage.places import keep_files, resolve

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]
LONG_AGO = timedelta(days=40)


@pytest.fixture
def deployed() -> Iterator[Deployment]:
    yield stored.deployment()
    for place in ("indexes", "corpora", "runs"):
        shutil.rmtree(resolve(place), ignore_errors=True)


def generation(number: int, deployed: Deployment, **values: Any) -> IndexGeneration:
    """A generation with files, the higher its number the newer."""
    index = another_index(deployed.model, f"old-{number}", **values)
    folder = resolve(index.path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vectors").write_bytes(b"0123456789")
    IndexGeneration.objects.filter(pk=index.pk).update(created_at=timezone.now() + timedelta(minutes=number))
    return index


def old_generation(deployed: Deployment) -> IndexGeneration:
    """The one generation that a rule of two removes."""
    olds = [generation(number, deployed) for number in range(3)]
    rule()
    return olds[0]


def job(state: str = JobState.SUCCEEDED, ago: timedelta = LONG_AGO, **values: Any) -> Job:
    """A job with a run folder."""
    ended = None if state in (JobState.QUEUED, JobState.RUNNING) else timezone.now() - ago
    made = Job.objects.create(kind="index", state=state, finished_at=ended, **values)
    made.run_dir.mkdir(parents=True)
    (made.run_dir / "log.txt").write_text("log")
    return made


def names(removed: list[retention.Removal]) -> set[object]:
    return {removal.record.pk for removal in removed}


def rule(**values: Any) -> RetentionRule:
    return retention.change_rule(
        **{"enabled": True, "generations": 2, "run_days": 30, "answer_days": 0, "by": None, **values}
    )


def test_the_newest_generations_of_a_corpus_stay(deployed: Deployment) -> None:
    olds = [generation(number, deployed) for number in range(5)]
    rule()
    removable = retention.removable()
    assert [removal.record for removal in removable] == [olds[2], olds[1], olds[0]]
    assert all(removal.size_bytes == 10 and removal.folders == (resolve(removal.record.path),) for removal in removable)  # type: ignore[union-attr]
    assert names(retention.remove(by=None)) == {olds[0].pk, olds[1].pk, olds[2].pk}
    assert [resolve(index.path).exists() for index in olds] == [False, False, False, True, True]
    assert set(IndexGeneration.objects.all()) == {olds[3], olds[4], deployed.index}
    assert IndexGeneration.every.count() == 6
    assert retention.removable() == []
    told = AuditEntry.objects.get(action="retention.edit").details
    assert told == {"enabled": True, "generations": 2, "run_days": 30, "answer_days": 0}
    entries = AuditEntry.objects.filter(action="retention.remove")
    assert {entry.target for entry in entries} == {str(index) for index in olds[:3]}
    assert [entry.details for entry in entries] == [{"bytes": 10}] * 3


def test_what_is_deployed_pinned_or_in_use_stays(deployed: Deployment) -> None:
    pinned = generation(0, deployed, pinned=True)
    used = generation(1, deployed)
    Job.objects.create(kind="evaluate", state=JobState.QUEUED, parameters={"index": used.pk})
    resumes = generation(2, deployed)
    Job.objects.create(kind="evaluate", state=JobState.INTERRUPTED, parameters={"index": resumes.pk})
    lately = generation(3, deployed)
    Deployment.activate(lately)
    active = generation(4, deployed)
    Deployment.activate(active)
    gone = generation(5, deployed)
    for number in (8, 9):
        generation(number, deployed)
    rule()
    assert names(retention.removable()) == {gone.pk}
    assert names(retention.remove(by=None)) == {gone.pk}
    assert {pinned, used, resumes, lately, active, deployed.index} <= set(IndexGeneration.objects.all())


def test_what_a_pinned_model_built_stays(deployed: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    old = old_generation(deployed)
    models = ModelVersion.objects.filter(pk=deployed.model_id)
    models.update(pinned=True)
    assert retention.removable() == []
    models.update(pinned=False)
    assert names(retention.removable()) == {old.pk}
    in_this_very_moment(monkeypatch, lambda: models.update(pinned=True))
    assert retention.remove(by=None) == [] and resolve(old.path).exists()


def test_an_earlier_deployment_keeps_its_row_but_not_its_files_for_ever(deployed: Deployment) -> None:
    first = generation(0, deployed)
    then = Deployment.activate(first)
    for number in range(1, 7):
        Deployment.activate(generation(number, deployed))
    rule()
    assert first.pk in names(retention.remove(by=None))
    then.refresh_from_db()
    assert then.index == first and then.index.removed_at is not None


def test_what_answers_stays_also_where_the_clock_was_put_back(deployed: Deployment) -> None:
    for number in range(7):
        Deployment.activate(generation(number, deployed))
    active = generation(-1, deployed)
    Deployment.activate(active)
    Deployment.objects.filter(is_active=True).update(activated_at=timezone.now() - LONG_AGO)
    rule()
    assert active.pk not in names(retention.remove(by=None)) and resolve(active.path).exists()


def rebuilt(number: int, by: str | None = "schedule 1", **values: Any) -> CorpusSnapshot:
    """A corpus with files and cached wordpieces that a job ingested, the higher its number the newer."""
    made_by = Job.objects.create(kind="ingest", state=JobState.SUCCEEDED)
    AuditEntry.record("job.start", "Ingest", by=by, job=made_by)
    named = {"name": "vital-en", "snapshot_id": f"snapshot-{number}", "path": f"corpora/vital-en/{number}"}
    corpus = another_corpus(**named | {"job": made_by} | values)
    CorpusSnapshot.objects.filter(pk=corpus.pk).update(created_at=timezone.now() + timedelta(minutes=number))
    folder = resolve(corpus.path)
    for place in (folder, tokens_folder(folder)):
        place.mkdir(parents=True)
        (place / "blocks").write_bytes(b"0123")
    return corpus


def files_of(corpus: CorpusSnapshot) -> list[bool]:
    folder = resolve(corpus.path)
    return [folder.exists(), tokens_folder(folder).exists()]


def test_corpora_that_schedules_ingested_go_with_their_last_index(deployed: Deployment) -> None:
    corpora = [rebuilt(number) for number in range(4)]
    indexes = [generation(number, deployed, corpus=corpus) for number, corpus in enumerate(corpora)]
    rule()
    listed = retention.removable()
    assert [removal.record for removal in listed] == [indexes[1], indexes[0], corpora[1], corpora[0]]
    assert listed[-1].size_bytes == 8 and str(listed[-1]) == f"Corpus {corpora[0]}"
    assert names(retention.remove(by=None)) == {removal.record.pk for removal in listed if removal.record}
    assert [files_of(corpus) for corpus in corpora] == [[False] * 2] * 2 + [[True] * 2] * 2
    assert set(CorpusSnapshot.objects.all()) == {deployed.index.corpus, *corpora[2:]}
    told = AuditEntry.objects.filter(action="retention.remove", target=f"Corpus {corpora[0]}").get()
    assert told.details == {"bytes": 8} and retention.removable() == []


def test_corpora_of_persons_and_those_in_use_stay(
    deployed: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = rebuilt(0, by=None)
    by_command = rebuilt(1, job=None)
    pinned = rebuilt(2)
    generation(2, deployed, corpus=pinned, pinned=True)
    answered = rebuilt(3)
    Deployment.activate(generation(3, deployed, corpus=answered))
    Deployment.activate(deployed.index)
    worked_on = rebuilt(4)
    Job.objects.create(kind="pretrain", state=JobState.RUNNING, parameters={"corpus": 0, "sentences": worked_on.pk})
    learnt = rebuilt(5)
    ModelVersion.objects.filter(pk=deployed.model_id).update(corpus=learnt)
    scheduled = rebuilt(6)
    Schedule.objects.create(corpus_name="vital-en", trigger="every", hours=1, corpus=scheduled)
    again = rebuilt(-1)
    Job.objects.create(kind="ingest", state=JobState.SUCCEEDED, result={"corpus": again.pk})
    assert again.job is not None
    Job.objects.filter(pk=again.job.pk).update(result={"corpus": again.pk})
    elsewhere = rebuilt(7, path=str(tmp_path / "own"))
    going, started = rebuilt(8), rebuilt(9, by="Stella")
    AuditEntry.record("schedule.run", "schedule 1", by="Stella", job=started.job)
    newest = [rebuilt(number) for number in (10, 11)]
    rule()
    assert names(retention.removable()) == {going.pk, started.pk}
    in_this_very_moment(
        monkeypatch, lambda: Job.objects.create(kind="index", state=JobState.QUEUED, parameters={"corpus": going.pk})
    )
    assert names(retention.remove(by=None)) == {started.pk}
    kept = {again, by_hand, by_command, pinned, answered, worked_on, learnt, scheduled, elsewhere, going, *newest}
    assert kept <= set(CorpusSnapshot.objects.all())
    assert all(all(files_of(corpus)) for corpus in kept)


def test_a_removal_of_a_corpus_that_was_cut_short_goes_on(deployed: Deployment) -> None:
    marked, by_hand = rebuilt(0), rebuilt(1, by=None)
    CorpusSnapshot.objects.filter(pk__in=[marked.pk, by_hand.pk]).update(removed_at=timezone.now())
    rule()
    assert names(retention.remove(by=None)) == {marked.pk}
    assert files_of(marked) == [False, False] and files_of(by_hand) == [True, True]


def test_an_index_of_several_that_a_job_works_on_stays(deployed: Deployment) -> None:
    old = old_generation(deployed)
    Job.objects.create(kind="join", state=JobState.RUNNING, parameters={"index": [deployed.index_id, old.pk]})
    assert retention.remove(by=None) == [] and resolve(old.path).exists()


def test_the_index_whose_edits_may_wait_to_be_brought_over_stays(deployed: Deployment) -> None:
    """However many deployments ago it answered; of several the latest, which is the one that is offered."""
    edited = [generation(number, deployed) for number in range(2)]
    for index in edited:
        Deployment.activate(index)
        document = {"document_id": "one", "title": "One", "format": "text", "collection": "c", "blocks": 1}
        Document.objects.create(index=index, content_hash="0", **document)
    for number in range(2, 9):
        Deployment.activate(generation(number, deployed))
    rule()
    removed = names(retention.remove(by=None))
    assert edited[0].pk in removed and edited[1].pk not in removed and resolve(edited[1].path).exists()


def test_every_corpus_keeps_its_own_newest(deployed: Deployment) -> None:
    other = another_corpus()
    olds = [generation(number, deployed) for number in range(2)]
    IndexGeneration.objects.filter(pk__in=[index.pk for index in olds]).update(corpus=other)
    for number in (2, 3):
        generation(number, deployed)
    rule()
    assert retention.removable() == []


def in_this_very_moment(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen between listing what may go and removing it."""
    found = retention.removable

    def then(*args: Any, **kwargs: Any) -> list[retention.Removal]:
        removable = found(*args, **kwargs)
        happens()
        return removable

    monkeypatch.setattr(retention, "removable", then)


@pytest.mark.parametrize("wanted", ["deployed", "pinned"])
def test_a_generation_that_is_wanted_in_this_very_moment_stays(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    old = old_generation(deployed)
    change: Callable[[], object] = (
        (lambda: Deployment.activate(old))
        if wanted == "deployed"
        else lambda: IndexGeneration.objects.filter(pk=old.pk).update(pinned=True)
    )
    in_this_very_moment(monkeypatch, change)
    assert retention.remove(by=None) == []
    assert resolve(old.path).exists() and not AuditEntry.objects.filter(action="retention.remove").exists()


@pytest.mark.parametrize("wanted", ["resumed", "pinned"])
def test_a_run_folder_that_is_wanted_in_this_very_moment_stays(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    stopped = job(JobState.STOPPED)
    rule()
    change: Callable[[], object] = (
        stopped.resume if wanted == "resumed" else lambda: Job.objects.filter(pk=stopped.pk).update(pinned=True)
    )
    in_this_very_moment(monkeypatch, change)
    assert retention.remove(by=None) == []
    assert (stopped.run_dir / "log.txt").exists()


def test_what_is_removed_in_this_very_moment_is_neither_deployed_nor_worked_on(deployed: Deployment) -> None:
    old = old_generation(deployed)
    retention.remove(by=None)
    with pytest.raises(RealmError, match="have been removed"):  # old was read before
        Deployment.activate(old)
    assert Deployment.active() == deployed


def test_a_job_looks_at_its_index_again_when_it_starts(deployed: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    old = old_generation(deployed)
    questions = question_set()
    before = Kind.written

    def then(self: Kind, given: Parameters) -> dict[str, Any]:
        retention.remove(by=None)
        return before(self, given)

    monkeypatch.setattr(Kind, "written", then)
    with pytest.raises(ParameterError, match="index"):
        jobs.start("evaluate", {"index": old.pk, "questions": questions.pk}, by=None)
    assert not Job.objects.exists()


def test_what_a_removal_that_was_cut_short_has_left_goes_with_the_next(deployed: Deployment) -> None:
    marked = old_generation(deployed)
    IndexGeneration.objects.filter(pk=marked.pk).update(removed_at=timezone.now())
    hidden = [resolve("indexes/.gen.removed"), resolve("runs/.job.removed")]
    for folder in hidden:
        folder.mkdir(parents=True)
    assert names(retention.removable()) == {marked.pk}
    retention.remove(by=None)
    assert not resolve(marked.path).exists() and not any(folder.exists() for folder in hidden)
    assert retention.removable() == []


def test_an_index_that_cannot_be_removed_does_not_keep_others(deployed: Deployment) -> None:
    olds = [generation(number, deployed) for number in range(4)]
    rule()
    resolve("indexes/.old-1.removed").write_text("in the place of the hidden folder")
    assert names(retention.remove(by=None)) == {olds[0].pk}
    assert [resolve(index.path).exists() for index in olds] == [False, True, True, True]
    resolve("indexes/.old-1.removed").unlink()
    assert names(retention.remove(by=None)) == {olds[1].pk}


def test_abandoned_builds_are_removed(deployed: Deployment) -> None:
    rule()
    for place in ("indexes", "corpora"):
        for name, ago in ((".old.partial", LONG_AGO), (".new.partial", timedelta(0))):
            shard = resolve(place) / name / "shard"
            shard.parent.mkdir(parents=True)
            shard.write_text("0123")
            changed = (timezone.now() - ago).timestamp()
            os.utime(shard, (changed, changed))
    stopped = Job.objects.create(kind="index", state=JobState.INTERRUPTED)
    assert retention.removable() == []
    Job.objects.filter(pk=stopped.pk).update(state=JobState.STOPPED)
    assert [removal.size_bytes for removal in retention.remove(by=None)] == [4, 4]
    left = [folder.name for place in ("indexes", "corpora") for folder in resolve(place).glob(".*")]
    assert left == [".new.partial"] * 2


def test_nothing_is_removed_while_a_backup_is_written(deployed: Deployment) -> None:
    old = old_generation(deployed)
    with keep_files(), pytest.raises(RealmError, match="A backup is being written"):
        retention.remove(by=None)
    assert resolve(old.path).exists()
    retention.remove(by=None)
    assert not resolve(old.path).exists()


def test_a_generation_that_was_removed_and_is_built_again_is_there(deployed: Deployment, tmp_path: Path) -> None:
    old = generation(0, deployed)
    IndexGeneration.every.filter(pk=old.pk).update(removed_at=timezone.now())
    told = {"generation": old.generation, "snapshot_id": deployed.index.corpus.snapshot_id, "rows": 3, "dim": 2}
    (tmp_path / "manifest.json").write_text(str({**told, "model_hash": "m", "block_hash": "b"}).replace("'", '"'))
    assert record_index(tmp_path, model=deployed.model) == old
    assert IndexGeneration.objects.get(pk=old.pk).removed_at is None


def test_run_folders_of_long_ago_go_and_rows_stay(deployed: Deployment) -> None:
    old = [job(state) for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)]
    kept = [job(ago=timedelta(days=29)), job(pinned=True), job(JobState.RUNNING), job(JobState.QUEUED)]
    kept.append(job(JobState.INTERRUPTED))  # it resumes, by itself or when a person has looked at it
    rule()
    assert names(retention.remove(by=None)) == {one.pk for one in old}
    assert not any(one.run_dir.exists() for one in old) and all(one.run_dir.exists() for one in kept)
    assert Job.objects.count() == 8


def test_a_part_s_run_folder_stays_while_its_whole_goes_on_and_the_other_way_round(deployed: Deployment) -> None:
    whole = job(JobState.RUNNING)
    part = job(parent=whole)
    stopped = job(JobState.STOPPED)
    builder = job(JobState.RUNNING, parent=stopped)
    pinned = job(pinned=True)
    part_of_pinned = job(parent=pinned)
    rule()
    assert retention.remove(by=None) == []
    assert all(one.run_dir.exists() for one in (whole, part, stopped, builder, pinned, part_of_pinned))


def test_a_rule_that_keeps_no_generation_is_refused(deployed: Deployment) -> None:
    with pytest.raises(ValidationError):
        rule(generations=0)
    assert RetentionRule.current().generations == 3


def test_questions_without_an_account_are_forgotten_in_time(deployed: Deployment, member: Person) -> None:
    now = timezone.now()
    ages = {"new": 9, "old": 11, "of an account": 11, "accepted": 11, "refused": 11}
    answers = {name: stored.store(stored.payload() | {"question": name}) for name in ages}
    for name, answer in answers.items():
        AskedAnswer.objects.filter(pk=answer.pk).update(created_at=now - timedelta(days=ages[name]))
    AskedAnswer.objects.filter(question="of an account").update(asker=member.user)
    for name, verdict in (("accepted", Review.ACCEPTED), ("refused", Review.REFUSED)):
        Feedback.objects.create(answer=answers[name], session_key=name, right=True, review=verdict)
    rule(answer_days=0)
    assert retention.forget_answers(by="retention", now=now) == 0
    rule(answer_days=10, enabled=False)
    assert retention.forget_answers(by="retention", now=now) == 2
    left = set(AskedAnswer.objects.values_list("question", flat=True))
    assert left == {"new", "of an account", "accepted"}
    entry = AuditEntry.objects.filter(action="answers.forget").get()
    assert entry.details["answers"] == 2 and Feedback.objects.count() == 1
