"""Joining: the living documents of several corpora become one base, which a question searches together.

The same as a fold (`publishing.py`), of several states: documents one corpus behind the other, in the given order.

- Of equal blocks (same title and text) the first counts, as if all had been ingested together.
- A document keeps its id. Where an earlier corpus has another document of that id, it becomes CORPUS:ID. It is left out
  where title and text are the same, too, and no block of it is left.
- A document without a collection gets the name of its corpus as one, so that a question can be kept to a corpus.

Legend: A documents and N blocks of a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from realm_core.corpus.records import LONGEST_ID, LONGEST_LICENCE
from realm_core.corpus.repetition import FirstOnly, IdPrefixes, id_digest, id_prefixes, recurring
from realm_core.errors import RealmError
from realm_core.index.choice import SearchKind
from realm_core.index.corpus_of import corpus_of
from realm_core.index.manifest import read_manifest
from realm_core.living.publishing import BasePart, NewBase, PublishedBase, keep_words, publish_base, publishing
from realm_core.living.state import Base, LivingState, joined_base, joined_name
from realm_core.living.store import Store
from realm_core.living.tasks import LONGEST_NAME, Join
from realm_core.living.view import CorpusView
from realm_core.object_store import get_folder
from realm_core.runs.activity import Activity

SOURCE: Final = "join"  # of the snapshot, in the place of what was ingested
_IDS_AT_ONCE: Final = 1 << 16

# A state, and the store that has its files.
Corpus = tuple[Store, LivingState]


def main(task: Join, activity: Activity) -> None:
    """Join the corpora of some indexes. The result names both folders."""
    corpora = [_corpus(task, place, activity) for place in range(len(task.index))]
    name = task.corpus_name or joined_name([state for _, state in corpora])
    _check_name(name)  # before it becomes a folder
    store = Store(task.output / "living" / name, corpora=task.output / "corpora", indexes=task.output / "indexes")
    joined = join(store, name, corpora, activity, search=task.search)
    activity.say(f"The index is {joined.generation}, of the corpus {joined.snapshot}.")
    activity.result({"snapshot": str(joined.snapshot), "generation": str(joined.generation)})


def _corpus(task: Join, place: int, activity: Activity) -> Corpus:
    """The state above one of the indexes: the given one, or the index's own corpus."""
    index = task.index[place]
    snapshot = get_folder(task.corpus[place], activity) if task.corpus else corpus_of(index, None)
    name = snapshot.absolute().parent.name
    state = LivingState(name, str(read_manifest(index).get("block_hash")), Base(snapshot.name, index.name))
    if task.state:
        state = LivingState.load(task.state[place])
        if state.base != Base(snapshot.name, index.name) or state.name != name:
            raise RealmError(f"{task.state[place]} is no state above the index {index}.")
    return Store(task.output / "living" / name, corpora=snapshot.parent.parent, indexes=index.parent), state


def join(
    store: Store, name: str, corpora: Sequence[Corpus], activity: Activity, *, search: SearchKind = "auto"
) -> PublishedBase:
    """Publish the base of all corpora in a store, under a name of its own; an existing one is returned at once.

    `RealmError` where they cannot be one corpus.
    """
    states = [state for _, state in corpora]
    _check_apart(name, states)
    _check_alike(states)
    with publishing(store):
        views = [own.view(state) for own, state in corpora]
        _check_collections(name, views)
        activity.say(f"Joining {' and '.join(state.name for state in states)}.")
        new = NewBase(joined_base(name, states, search), _parts(views, activity), _about(name, views), search)
        made = publish_base(store, new, activity)
        keep_words(new, made, activity)
        return made


# ---- what cannot be joined


def _check_apart(name: str, states: Sequence[LivingState]) -> None:
    if len(states) < 2:
        raise RealmError("A join is of two or more indexes.")
    names = [state.name for state in states]
    for place, state in enumerate(states):
        if state.name in names[:place]:
            raise RealmError(
                f"The corpus {state.name} is named twice: a joined corpus tells its documents apart by the names of "
                "their corpora."
            )
    _check_name(name)


def _check_name(name: str) -> None:
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(name) > LONGEST_NAME:
        raise RealmError(
            f"{name!r} cannot be the joined corpus's name: it becomes a folder's name, of at most {LONGEST_NAME} "
            "characters. Give another one."
        )


def _check_alike(states: Sequence[LivingState]) -> None:
    first = states[0]
    for state in states[1:]:
        if state.block_hash != first.block_hash:
            raise RealmError(
                f"The index of {state.name} was built by another block embedder ({state.block_hash}) than that of "
                f"{first.name} ({first.block_hash}); build one of {state.name} by the model of the other."
            )


def _check_collections(name: str, views: Sequence[CorpusView]) -> None:
    """A name stands for one corpus: no other corpus may have a collection of its name, nor the joined one."""
    for place, view in enumerate(views):
        for other in (one for number, one in enumerate(views) if number != place):
            if view.state.name in other.collections:
                raise RealmError(
                    f"The corpus {other.state.name} has a collection {view.state.name}, which is the name of another "
                    "corpus: what is in it could not be told from that corpus."
                )
        if name == view.state.name or name in view.collections:
            raise RealmError(f"The joined corpus needs a name of its own: {name} is a collection in it.")


