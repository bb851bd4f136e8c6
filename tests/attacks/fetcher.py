"""A worker that only fetches addresses, and finds no host: documents from made-up addresses are refused at once."""

from __future__ import annotations

import time

import django

django.setup()

from webapp.models import Fetch, FetchState  # noqa: E402 - needs the settings
from workers.fetching import fetch_for  # noqa: E402 - needs the settings

_LOOK_EVERY_S = 0.05


def _nowhere(_host: str, _port: int) -> list[str]:
    return []


while True:
    for name in list(Fetch.objects.filter(state=FetchState.WAITING).values_list("pk", flat=True)):
        fetch_for(str(name), resolve=_nowhere)
    time.sleep(_LOOK_EVERY_S)
