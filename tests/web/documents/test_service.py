"""Documents in, changed, out: what is asked afterwards is answered from the corpus as it is then."""

from __future__ import annotations

import pytest

from webapp.asking import service as asking
from webapp.documents import service as documents
from webapp.documents.reading import Given, Text
from webapp.models import Deployment
from webapp.serving.engine import holder

TURKU = Given(Text("Turku is a city in Finland.\nIts castle was founded in 1280."), "turku", "Turku", licence="CC0")


@pytest.fixture
def answering(deployed: Deployment) -> Deployment:
    holder().refresh(wait=True)
    return deployed


def read_for(question: str) -> tuple[str, set[str]]:
    """The corpus that an answer names, and the titles of all blocks that it was read from."""
    payload = asking.ask(question, k=20).payload
    return payload["corpus"], {block["title"] for block in payload["evidence"]}


def test_an_added_document_is_answered_from(answering: Deployment) -> None:
    base, titles = read_for("Where is Turku?")
    assert "+" not in base and "Turku" not in titles
    edited = documents.add([TURKU], by=None)
    assert edited.state is not None and edited.document_ids == ["turku"]
    corpus, titles = read_for("Where is Turku?")
    assert corpus == f"{base}+{edited.state.state_id}" and "Turku" in titles
    assert set(edited.timings_ms) == {"read", "publish", "commit", "open"}
