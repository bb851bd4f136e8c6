"""Fetching addresses: hands them to a worker and waits for the content.

The web process opens no connection to an address that somebody typed. A worker does (`workers/fetching.py`, which has
the limits). A row has the state, a file the content; both are deleted after the edit has read them.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from django.utils import timezone
from kombu.exceptions import OperationalError

from realm_core.files import disk_errors
from webapp.documents.reading import Address, DocumentInput, File, Unreadable
from webapp.jobs.queue import producer
from webapp.models import Fetch, FetchState, Queue
from webapp.serving.engine import EngineUnavailable
from webapp.storage.places import fetched_dir

log = logging.getLogger(__name__)

TASK: Final = "workers.fetch"
WAIT_S: Final = 30.0  # a worker takes at most two thirds of it
KEPT: Final = timedelta(hours=1)  # rows and files of edits that died
_LOOK_EVERY_S: Final = 0.05


def fetched(given: Sequence[DocumentInput]) -> list[DocumentInput]:
    """The inputs, with the content in place of each address. Unreadable if one cannot be fetched."""
    fetches = [Fetch.objects.create(url=one.source.url) if isinstance(one.source, Address) else None for one in given]
    try:
        for fetch in fetches:
            if fetch is not None:
                _send(fetch.pk)
        until = time.monotonic() + WAIT_S
        return [
            one if fetch is None else _with_content(one, fetch, until)
            for one, fetch in zip(given, fetches, strict=True)
        ]
    finally:
        for fetch in fetches:
            if fetch is not None:
                _forget(fetch.pk)


def _send(fetch_id: uuid.UUID) -> None:
    try:
        producer().send_task(TASK, [str(fetch_id)], queue=Queue.DEFAULT.value, retry=False, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        log.error("An address cannot be handed to a worker, the broker is out of reach: %s", error)
        raise EngineUnavailable("No worker can be reached to fetch the address; try again later.") from None


def _with_content(given: DocumentInput, fetch: Fetch, until: float) -> DocumentInput:
    fetch.refresh_from_db()
    while fetch.state == FetchState.WAITING:
        if time.monotonic() > until:
            raise EngineUnavailable(f"No worker has fetched {fetch.url} within {WAIT_S:g} s; try again later.")
        time.sleep(_LOOK_EVERY_S)
        fetch.refresh_from_db()
    if fetch.state == FetchState.FAILED:
        raise Unreadable(f"{fetch.url} cannot be fetched: {fetch.reason}")
    path = fetched_dir() / str(fetch.pk)
    with disk_errors(path):
        content = path.read_bytes()
    source = File(content, name_of(fetch.final_url), fetch.content_type or None)
    return replace(given, source=source, url=given.url or fetch.final_url)


def name_of(url: str) -> str:
    """The file name for an address: the last part of its path, or else its host."""
    parts = urlsplit(url)
    return PurePosixPath(unquote(parts.path)).name or parts.hostname or url


def _forget(fetch_id: uuid.UUID) -> None:
    (fetched_dir() / str(fetch_id)).unlink(missing_ok=True)
    Fetch.objects.filter(pk=fetch_id).delete()


def clear_away() -> None:
    """Remove what edits that died have left."""
    for fetch_id in Fetch.objects.filter(created_at__lt=timezone.now() - KEPT).values_list("pk", flat=True):
        _forget(fetch_id)
