"""A document is purged from a corpus that does not answer now."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.tiny import ARTICLES
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents.conftest import copied, deploy_confirmed, titles
from tests.web.documents.test_joining import HANDBOOK, index_of, join
from tests.web.operating import TokenClient, post, problem
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import DocumentMissing, show
from webapp.models import Deployment, GoneBlock, IndexGeneration, Purge
from webapp.purges import masks
from webapp.purges import service as purging
from webapp.serving.living import opened

MOLE = DocumentInput(Text("The mole of Turku is 90 m long."), "mole", "Mole")


@pytest.fixture
def folders(folders: tuple[Path, Path, Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """The tiny deployment, copied to the data folder, because a purge writes beside it."""
    return copied(folders, tmp_path)


@pytest.fixture
def tiny(answering: Deployment, tmp_path: Path) -> IndexGeneration:
    """An index with an edit that answered until the handbook's did, and an answer kept from it."""
    documents.add([MOLE], by=None)
    deploy_confirmed(index_of("handbook", HANDBOOK, Path(answering.model.path), tmp_path))
    return answering.index


def there(index: IndexGeneration, *ids: str) -> set[str]:
    return set(opened(index, index.state_now()).with_ids(ids))


@pytest.mark.postgresql_first
def test_it_is_forgotten_there_and_what_answers_stays(answering: Deployment, tmp_path: Path) -> None:
    documents.add([MOLE], by=None)
    kept = ask("How long is the mole?", k=20)
    tiny, handbook = answering.index, index_of("handbook", HANDBOOK, Path(answering.model.path), tmp_path)
    deploy_confirmed(handbook)
    with pytest.raises(DocumentMissing):
        purging.purge(["mole"], by=None)
    purge = purging.purge(["mole", "Nile"], by=None, index=tiny)
    assert there(tiny, "mole", "Nile", "Berlin") == {"Berlin"}
    assert purge.index == tiny and purge.files and purge.remaining == [tiny.corpus.path, tiny.path]
    kept.refresh_from_db()
    assert kept.purged_at is not None and not {"Mole", "Nile"} & titles(kept)
    assert titles() == {*HANDBOOK}
    deploy_confirmed(tiny)
    assert titles() == {*ARTICLES} - {"Nile"} and show("mole").status == "purged"


def test_a_passage_that_what_answers_has_word_for_word_stays_there(tiny: IndexGeneration) -> None:
    documents.add([DocumentInput(Text(ARTICLES["Nile"]), "river", "Nile")], by=None)
    purging.purge(["Nile"], by=None, index=tiny)
    assert "Nile" in titles() and not GoneBlock.purged()
    assert there(tiny, "Nile") == set()


def test_a_joined_corpus_that_answers_is_masked_at_once(answering: Deployment, tmp_path: Path) -> None:
    handbook = index_of("handbook", HANDBOOK, Path(answering.model.path), tmp_path)
    deploy_confirmed(join(answering.index, handbook))
    assert "Nile" in titles()
    purging.purge(["Nile"], by=None, index=answering.index)
    assert "Nile" not in titles()


def test_one_that_was_folded_is_purged_where_its_documents_are(
    tiny: IndexGeneration, answering: Deployment, tmp_path: Path
) -> None:
    later = index_of("later", HANDBOOK, Path(answering.model.path), tmp_path)
    IndexGeneration.every.filter(pk=tiny.pk).update(folded_into=later)
    tiny.refresh_from_db()
    with pytest.raises(DocumentMissing):
        purging.purge(["Nile"], by=None, index=tiny)
    assert purging.purge(["Harbour"], by=None, index=tiny).index == later


def test_over_rest(tiny: IndexGeneration, program: TokenClient) -> None:
    def purge(**where: int) -> Any:
        return post(program, "purges", {"documents": ["mole"], **where})

    assert "has no document 'mole'" in json.dumps(problem(purge(), 400))
    assert "There is no index" in json.dumps(problem(purge(index=999), 400))
    assert purge(index=tiny.pk).json()["documents"] == ["mole"] and Purge.objects.get().index == tiny


def test_on_the_page_of_the_index(tiny: IndexGeneration, staff: Person) -> None:
    client = staff.client
    assert 'name="index"' in client.get(f"/manage/indexes/{tiny.pk}/").content.decode()
    active = Deployment.active()
    assert active is not None
    assert 'name="index"' not in client.get(f"/manage/indexes/{active.index_id}/").content.decode()
    address = f"/manage/documents/document/purge/?index={tiny.pk}&id="
    for unknown in ("0", "x", "99999999999"):
        assert client.get(f"/manage/documents/document/purge/?id=mole&index={unknown}").status_code == 404
    refused = client.get(address + "nobody", follow=True)
    assert refused.redirect_chain[-1][0] == f"/manage/indexes/{tiny.pk}/"
    assert "has no document" in refused.content.decode()
    page = client.get(address + "mole").content.decode()
    assert "Mole" in page and "In <bdi>tiny</bdi>" in page
    receipt = client.post(address + "mole", {"sure": "yes"}, follow=True).content.decode()
    assert "is purged. This is the receipt." in receipt and there(tiny, "mole") == set()


def test_by_the_command(tiny: IndexGeneration) -> None:
    said = io.StringIO()
    call_command("documents", "purge", "mole", "--index", str(tiny.pk), stdout=said)
    assert str(Purge.objects.get().pk) in said.getvalue() and masks.unmasked_purges(tiny) is None
    with pytest.raises(CommandError, match="There is no index 999"):
        call_command("documents", "purge", "mole", "--index", "999")
