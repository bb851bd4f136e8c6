"""The management commands, with realm_core's activities replaced by their results."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import OperationalError, ProgrammingError

import webapp.operations.activity as core
from realm_core.errors import RealmError, Stopped
from realm_core.living.collections import CollectionFacts
from tests.web.command_line import command
from tests.web.conftest import FakeEngine, Loader
from tests.web.pages import stored
from webapp.models import (
    AskedAnswer,
)
from webapp.operations import backups

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationalError("no such table: auth_user"), "no tables yet: run manage.py migrate first"),
        (ProgrammingError('relation "auth_user" does not exist\nLINE 1: SELECT'), "run manage.py migrate first"),
        (
            OperationalError("no such column: job.pinned"),
            r"another version: no such column: job\.pinned\. manage",
        ),
        (OperationalError("connection refused\n\tIs it running?"), "does not answer: connection refused$"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def use(_target: Path, **_options: bool) -> None:
        raise error

    monkeypatch.setattr(backups, "back_up", use)
    with pytest.raises(CommandError, match=said) as refused:
        command("backup", "backup.tar")
    assert refused.value.returncode == 2


def test_a_bug_in_a_query_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def use(_target: Path, **_options: bool) -> None:
        raise ProgrammingError("syntax error")

    monkeypatch.setattr(backups, "back_up", use)
    with pytest.raises(ProgrammingError):
        command("backup", "backup.tar")


# ---- ask


def test_ask_as_json_prints_the_object_of_the_api(engine: FakeEngine, client: Any) -> None:
    printed = json.loads(command("ask", "Who directed it?", "--k", "2", "--json"))
    assert engine.asked == [("Who directed it?", 2, ())]
    assert printed == client.get(f"/api/v1/answers/{printed['id']}").json()
    assert engine.closed


def test_ask_for_people(engine: FakeEngine) -> None:
    said = command("ask", "Who directed it?")
    assert said.startswith("Stanley Kubrick   (confidence 0.705)\n")
    assert "[Stanley Kubrick]" in said and "posterior" in said
    assert re.search(
        r"\np\(y \| x\), the sum.*: Stanley Kubrick 0.5.*, Arthur C. Clarke 0.19.*, no answer 0.218\n", said
    )
    assert AskedAnswer.objects.count() == 1


def test_ask_names_the_smaller_collections_where_there_is_no_answer(engine: FakeEngine) -> None:
    engine.value = stored.payload(explains="no_answer")
    sizes = {"wiki": 9, "the archive": 1, "hall": 3}
    engine.collections = {
        name: CollectionFacts(size, frozenset(), frozenset(), None, None) for name, size in sizes.items()
    }
    assert "by itself: --collection 'the archive' or hall\n" in command("ask", "Who?")


@pytest.mark.parametrize(("arguments", "said"), [(("",), "Write a question"), (("Who?", "--k", "0"), "between 1 and")])
def test_ask_what_cannot_be_asked(loader: Loader, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        command("ask", *arguments)


def test_ask_while_nothing_is_deployed(loader: Loader) -> None:
    with pytest.raises(CommandError, match="Nothing is deployed"):
        command("ask", "Who?")


# ---- realm_core in a process of its own


class Ended:
    """A process that has ended with `status`."""

    def __init__(self, status: int) -> None:
        self.status = status

    def wait(self) -> int:
        return self.status


@pytest.mark.parametrize(("status", "error"), [(2, RealmError), (3, Stopped), (1, RealmError), (-9, RealmError)])
def test_how_an_activity_ends(monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]) -> None:
    monkeypatch.setattr(core, "start", lambda *_a, **_k: Ended(status))
    monkeypatch.setattr(core, "awaited", nullcontext)
    with pytest.raises(error):
        core.run_activity("index")


def test_an_activity_s_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(command: list[str], **_options: Any) -> Ended:
        assert command[1:4] == ["-m", "realm_core", "index"] and command[-2] == "--run"
        (Path(command[-1]) / "result.json").write_text('{"path": "x"}')
        return Ended(0)

    monkeypatch.setattr(core, "start", finish)
    monkeypatch.setattr(core, "awaited", nullcontext)
    assert core.run_activity("index", "--model", Path("m")) == {"path": "x"}


# ---- exit statuses


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", ""),
        ("collections", "remove", "nothing"),
        ("create_token", "nobody", "--scope", "ask"),
        ("documents", "remove", "nothing", "--yes"),
        ("forget_person", "nobody"),
        ("register_model", "nowhere", "--parent", "0" * 64),
        ("restore", "nothing.tar"),
        ("revoke_token", "realm_nobody"),
    ],
)
def test_what_is_refused_ends_with_2_and_a_sentence(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"\w.*\.$") as refused:
        command(*arguments)
    assert refused.value.returncode == 2


def test_what_was_stopped_ends_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_file: Path, **_options: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, "back_up", interrupted)
    with pytest.raises(CommandError, match="Stopped") as stopped:
        command("backup", "file.tar")
    assert stopped.value.returncode == 3
