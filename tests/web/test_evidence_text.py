"""The text of evidence is stored once, and the version that stored it twice can be gone back to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from tests.migrated import migrated_back
from tests.web.pages import stored
from webapp.models import EvidenceBlock

pytestmark = pytest.mark.postgresql_first

_COPIES = {"title", "text", "url"}


def _columns() -> set[str]:
    with connection.cursor() as cursor:
        return {
            one.name for one in connection.introspection.get_table_description(cursor, EvidenceBlock._meta.db_table)
        }


@pytest.mark.django_db
def test_what_a_block_says_is_in_one_place() -> None:
    asked = stored.store()
    text = asked.payload["evidence"][0]["text"]
    rows = [list(EvidenceBlock.objects.values()), [asked.payload]]
    assert json.dumps(rows, default=str).count(json.dumps(text)) == 1
    assert asked.evidence.get(rank=1).text == text


@pytest.mark.django_db(transaction=True)
def test_the_version_before_finds_its_copies_again() -> None:
    asked = stored.store()
    with migrated_back("0020_purges") as state:
        rows = state.apps.get_model("webapp", "EvidenceBlock").objects.order_by("rank").values(*_COPIES)
        assert list(rows) == [{name: block[name] for name in _COPIES} for block in asked.payload["evidence"]]
    assert not _columns() & _COPIES


@pytest.mark.django_db
def test_naming_many_blocks_reads_no_payload(django_assert_num_queries: Any) -> None:
    asked = stored.store()
    with django_assert_num_queries(1):
        names = [str(block) for block in EvidenceBlock.objects.all()]
    assert names == [f"{block['rank']}. block {block['block_id']}" for block in asked.payload["evidence"]]
