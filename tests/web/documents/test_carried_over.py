"""Edits that a schedule takes to a later index: what was restored, and ids that are another document's there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.web.documents.conftest import Snapshots, meanwhile, titles
from tests.web.documents.growing import active, advance
from webapp.documents import bringing, restoring
from webapp.documents import service as documents
from webapp.documents.committing import Edit
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import show
from webapp.models import Deployment, Document, IndexGeneration
from webapp.purges import service as purging

TURKU = DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku")
BACH = "Johann Sebastian Bach"


def test_what_was_removed_and_restored_has_the_later_text(answering: Deployment, later: IndexGeneration) -> None:
    """As if it had never been removed."""
    documents.remove(["Nile"], by=None)
    restoring.restore(["Nile"], by=None)
    assert bringing.edited_above(answering.index, later) == 0
    schedule = advance(later)
    assert active() == later, schedule.last_outcome
    assert show("Nile").text.endswith("It is long.")


def test_what_is_restored_while_a_pair_is_prepared_is_not_removed_there(
    answering: Deployment, later: IndexGeneration
) -> None:
    documents.remove(["Nile"], by=None)
    bringing.carry(answering.index, later, by=None)
    restoring.restore(["Nile"], by=None)
    schedule = advance(later)
    assert active() == later, schedule.last_outcome
    assert show("Nile").status != "removed" and "Nile" in titles()


def test_a_page_of_a_later_part_is_not_replaced_by_a_document_with_its_number(
    answering: Deployment, parts: Snapshots
) -> None:
    documents.add([replace(TURKU, document_id=number, title=f"Turku {number}") for number in ("4", "5")], by=None)
    first = parts("Nile", "Mars", "Berlin")
    advance(first)
    assert active() == first and show("4").title == "Turku 4"
    documents.remove(["5"], by=None)
    second = parts("Nile", "Mars", "Berlin", "Bhutan", BACH)
    schedule = advance(second)
    assert active() == first and "the id is that of “Bhutan”" in schedule.last_outcome
    documents.remove(["4"], by=None)
    schedule = advance(second)
    assert active() == second, schedule.last_outcome
    assert show("4").title == "Bhutan" and show("5").title == BACH and {"Bhutan", BACH} <= titles()
    third = parts("Nile", "Mars", "Berlin", "Bhutan", BACH, "Tungsten")
    advance(third)
    assert {"Bhutan", BACH} <= titles(), "a removal of another document is not remembered for these"


def test_a_purge_elsewhere_is_not_undone_by_a_restoration(
    answering: Deployment, later: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state above the index that answers has no such document any more, so the purge leaves it as it is."""
    documents.add([TURKU], by=None)
    documents.remove(["Nile"], by=None)
    meanwhile(monkeypatch, Edit, "_commit", lambda: purging.purge(["Nile"], by=None, index=later))
    with pytest.raises(restoring.NotRestored, match="was purged"):
        restoring.restore(["Nile"], by=None)
    assert Document.objects.get(index=answering.index, document_id="Nile").status == "purged"
    assert "Nile" not in titles()
