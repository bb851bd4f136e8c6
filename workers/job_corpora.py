"""What a job reads of the corpora that it is given: nothing that was purged, and the same at all its attempts.

    receipts noted → its indexes masked → their states noted → nothing purged meanwhile → the process is started

An index is read with what was edited above it, so what was purged is masked there. A snapshot that is read as it is
(by what trains on a corpus or finds by BM25) is refused where it holds a purged document. An index may be built of
one: nobody reads that before it is masked, either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.files import read_json, remove_folder, write_json
from realm_core.living.state import LivingState
from realm_core.living.tasks import COPY
from webapp.models import CorpusSnapshot, IndexGeneration, Job
from webapp.purges.masks import mask_purged, purged_in
from webapp.purges.service import receipts_of
from webapp.serving.living import state_of
from webapp.serving.states import EditConflict
from webapp.text import counted


class PurgedMeanwhile(RealmError):
    """Documents were purged since the first attempt at a job, which may have read them."""

    def __init__(self, index: IndexGeneration) -> None:
        super().__init__(f"Documents of {index.corpus.name} were purged since this job began; start another one.")


def refuse_purged(corpora: Iterable[CorpusSnapshot]) -> None:
    """RealmError where a snapshot that is to be read as it is holds a document that was purged."""
    for corpus in corpora:
        if number := purged_in(corpus):
            raise RealmError(
                f"{corpus} still holds {counted(number, 'purged document')}, so it is read no more. Deploy an index "
                "of it, fold that under Documents, and start this with the corpus that the fold makes."
            )


def first_states(job: Job, indexes: Sequence[IndexGeneration]) -> tuple[Path, ...]:
    """The files of the states above some indexes, as they were at the first attempt, with what was purged masked.

    PurgedMeanwhile where that is not all that was purged by now.
    """
    files, rows_file, receipts_file = state_files(job, len(indexes)), _rows_file(job), _receipts_file(job)
    begins = not all(file.exists() for file in files)
    if begins:
        job.run_dir.mkdir(parents=True, exist_ok=True)
        write_json(receipts_file, _receipts(indexes))  # before the states: a purge in between counts as later
        for index in indexes:
            try:
                mask_purged(index, by=job.created_by or "job")
            except EditConflict:
                raise RealmError("Documents are being edited at this moment; start this again.") from None
        rows = [index.state_now() for index in indexes]
        write_json(rows_file, [row and row.pk for row in rows])
        for file, index, row in zip(files, indexes, rows, strict=True):
            state_of(index, row).save(file)
    if (purged := purged_since(job, indexes)) is not None:
        remove_folder(job.run_dir / COPY)
        raise PurgedMeanwhile(purged)
    return files


def purged_since(job: Job, indexes: Sequence[IndexGeneration]) -> IndexGeneration | None:
    """The first of the indexes from whose corpus documents were purged since the first attempt, if there is one.

    A job that an earlier version began has noted no receipts, so every purge counts as later.
    """
    file = _receipts_file(job)
    known = read_json(file) if file.exists() else {}
    for index in indexes:
        if not set(known.get(index.generation, ())).issuperset(receipts_of(index)):
            return index
    return None


def first_rows(job: Job) -> list[int | None]:
    """The rows of the states of `first_states`; None for an index above which nothing was edited."""
    rows: list[int | None] = read_json(_rows_file(job))
    return rows


def first_state_id(job: Job) -> str:
    """The id of the state of a job's only index, "" where nothing was edited above it."""
    for file in state_files(job, 1):
        if file.exists() and (state := LivingState.load(file)).has_edits:
            return state.id
    return ""


def forget(job: Job) -> list[LivingState]:
    """Let the next attempt begin with the states that are current then; those of the first one, if it got so far."""
    states = [LivingState.load(file) for file in sorted(job.run_dir.glob("state-[0-9]*.json"))]
    for file in (*job.run_dir.glob("state-*.json"), _rows_file(job), _receipts_file(job)):
        file.unlink(missing_ok=True)
    return states


def state_files(job: Job, indexes: int) -> tuple[Path, ...]:
    """Where the states are; `webapp/documents/sweeping.py` keeps their segments."""
    return tuple(job.run_dir / f"state-{number}.json" for number in range(indexes))


def _rows_file(job: Job) -> Path:
    return job.run_dir / "rows.json"


def _receipts_file(job: Job) -> Path:
    return job.run_dir / "receipts.json"


def _receipts(indexes: Sequence[IndexGeneration]) -> dict[str, list[str]]:
    return {index.generation: receipts_of(index) for index in indexes}
