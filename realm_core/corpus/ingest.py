"""Source → articles → blocks → snapshot: `python -m realm_core ingest`.

One process reads the source in order and sends batches of raw articles to a pool that cleans, packs and hashes them;
the results return in order as Arrow bytes and are written in parts. The number of batches in flight is bounded, so
memory does not grow with the source. After a crash, the next run with the same source and options resumes after the
last finished part.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from realm_core.corpus import tables
from realm_core.corpus.packing import MAX_TITLE_WORDPIECES, MAX_WORDPIECES
from realm_core.corpus.sources import ArticleSource, source_from
from realm_core.corpus.tasks import PACKAGES, Ingest
from realm_core.corpus.work import WorkFolder
from realm_core.corpus.worker import prepared
from realm_core.corpus.writer import SnapshotWriter
from realm_core.errors import RealmError, Stopped
from realm_core.files import disk_errors, read_json
from realm_core.object_store import put_folder
from realm_core.runs.activity import Activity

# Part of the fingerprint: raise it when cleaning, splitting or packing change their output.
_RULES = 2
_MOST_OF_A_PART = 0.99  # a small file is read as a whole before its first article comes


def ingest(
    source: ArticleSource,
    *,
    name: str,
    output: Path,
    activity: Activity,
    processes: int | None = None,
    articles_at_most: int = 0,
) -> Path:
    """Make a snapshot of `source` and return its folder, `output`/`name`/SNAPSHOT_ID.

    processes: number of worker processes; 1 works in this process, None starts one per processor.
    articles_at_most: read only so many, from the first on, unless it is 0; `share` in the manifest is what part of the
    source these are.
    An existing snapshot of the same source, options and rules is returned at once.
    """
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise RealmError(f"{name!r} cannot be a corpus's name: it becomes a folder's name.")
    fingerprint = f"rules {_RULES}, {MAX_WORDPIECES}/{MAX_TITLE_WORDPIECES} wordpieces, {source.fingerprint()}"
    if articles_at_most:
        fingerprint += f", {articles_at_most} articles at most"
    existing = _existing(output / name, fingerprint)
    if existing is not None:
        activity.say(f"The snapshot of {source.name} exists already: {existing}")
        put_folder(existing)  # where it was removed from the store, or made before there was one
        return existing
    description: dict[str, Any] = {
        "name": name,
        "source": source.name,
        "language": source.language,
        "licence": source.licence,
        "attribution": source.attribution,
        "fingerprint": fingerprint,
        **({"rights": [asdict(part) for part in source.rights]} if source.rights else {}),
    }
    with WorkFolder(output, name, fingerprint) as work:
        if work.emptied:
            activity.say("The source, its options or the rules changed since the last attempt: starting over.")
        elif work.position:
            activity.say(f"Resuming after the first {work.position:,} pages, which an earlier run finished.")
        if not work.complete:
            _fill(work, source, activity, processes, articles_at_most)
        if work.share < 1:
            description["share"] = work.share
        final, is_new = SnapshotWriter(work, description, activity).publish(output / name)
        work.remove()
    if not is_new:
        activity.say(f"The same snapshot exists already: {final}")
    return final


def _fill(work: WorkFolder, source: ArticleSource, activity: Activity, processes: int | None, most: int) -> None:
    """Write every article that is in no finished part yet into parts. most: 0, or how many are read."""
    articles = source.articles(work.position)
    wanted = islice(articles, most - work.position) if most else articles
    try:
        with prepared(wanted, processes, first=work.position) as batches:
            for batch in batches:
                work.add(batch.articles, batch.blocks, batch.position)
                share = source.share_read()
                total = max(work.position, round(work.position / share)) if share else None
                if most:
                    total = min(total or most, most)
                activity.progress(work.position, total, "pages", f"{work.blocks:,} blocks")
                activity.check()
    except Stopped:
        work.close_part()
        raise
    ended = not most or work.position < most or next(articles, None) is None
    share = source.share_read()
    work.finish(1.0 if ended or share is None else min(share, _MOST_OF_A_PART))
    activity.progress(work.position, work.position, "pages", f"{work.blocks:,} blocks")


def _existing(folder: Path, fingerprint: str) -> Path | None:
    for manifest in sorted(folder.glob(f"*/{tables.MANIFEST_FILE}")):
        if read_json(manifest).get("fingerprint") == fingerprint:
            return manifest.parent
    return None


def snapshot_of(task: Ingest, activity: Activity) -> Path:
    """Ingest the source that a task names; returns the snapshot's folder."""
    source = source_from(task)
    with disk_errors(task.output):
        task.output.mkdir(parents=True, exist_ok=True)
    return ingest(
        source,
        name=task.corpus_name or source.name,
        output=task.output,
        activity=activity,
        processes=task.processes or (1 if task.source in PACKAGES else None),  # too small for a pool
        articles_at_most=task.articles_at_most,
    )


def main(task: Ingest, activity: Activity) -> None:
    """Run `ingest` as the command line asks and leave result.json."""
    path = snapshot_of(task, activity)
    manifest: dict[str, Any] = read_json(path / tables.MANIFEST_FILE)
    counts = {key: manifest[key] for key in ("snapshot_id", "articles", "blocks")}
    activity.say(f"{counts['articles']:,} articles, {counts['blocks']:,} blocks: {path}")
    activity.result({"path": str(path), **counts})