# ---- documents and blocks


def _parts(views: Sequence[CorpusView], activity: Activity) -> list[BasePart]:
    parts = [BasePart.whole(view) for view in views]
    parts = [replace(part, live_rows=rows_N) for part, rows_N in zip(parts, _first_rows(views, activity), strict=True)]
    return [replace(part, collection=part.view.state.name) for part in _called_apart(parts, activity)]


def _first_rows(views: Sequence[CorpusView], activity: Activity) -> list[np.ndarray[Any, np.dtype[np.bool_]]]:
    """bool [N] of each view: the living blocks that no earlier view has."""
    found: list[IdPrefixes] = []
    for view in views:
        for first, ids in _ids(view, "block"):
            activity.check()
            found.append(id_prefixes(ids)[view.live_rows[first : first + len(ids)]])
    first_only, kept = FirstOnly(recurring(found)), []
    for view in views:
        rows_N = view.live_rows.copy()
        for first, ids in _ids(view, "block"):
            activity.check()
            own = slice(first, first + len(ids))
            rows_N[own] = first_only.mask(ids, rows_N[own])
        kept.append(rows_N)
    return kept


def _called_apart(parts: Sequence[BasePart], activity: Activity) -> list[BasePart]:
    """Parts whose documents have different ids."""
    found: list[IdPrefixes] = []
    for part in parts:
        for first, ids in _ids(part.view, "article"):
            activity.check()
            found.append(id_prefixes([id_digest(one) for one in ids])[part.live_articles[first : first + len(ids)]])
    repeated = recurring(found)
    owners: dict[str, list[tuple[CorpusView, int]]] = {}  # of the ids that recur: who has it, the first in front
    apart = []
    for part in parts:
        view, articles_A = part.view, part.live_articles.copy()
        new_ids: dict[int, str] = {}
        for first, ids in _ids(view, "article"):
            activity.check()
            recurs = np.isin(id_prefixes([id_digest(one) for one in ids]), repeated)
            for row in (np.flatnonzero(recurs & articles_A[first : first + len(ids)]) + first).tolist():
                earlier = owners.setdefault(ids[row - first], [])
                if not _rows_of(part, row).any() and any(_same(view, row, *one) for one in earlier):
                    articles_A[row] = False
                    continue
                if earlier:
                    new_ids[row] = _new_id(view.state.name, ids[row - first])
                earlier.append((view, row))
        apart.append(replace(part, live_articles=articles_A, new_ids=new_ids))
    _check_new_ids(apart)
    return apart


def _new_id(name: str, document_id: str) -> str:
    whole = f"{name}:{document_id}"
    return whole if len(whole) <= LONGEST_ID else f"{name}:{id_digest(document_id)}"


def _check_new_ids(parts: Sequence[BasePart]) -> None:
    new_ids = [one for part in parts for one in part.new_ids.values()]
    taken = [one for part in parts for one in part.view.with_ids(new_ids)]
    if taken:
        raise RealmError(
            f"Two documents would have the id {taken[0]!r} in the joined corpus; call one of them otherwise."
        )


def _same(view: CorpusView, row: int, other_view: CorpusView, other_row: int) -> bool:
    one, other = view.article(row), other_view.article(other_row)
    return (one.title, one.text) == (other.title, other.text)


def _rows_of(part: BasePart, row: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of a document's blocks, those of an article row, the base takes."""
    layer, own_row = part.view.place_of(row)
    blocks, first = layer.rows_of(own_row), part.view.rows_of_layer(layer).start
    return part.live_rows[first + blocks.start : first + blocks.stop]


def _ids(view: CorpusView, of: str) -> Iterator[tuple[int, list[str]]]:
    """The ids of all blocks or articles of a view, living and dead, with the row of the first in each piece."""
    first = 0
    for layer in view.layers:
        count, documents = len(layer) if of == "block" else layer.articles, layer.article_table.column("id")
        for start in range(0, count, _IDS_AT_ONCE):
            some = range(start, min(start + _IDS_AT_ONCE, count))
            ids: list[str] = (
                layer.block_ids(some) if of == "block" else documents.slice(some.start, len(some)).to_pylist()
            )
            yield first, ids
            first += len(ids)


# ---- what the snapshot says of itself


def _about(name: str, views: Sequence[CorpusView]) -> dict[str, Any]:
    """Fields of the manifest. Every document has its own licence, attribution and language; these are of the whole."""
    manifests = [view.layers[0].snapshot.manifest for view in views]

    def together(field: str) -> str:
        return "; ".join(dict.fromkeys(value for one in manifests if (value := str(one.get(field, "")))))

    licence = together("licence")
    return {
        "name": name,
        "source": SOURCE,
        "language": manifests[0].get("language", ""),
        "licence": licence if len(licence) <= LONGEST_LICENCE else "",
        "attribution": together("attribution"),
        "fingerprint": f"join of {', '.join(view.state.id for view in views)}",
        "joined": [
            {"name": view.state.name, "state": view.state.id, **(asdict(view.state.base) if view.state.base else {})}
            for view in views
        ],
    }
