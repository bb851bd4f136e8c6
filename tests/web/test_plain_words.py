"""Words on pages for people who do not know the program's insides."""

from __future__ import annotations

import re

import pytest

from tests.web.conftest import FakeEngine, Person
from tests.web.pages import stored
from tests.web.pages.pages import text_of
from tests.web.pages.stored import ODYSSEY
from webapp.models import AuditEntry, Job, JobKind, JobState
from webapp.models.audit import action_in_words

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("job.start", "job started"),
        ("document.add", "document added"),
        ("question-set.remove", "question set removed"),
        ("roll-back", "went back to an earlier deployment"),
        ("login", "logged in"),
        ("of.tomorrow", "of tomorrow"),
    ],
)
def test_an_action_in_words(action: str, words: str) -> None:
    assert action_in_words(action) == words


def test_the_audit_trail_is_in_words_and_found_by_its_names(staff: Person) -> None:
    AuditEntry.record("document.add", "Turku", by=staff.user)
    page = staff.client.get("/manage/audit/?action=document.add").content.decode()
    assert '<td data-label="What">document added</td>' in page
    assert '<option value="document.add" selected>document added</option>' in page


def test_page_numbers_are_written_as_other_numbers(staff: Person) -> None:
    AuditEntry.objects.bulk_create(AuditEntry(name="x", action="login", target="x") for _ in range(50_001))
    assert "Page 1,001 of 1,001" in staff.client.get("/manage/audit/?page=1001").content.decode()


@pytest.mark.parametrize(("state", "offered"), [(JobState.RUNNING, False), (JobState.SUCCEEDED, True)])
def test_a_job_that_runs_is_not_offered_to_be_run_again(staff: Person, state: str, offered: bool) -> None:
    job = Job.objects.create(kind=JobKind.INGEST, state=state)
    assert ("Run again" in staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()) is offered


def test_what_staff_may_do_is_said_where_somebody_becomes_staff(staff: Person) -> None:
    staff.user.is_superuser = True
    staff.user.save()
    page = staff.client.get(f"/admin/auth/user/{staff.user.pk}/change/").content.decode()
    assert "read and change every document, those of private collections, too" in page
    assert "log into this admin site" not in page


def test_how_this_works_begins_without_formulas(outsider: Person) -> None:
    page = outsider.client.get("/how-it-works/").content.decode()
    before = page[page.index("<h1>") : page.index('id="finding"')]
    assert 'id="in-short"' in before
    assert not re.search(r"<math|<i>|embedder|vector|softmax", before)


def test_askers_read_of_passages_and_never_of_blocks(outsider: Person, engine: FakeEngine) -> None:
    answer, none = stored.store(), stored.store(stored.payload(explains="no_answer"))
    first = f"/answers/{answer.pk}/?without={ODYSSEY[0].block_id}"
    engine.has_encoder = False  # with one there is a null block
    for address in ("/", f"/answers/{answer.pk}/", f"/answers/{none.pk}/", first, "/fill/?sentence=The+[MASK]."):
        said = text_of(outsider.client.get(address))
        assert "passage" in said and not re.search(r"\bblocks?\b(?!\+)", said, re.IGNORECASE), address
