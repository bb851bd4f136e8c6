"""One deployment is active, and the earlier ones stay."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from realm_core.errors import RealmError
from tests.web.console import another_model
from tests.web.pages import stored
from webapp.models import Deployment

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_activating_takes_the_place_of_the_active_one() -> None:
    first, second = stored.deployment(), stored.deployment()
    first.refresh_from_db()
    assert not first.is_active and first.deactivated_at is not None
    assert Deployment.active() == second


def test_it_comes_with_its_model_and_index(django_assert_num_queries: Any) -> None:
    first = stored.deployment()
    with django_assert_num_queries(1):
        active = Deployment.active()
        assert active is not None and active.index.model == active.model == first.model
        assert active.index.corpus == first.index.corpus
    other = another_model()
    Deployment.activate(first.index, model=other)
    for found in (Deployment.active(), Deployment.locked()):
        assert found is not None
        with django_assert_num_queries(0):
            assert (found.model, found.index.model) == (other, first.model)
            assert found.index.corpus == first.index.corpus


def test_going_back_is_a_new_row() -> None:
    first = stored.deployment()
    stored.deployment()
    third = Deployment.activate(first.index, model=first.model, note="back")
    assert third.pk != first.pk and Deployment.active() == third
    assert Deployment.objects.count() == 3


def test_the_database_allows_one_active_row() -> None:
    first = stored.deployment()
    with pytest.raises(IntegrityError), transaction.atomic():
        Deployment.objects.create(model=first.model, index=first.index)


def test_a_model_that_embeds_blocks_differently_does_not_fit() -> None:
    first = stored.deployment()
    with pytest.raises(RealmError, match="embeds blocks differently"):
        Deployment.activate(first.index, model=another_model(block_hash="different"))
    assert Deployment.active() == first
