"""People ask while documents are added, changed and removed: no question fails, and none is answered from a mixture.

tests/benchmarks/test_edits.py does the same with a real server and the shipped model, at night.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import Deployment
from webapp.serving.living import current_corpus_id, current_view

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]

_ASKERS = 4
_ROUNDS = 4
_PATIENCE_S = 30.0


@dataclass
class _Answers:
    """What askers get. read: of each answer its state's name and the ids of the blocks that it was read from."""

    over: threading.Event = field(default_factory=threading.Event)
    statuses: list[int] = field(default_factory=list)
    read: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def ask_on(self, number: int) -> None:
        """Ask until it is over; never the same question, whose answer might be known."""
        client, asked = Client(), 0
        try:
            while not self.over.is_set():
                asked += 1
                body = {"question": f"What is said of number {asked} of {number}?", "k": 50}
                response = client.post("/api/v1/ask", body, "application/json")
                self.statuses.append(response.status_code)
                answer: dict[str, Any] = response.json()
                if response.status_code == 201:
                    self.read.append((answer["corpus"], frozenset(one["block_id"] for one in answer["evidence"])))
        finally:
            connection.close()

    def wait_for(self, state: str) -> None:
        """Until somebody was answered from a state."""
        until = time.monotonic() + _PATIENCE_S
        while state not in {name for name, _ in list(self.read)}:
            assert time.monotonic() < until, f"no answer was read from {state}"
            time.sleep(0.005)


@contextmanager
def _asking() -> Iterator[_Answers]:
    answers = _Answers()
    threads = [threading.Thread(target=answers.ask_on, args=(number,)) for number in range(_ASKERS)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        answers.over.set()
        for thread in threads:
            thread.join()


def _editions(edition: str) -> list[DocumentInput]:
    """Two new documents and one that came with the corpus, all of one edition: one edit writes them together."""
    harbour = DocumentInput(Text(f"Edition {edition} tells of the harbour."), "harbour", "Harbour")
    light = replace(harbour, document_id="light", title="Light", source=Text(f"Edition {edition} tells of the light."))
    return [harbour, light, DocumentInput(Text(f"Edition {edition} tells of the Nile."), "Nile", "Nile")]


def test_every_answer_is_read_from_one_state_and_none_fails(answering: Deployment) -> None:
    states: dict[str, frozenset[str]] = {}

    def edited() -> str:
        view = current_view()
        rows = [row for row in range(len(view)) if view.live_rows[row]]
        states[name := current_corpus_id()] = frozenset(view.block(row).block_id for row in rows)
        return name

    with _asking() as answers:
        answers.wait_for(edited())
        for number in range(_ROUNDS):
            for edition in (f"{number}a", f"{number}b"):
                documents.add_or_change(_editions(edition), by=None)
                answers.wait_for(edited())
            documents.remove(["harbour", "light"], by=None)
            answers.wait_for(edited())
    assert set(answers.statuses) == {201}
    assert len(states) == 1 + 3 * _ROUNDS and {name for name, _ in answers.read} == states.keys()
    assert [name for name, read in answers.read if read != states[name]] == [], "these were answered from a mixture"
