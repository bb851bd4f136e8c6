"""Fetching addresses: hands them to a worker and waits for the content.

The web process opens no connection to an address that somebody typed. A worker does (`workers/fetching.py`, which has
the limits). A row has the state, a file the content; both are deleted after the edit has read them.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from django.utils import timezone
from kombu.exceptions import OperationalError

from realm_core.files import disk_errors
from webapp.documents.inputs import Address, DocumentInput, File, Staged, Unreadable
from webapp.jobs.queue import producer
from webapp.models import FETCH_QUEUE, Fetch, FetchState
from webapp.serving.engine import EngineUnavailable
from webapp.storage.places import fetched_dir

log = logging.getLogger(__name__)

TASK: Final = "workers.fetch"
WAIT_S: Final = 30.0  # for each address; a worker takes at most two thirds of it
LONGEST_S: Final = 120.0  # for all addresses of an edit: a person waits, and a proxy gives up after 300 s
_AT_ONCE: Final = 4  # addresses of an edit; half of what a worker fetches, so that the next edit does not wait
KEPT: Final = timedelta(hours=1)  # rows and files of edits that died
_LOOK_EVERY_S: Final = 0.05


def fetched(given: Sequence[DocumentInput]) -> list[DocumentInput]:
    """The inputs, with the content in place of each address and of what was staged.

    Unreadable if one cannot be fetched, or is held no more.
    """
    fetches = [Fetch.objects.create(url=one.source.url) if isinstance(one.source, Address) else None for one in given]
    try:
        _fetch([fetch for fetch in fetches if fetch is not None])
        return [_with_content(one, fetch) for one, fetch in zip(given, fetches, strict=True)]
    finally:
        for fetch in fetches:
            if fetch is not None:
                _forget(fetch.pk)


def staged(given: DocumentInput) -> DocumentInput:
    """The input with what an upload or an address gives held for an hour, so that an edit can be made of it later.

    A text is as it was. Unreadable if the address cannot be fetched.
    """
    source = given.source
    if isinstance(source, Address):
        fetch = Fetch.objects.create(url=source.url)
        try:
            _fetch([fetch])
        except Exception:
            _forget(fetch.pk)
            raise
    elif isinstance(source, File):
        about = {"url": source.name, "content_type": source.declared_type or ""}
        fetch = Fetch.objects.create(state=FetchState.FETCHED, **about)
        path = fetched_dir() / str(fetch.pk)
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.content)
    else:
        return given
    return replace(given, source=Staged(fetch.pk))


def held(fetch_ids: Iterable[str]) -> dict[uuid.UUID, str]:
    """Uploads that `staged` holds → their file names, in this order, without those that are held no more."""
    known = []
    for one in fetch_ids:
        with suppress(ValueError):
            known.append(uuid.UUID(one))
    names = dict(Fetch.objects.filter(pk__in=known, state=FetchState.FETCHED).values_list("pk", "url"))
    return {one: names[one] for one in known if one in names}


def forget_staged(given: DocumentInput) -> None:
    if isinstance(given.source, Staged):
        _forget(given.source.fetch_id)


def _fetch(fetches: Sequence[Fetch]) -> None:
    """Until all are fetched; each has its own time, which begins when it is sent. Unreadable, EngineUnavailable."""
    longest_until = time.monotonic() + LONGEST_S
    until: list[float] = []
    for number, fetch in enumerate(fetches):
        if time.monotonic() > longest_until:
            done = f"{number} of {len(fetches)} addresses were fetched within {LONGEST_S:g} s"
            raise EngineUnavailable(f"{done}, which is the limit; add fewer at once.")
        for due in fetches[len(until) : number + _AT_ONCE]:
            _send(due.pk)
            until.append(time.monotonic() + WAIT_S)
        _wait(fetch, until[number])


def _send(fetch_id: uuid.UUID) -> None:
    try:
        producer().send_task(TASK, [str(fetch_id)], queue=FETCH_QUEUE, retry=False, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        log.error("An address cannot be handed to a worker, the broker is out of reach: %s", error)
        raise EngineUnavailable("No worker can be reached to fetch the address; try again later.") from None


def _with_content(given: DocumentInput, fetch: Fetch | None) -> DocumentInput:
    """The input with its content. fetch: that of its address; None: it has none."""
    if isinstance(given.source, Staged):
        fetch = Fetch.objects.filter(pk=given.source.fetch_id, state=FetchState.FETCHED).first()
        if fetch is None:
            raise Unreadable("What was looked at is not held any more, after an hour; give it again.")
    if fetch is None:
        return given
    path = fetched_dir() / str(fetch.pk)
    with disk_errors(path):
        content = path.read_bytes()
    # A staged upload has its file name in the place of an address.
    name = name_of(fetch.final_url) if fetch.final_url else fetch.url
    source = File(content, name, fetch.content_type or None)
    return replace(given, source=source, url=given.url or fetch.final_url or given.url)


def _wait(fetch: Fetch, until: float) -> None:
    """Until a worker has fetched it; Unreadable, EngineUnavailable."""
    fetch.refresh_from_db()
    while fetch.state == FetchState.WAITING:
        if time.monotonic() > until:
            raise EngineUnavailable(f"No worker has fetched {fetch.url} within {WAIT_S:g} s; try again later.")
        time.sleep(_LOOK_EVERY_S)
        fetch.refresh_from_db()
    if fetch.state == FetchState.FAILED:
        raise Unreadable(f"{fetch.url} cannot be fetched: {fetch.reason}")


def name_of(url: str) -> str:
    """The file name for an address: the last part of its path, or else its host."""
    parts = urlsplit(url)
    return PurePosixPath(unquote(parts.path)).name or parts.hostname or url


def _forget(fetch_id: uuid.UUID) -> None:
    (fetched_dir() / str(fetch_id)).unlink(missing_ok=True)
    Fetch.objects.filter(pk=fetch_id).delete()


def clear_away() -> None:
    """Remove the fetches of interrupted edits, and files staged for changes that were not made."""
    for fetch_id in Fetch.objects.filter(created_at__lt=timezone.now() - KEPT).values_list("pk", flat=True):
        _forget(fetch_id)
