"""One state of a living corpus: a base, segments in order, and tombstones. Plain data with an id.

A **base** is a corpus snapshot and its index generation. A **segment** has the documents of one edit with their blocks
and vectors. A **tombstone** marks a removed document of a base or segment, by its row there. All of them are immutable,
so a state is a few names, and its id is a hash of these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import plain_name, read_json, write_json

FORMAT = 1
BASE = "base"  # the base's name among the layers


@dataclass(frozen=True)
class Base:
    """The names of a snapshot's folder and of its generation's."""

    snapshot: str
    generation: str


@dataclass(frozen=True)
class LivingState:
    """name: of the corpus. block_hash: of the block embedder of all vectors.

    segments: their ids, the earliest first. tombstones: rows of removed documents by layer; the key of the base is
    `BASE`, that of a segment its id. purges: the number of purges so far.
    """

    name: str
    block_hash: str
    base: Base | None = None
    segments: tuple[str, ...] = ()
    tombstones: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    purges: int = 0

    @property
    def id(self) -> str:
        """16 hex digits: the same for the same base, segments and tombstones."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def layers(self) -> tuple[str, ...]:
        """The base, if there is one, and the segments: the order of documents and of rows."""
        return (*((BASE,) if self.base else ()), *self.segments)

    @property
    def has_edits(self) -> bool:
        return bool(self.segments or self.tombstones)

    def changed(self, dead: Mapping[str, Sequence[int]], documents_of: Mapping[str, int], *added: str) -> LivingState:
        """The state with more tombstones, and with segments appended.

        documents_of: the number of documents by layer; a segment without a living one is dropped.
        """
        tombstones = {
            layer: tuple(sorted({*self.tombstones.get(layer, ()), *dead.get(layer, ())}))
            for layer in self.layers
            if self.tombstones.get(layer) or dead.get(layer)
        }
        empty = {layer for layer, rows in tombstones.items() if layer != BASE and len(rows) == documents_of[layer]}
        return replace(
            self,
            segments=(*(segment for segment in self.segments if segment not in empty), *added),
            tombstones={layer: rows for layer, rows in tombstones.items() if layer not in empty},
        )

    def with_again(
        self, rows: Mapping[str, Collection[int]], documents_of: Mapping[str, int], order: Sequence[str]
    ) -> LivingState:
        """The state without some tombstones, and with the segments back that it does not name.

        rows: of the documents that live again, by layer. order: of all segments, those that return included.
        """
        tombstones = dict(self.tombstones)
        for layer, living in rows.items():
            dead = self.tombstones.get(layer, ()) if layer in self.layers else range(documents_of[layer])
            tombstones[layer] = tuple(row for row in dead if row not in living)
        wanted = {*self.segments, *rows}
        return replace(
            self,
            segments=tuple(segment for segment in order if segment in wanted),
            tombstones={layer: dead for layer, dead in tombstones.items() if dead},
        )

    def to_json(self) -> dict[str, Any]:
        """The form in a database or a file."""
        return {
            "format": FORMAT,
            "name": self.name,
            "block_hash": self.block_hash,
            "base": asdict(self.base) if self.base else None,
            "segments": list(self.segments),
            "tombstones": {layer: list(rows) for layer, rows in sorted(self.tombstones.items())},
            "purges": self.purges,
        }

    @classmethod
    def from_json(cls, data: Any) -> LivingState:
        """The inverse of `to_json`; `RealmError`, as a continuation of a place, for anything else."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise RealmError(f"is not a corpus state of format {FORMAT}.")
        try:
            base = data["base"]
            state = cls(
                name=plain_name(data["name"]),
                block_hash=_text(data["block_hash"]),
                base=None if base is None else Base(plain_name(base["snapshot"]), plain_name(base["generation"])),
                segments=tuple(plain_name(segment) for segment in data["segments"]),
                tombstones={layer: tuple(map(_count, rows)) for layer, rows in data["tombstones"].items()},
                purges=_count(data["purges"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise RealmError("does not describe a corpus state.") from None
        if not state.tombstones.keys() <= set(state.layers) or len(set(state.layers)) != len(state.layers):
            raise RealmError("does not describe a corpus state: its layers contradict one another.")
        return state

    def save(self, path: Path) -> None:
        """Write the state to a file, completely or not at all."""
        write_json(path, self.to_json(), sealed=True)

    @classmethod
    def load(cls, path: Path) -> LivingState:
        """The state in a file; `RealmError` if it is missing, damaged or something else."""
        data = read_json(path)
        try:
            return cls.from_json(data)
        except RealmError as error:
            raise RealmError(f"{path} {error}") from None


def folded_base(state: LivingState) -> Base:
    """The base that a state with edits is folded into."""
    return Base(f"{state.id}f", f"{state.id}f-{state.block_hash}")


def joined_name(states: Sequence[LivingState]) -> str:
    """What the joined corpus is called where nobody says it."""
    return "-".join(state.name for state in states)


def joined_base(name: str, states: Sequence[LivingState], search: str) -> Base:
    """The base that states are joined in, under a name. search: how its blocks are found, as it was asked for."""
    digest = hashlib.sha256(json.dumps([name, *(state.id for state in states)]).encode()).hexdigest()[:16]
    wanted = "" if search == "auto" else f"-{search}"
    return Base(f"{digest}j", f"{digest}j-{states[0].block_hash}{wanted}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value
