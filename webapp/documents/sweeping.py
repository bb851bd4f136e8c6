"""Segments of earlier corpus states: which of them are still needed, and the removal of the others.

Needed are those of the current states, of the states that were current within the last day (a process may be about to
open one), of the states that kept answers were read from, as long as their index is there, and of unfinished jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from django.contrib.auth.models import User
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.living.state import LivingState
from webapp.artefacts.removing import SUPERSEDED_KEPT
from webapp.models import AskedAnswer, AuditEntry, CorpusState, IndexGeneration, Job, JobKind
from webapp.models.job_states import UNFINISHED
from webapp.serving.living import corpus_id, folders_of, store_of
from webapp.storage.places import lock_for_removal

log = logging.getLogger(__name__)


def sweep(*, by: User | str | None, now: datetime | None = None) -> list[str]:
    """Remove the segments that nothing needs; returns what was removed. RealmError while a backup is written.

    A corpus that is being edited, or of which something cannot be read, is left to the next sweep.
    """
    before = (now or timezone.now()) - SUPERSEDED_KEPT
    swept = []
    with lock_for_removal():
        for folder, indexes in _indexes_by_folder().items():
            names: list[str] = []
            try:
                if (folder / "segments").is_dir():
                    for name in store_of(indexes[0]).sweep(partial(_needed, indexes, before), before.timestamp()):
                        names.append(name)  # one by one, so that those removed before an error are recorded
            except (RealmError, OSError) as error:
                log.warning("The segments of %s are swept later: %s", folder.name, error)
            if names:
                AuditEntry.record("segments.remove", folder.name, by=by, segments=names)
            swept += [f"Segment {name} of {folder.name}" for name in names]
    return swept


def earlier(index: IndexGeneration) -> int:
    """How many segments lie in the folder of an index's edits that its current state does not name."""
    folder, state = folders_of(index)[0] / "segments", index.current_state
    named = set() if state is None else {*LivingState.from_json(state.state).segments}
    return sum(1 for one in folder.glob("[!.]*") if one.name not in named)


def _indexes_by_folder() -> dict[Path, list[IndexGeneration]]:
    found: dict[Path, list[IndexGeneration]] = {}
    for index in IndexGeneration.every.select_related("corpus", "folded_into"):
        found.setdefault(folders_of(index)[0], []).append(index)
    return found


def _needed(indexes: Sequence[IndexGeneration], before: datetime) -> set[str]:
    """The names of the segments that one of the indexes, which share a folder, needs.

    before: states that were current since count. Kept answers are many, and looked at only for segments that nothing
    else needs.
    """
    states = [LivingState.from_json(row.state) for index in indexes for row in _recent_states(index, before)]
    needed = {segment for state in [*states, *_states_of_jobs(indexes)] for segment in state.segments}
    others = {path.name for path in (folders_of(indexes[0])[0] / "segments").glob("[!.]*")} - needed
    for index in indexes:
        if index.removed_at is None and index.corpus.removed_at is None:
            needed |= _segments_of_answers(index, others - needed)
    return needed


def _recent_states(index: IndexGeneration, before: datetime) -> Iterator[CorpusState]:
    rows = index.states.all()
    yield from rows.filter(is_current=True)
    yield from rows.filter(is_current=False, created_at__gte=before)
    if index.folded_into is None or index.folded_into.created_at >= before:
        yield from rows.filter(created_at__lt=before).order_by("-pk")[:1]  # current until the next one, or the fold


def _segments_of_answers(index: IndexGeneration, segments: set[str]) -> set[str]:
    """Those of the segments that a state names which kept answers were read from."""
    found: set[str] = set()
    until = timezone.now()
    for row in index.states.order_by("-pk").iterator():
        if segments <= found:
            break
        named = segments.intersection(LivingState.from_json(row.state).segments)
        if not named <= found and _was_read(index, row, until):
            found |= named
        until = row.created_at
    return found


def _was_read(index: IndexGeneration, row: CorpusState, until: datetime) -> bool:
    """Whether a kept answer was read from a state, which was current until a moment; clocks may differ by a day."""
    answers = AskedAnswer.objects.filter(payload__corpus=corpus_id(index, row))
    spans = (row.created_at, until), (row.created_at - SUPERSEDED_KEPT, until + SUPERSEDED_KEPT)
    return any(answers.filter(created_at__range=span).exists() for span in spans)


def _states_of_jobs(indexes: Sequence[IndexGeneration]) -> Iterator[LivingState]:
    """The states that unfinished jobs work on, or that folds have made. RealmError for damaged files."""
    pks = {index.pk for index in indexes}
    for job in Job.objects.filter(state__in=UNFINISHED).defer("log"):
        if pks.isdisjoint(job.records("index")):
            continue
        yield from (LivingState.load(file) for file in sorted(job.run_dir.glob("state-*.json")))
        if job.kind == JobKind.FOLD and (result := job.run_dir / "result.json").exists():
            told = read_json(result)
            if not isinstance(told, dict) or "state" not in told:
                raise RealmError(f"{result} names no corpus state.")
            yield LivingState.from_json(told["state"])
