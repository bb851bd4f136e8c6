"""Joining: several corpora, with what was edited above their indexes, become one corpus and one index.

job `join` (realm_core.living.joining, in a process of its own) → the rows of both → deployed like any other

The job joins the states that are current at its first attempt. What is edited above a part later is not in the joined
corpus: join again, under the same name, and what was edited above the joined one is brought over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from realm_core.files import read_json, write_json
from realm_core.object_store import remove_published
from webapp.models import IndexGeneration, Job
from webapp.purges.masks import purged_ids
from webapp.serving.living import folders_of, state_of


@dataclass(frozen=True)
class JoinFiles:
    """The input files of a join, in its run folder: a state for each index, ids of purged documents by corpus."""

    states: tuple[Path, ...]
    purged: Path
    _rows: Path

    @classmethod
    def of(cls, job: Job, indexes: Sequence[IndexGeneration]) -> JoinFiles:
        """The files of a job, whether they exist yet or not."""
        states = tuple(job.run_dir / f"state-{number}.json" for number in range(len(indexes)))
        return cls(states, job.run_dir / "purged.json", job.run_dir / "rows.json")

    def write(self, indexes: Sequence[IndexGeneration]) -> None:
        """Write them as things stand, unless an earlier attempt did: all attempts make the same base."""
        if self._rows.exists():
            return
        self._rows.parent.mkdir(parents=True, exist_ok=True)
        rows = [index.state_now() for index in indexes]
        for file, index, row in zip(self.states, indexes, rows, strict=True):
            state_of(index, row).save(file)
        write_json(self.purged, _purged(indexes))
        write_json(self._rows, [row and row.pk for row in rows])  # last: with it, all are there

    def rows(self) -> list[int | None]:
        """The rows of the states; None: nothing was edited above that index."""
        rows: list[int | None] = read_json(self._rows)
        return rows

    def out_of_date(self, indexes: Sequence[IndexGeneration]) -> bool:
        """Whether documents were purged since."""
        return bool(read_json(self.purged) != _purged(indexes))

    def discard(self, snapshot: Path, generation: Path) -> None:
        """Remove what was made of them; the next attempt joins what is current then."""
        from realm_core.corpus.store import remove_snapshot  # loads pyarrow

        remove_published(generation)
        remove_snapshot(snapshot)
        self._rows.unlink(missing_ok=True)


def _purged(indexes: Sequence[IndexGeneration]) -> dict[str, list[str]]:
    return {folders_of(index)[0].name: sorted(purged_ids(index)) for index in indexes}
