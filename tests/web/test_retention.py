"""What retention removes, and what it never touches."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from tests.web.pages import stored
from webapp.models import AuditEntry, Deployment, IndexGeneration, Job, JobState, RetentionRule
from webapp.services import retention
from webapp.services.places import resolve
from webapp.services.registering import record_index

pytestmark = pytest.mark.django_db
LONG_AGO = timedelta(days=40)


@pytest.fixture
def deployed() -> Deployment:
    return stored.deployment()


def generation(number: int, deployed: Deployment, **values: Any) -> IndexGeneration:
    """A generation with files, the higher its number the newer."""
    index = IndexGeneration.objects.create(
        generation=f"old-{number}",
        model=deployed.model,
        corpus=deployed.index.corpus,
        path=f"indexes/old-{number}",
        rows=3,
        dim=2,
        **values,
    )
    folder = resolve(index.path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vectors").write_bytes(b"0123456789")
    IndexGeneration.objects.filter(pk=index.pk).update(created_at=timezone.now() + timedelta(minutes=number))
    return index


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
    return retention.change_rule(**{"enabled": True, "generations": 2, "run_days": 30, "by": None, **values})


def test_the_newest_generations_of_a_corpus_stay(deployed: Deployment) -> None:
    olds = [generation(number, deployed) for number in range(5)]
    rule()
    removable = retention.removable()
    assert [removal.record for removal in removable] == [olds[2], olds[1], olds[0]]
    assert all(removal.size_bytes == 10 and removal.folder == resolve(removal.record.path) for removal in removable)  # type: ignore[union-attr]
    assert names(retention.remove(by=None)) == {olds[0].pk, olds[1].pk, olds[2].pk}
    assert [resolve(index.path).exists() for index in olds] == [False, False, False, True, True]
    assert set(IndexGeneration.objects.all()) == {olds[3], olds[4], deployed.index}
    assert IndexGeneration.every.count() == 6
    assert retention.removable() == []
    entry = AuditEntry.objects.get(action="retention.remove")
    assert entry.details["bytes"] == 30 and len(entry.details["removed"]) == 3


def test_what_is_deployed_pinned_or_in_use_stays(deployed: Deployment) -> None:
    pinned = generation(0, deployed, pinned=True)
    used = generation(1, deployed)
    Job.objects.create(kind="evaluate", state=JobState.QUEUED, parameters={"index": used.pk})
    lately = generation(2, deployed)
    Deployment.activate(lately)
    active = generation(3, deployed)
    Deployment.activate(active)
    gone = generation(4, deployed)
    for number in (8, 9):
        generation(number, deployed)
    rule()
    assert names(retention.removable()) == {gone.pk}
    assert names(retention.remove(by=None)) == {gone.pk}
    assert {pinned, used, lately, active, deployed.index} <= set(IndexGeneration.objects.all())


def test_an_earlier_deployment_keeps_its_row_but_not_its_files_for_ever(deployed: Deployment) -> None:
    first = generation(0, deployed)
    then = Deployment.activate(first)
    for number in range(1, 7):
        Deployment.activate(generation(number, deployed))
    rule()
    assert first.pk in names(retention.remove(by=None))
    then.refresh_from_db()
    assert then.index == first and then.index.removed_at is not None


def test_a_generation_that_is_wanted_in_this_very_moment_stays(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    olds = [generation(number, deployed) for number in range(3)]
    rule()
    found = retention.removable

    def deploys_one(*args: Any, **kwargs: Any) -> list[retention.Removal]:
        removable = found(*args, **kwargs)
        Deployment.activate(olds[0])
        return removable

    monkeypatch.setattr(retention, "removable", deploys_one)
    assert retention.remove(by=None) == []
    assert resolve(olds[0].path).exists()


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
    rule()
    assert names(retention.remove(by=None)) == {one.pk for one in old}
    assert not any(one.run_dir.exists() for one in old) and all(one.run_dir.exists() for one in kept)
    assert Job.objects.count() == 7


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


def test_a_rule_of_nothing_is_refused(deployed: Deployment) -> None:
    with pytest.raises(ValidationError):
        rule(generations=0)
    assert RetentionRule.current().generations == 3
