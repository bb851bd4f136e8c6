"""Asks a question as one who asks does: checked first."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from webapp.access.collections import access_of
from webapp.asking import service as asking
from webapp.models import AskedAnswer


def ask(
    question: str, *, asker: User | AnonymousUser | None = None, session_key: str = "", **options: Any
) -> AskedAnswer:
    """The kept answer. asker: None: the command line. options: as `checked` has them."""
    wanted = asking.checked(question, **options, access=access_of(asker))
    return asking.ask(wanted, asker=asker, session_key=session_key)
