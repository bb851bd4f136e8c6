"""Models, indexes, corpora, spans, question sets: lineage, pins, and adding questions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from realm_core.files import write_json
from tests.web.conftest import Person
from tests.web.console import ANSWERS, another_index, another_model, measured, question_set, write_files
from tests.web.pages import stored
from webapp.models import (
    AuditEntry,
    Deployment,
    Feedback,
    IndexGeneration,
    Job,
    ModelVersion,
    Purpose,
    QuestionSet,
    Review,
)
from webapp.storage.places import resolve

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> Deployment:
    return stored.deployment()


def test_a_model_s_page_has_its_lineage_both_ways(now: Deployment, staff: Person) -> None:
    job = Job.objects.create(kind="finetune")
    middle = another_model("middle")
    last = another_model("last")
    ModelVersion.objects.filter(pk=last.pk).update(parent=middle, job=job)
    evaluation = measured(middle, now.index, question_set(), ANSWERS)
    page = staff.client.get(f"/manage/models/{middle.pk}/").content.decode()
    for address in (
        f"/manage/models/{now.model_id}/",  # trained from
        f"/manage/models/{last.pk}/",  # trained from it
        f"/manage/corpora/{now.index.corpus_id}/",
        f"/manage/indexes/{now.index_id}/",  # fits, because the block embedder is the same
        f"/manage/deployments/deploy/?index={now.index_id}&amp;model={middle.pk}",
        f"/manage/evaluations/{evaluation.pk}/",
        f"/manage/jobs/new/finetune/?model={middle.pk}&amp;index={now.index_id}",
    ):
        assert f'href="{address}' in page, address
    page = staff.client.get(f"/manage/models/{last.pk}/").content.decode()
    assert f"/manage/jobs/{job.pk}/" in page
    assert page.index(str(middle)) < page.rindex(str(now.model))  # the whole line of its ancestors


def test_the_list_of_models_has_the_latest_figures(now: Deployment, staff: Person) -> None:
    write_files(now.model, now.index, now.index.corpus)
    evaluation = measured(now.model, now.index, question_set(), (*ANSWERS[:3], "no"))
    page = staff.client.get("/manage/models/").content.decode()
    assert f'<a href="/manage/evaluations/{evaluation.pk}/">plain-dev</a> 75.0\xa0%' in page
    assert "deployed" in page


def test_figures_that_are_not_the_model_s_own_are_not_in_the_list(now: Deployment, staff: Person) -> None:
    write_files(now.model, now.index, now.index.corpus)
    plain, dates = question_set(), question_set("dates-dev")
    measured(now.model, now.index, plain, ("no",) * 4)  # measured again since
    own = [measured(now.model, now.index, questions, (*ANSWERS[:3], "no")) for questions in (plain, dates)]
    for other in ({"retriever": "bm25"}, {"sample": 2}, {"k": 20}, {"normalisation": "block"}):
        measured(now.model, now.index, plain, ANSWERS, **other)
    page = staff.client.get("/manage/models/").content.decode()
    assert re.findall(r'href="/manage/evaluations/(\d+)/', page) == [str(one.pk) for one in reversed(own)]


def test_an_index_and_a_corpus_say_what_uses_them(now: Deployment, staff: Person) -> None:
    spans = now.index.corpus.span_sets.create(path="s", tagger="dates", spans=7, blocks=9)
    page = staff.client.get(f"/manage/indexes/{now.index_id}/").content.decode()
    assert "deployed" in page and f"/manage/models/{now.model_id}/" in page
    page = staff.client.get(f"/manage/corpora/{now.index.corpus_id}/").content.decode()
    assert f"/manage/indexes/{now.index_id}/" in page and f"/manage/spans/{spans.pk}/" in page
    page = staff.client.get(f"/manage/spans/{spans.pk}/").content.decode()
    assert "7, in 9 blocks" in page


def test_an_index_says_how_it_is_searched_and_why(now: Deployment, staff: Person, tmp_path: Path) -> None:
    IndexGeneration.every.filter(pk=now.index_id).update(path=str(tmp_path))
    address = f"/manage/indexes/{now.index_id}/"
    assert "<dt>Search</dt>" not in staff.client.get(address).content.decode(), "its files are not there"
    write_json(tmp_path / "manifest.json", {"format": 1, "rows": 10_033, "dim": 256})
    assert "<dt>Search</dt><dd>exact: 10,033 blocks take 10 MB</dd>" in staff.client.get(address).content.decode()


def test_an_index_that_was_removed_is_in_no_list_and_still_has_its_page(now: Deployment, staff: Person) -> None:
    index = another_index(now.model)
    IndexGeneration.every.filter(pk=index.pk).update(removed_at=timezone.now())
    assert index.generation not in staff.client.get("/manage/indexes/").content.decode()
    page = staff.client.get(f"/manage/indexes/{index.pk}/").content.decode()
    assert "Its files were removed" in page and "Deploy …" not in page and "Pin" not in page
    assert staff.client.get(f"/manage/deployments/deploy/?index={index.pk}").status_code == 404


@pytest.mark.parametrize("what", ["model", "index"])
def test_pins_are_set_taken_off_and_written_down(now: Deployment, staff: Person, what: str) -> None:
    record, folder = (now.model, "models") if what == "model" else (now.index, "indexes")
    for pinned, action in (("1", f"{what}.pin"), ("0", f"{what}.unpin")):
        done = staff.client.post(f"/manage/{folder}/{record.pk}/pin/", {"pinned": pinned}, follow=True)
        kept = "The model and its indexes" if what == "model" else "Its files"
        assert f"{kept} {'are kept' if pinned == '1' else 'may be removed'}" in done.content.decode()
        staff.client.post(f"/manage/{folder}/{record.pk}/pin/", {"pinned": pinned})  # once is enough
        record.refresh_from_db()
        assert record.pinned is (pinned == "1")
        entry = AuditEntry.objects.first()
        assert entry is not None and (entry.action, entry.by) == (action, staff.user)
    assert AuditEntry.objects.count() == 2


@pytest.mark.parametrize("list_of", ["indexes", "corpora", "questions", "deployments", "schedules", "audit"])
def test_where_there_is_nothing_yet_the_page_says_so(staff: Person, list_of: str) -> None:
    page = staff.client.get(f"/manage/{list_of}/")
    assert page.status_code == 200 and b'class="empty"' in page.content


def upload(staff: Person, content: str, **form: str) -> str:
    file = SimpleUploadedFile("mine.jsonl", content.encode())
    return staff.client.post("/manage/questions/", {"file": file, **form}, follow=True).content.decode()


def test_questions_are_added_from_a_file(staff: Person) -> None:
    lines = [{"question": f"Who is number {number}?", "answers": ["Six"]} for number in range(30)]
    page = upload(staff, "".join(json.dumps(line) + "\n" for line in lines), purpose="learn", origin="mine, CC0")
    added = QuestionSet.objects.get()
    assert (added.name, added.questions, added.created_by, added.origin) == ("mine", 30, staff.user, "mine, CC0")
    assert "30 questions" in page and "Who is number 19?" in page and "Who is number 20?" not in page
    assert f"/manage/jobs/new/finetune/?questions={added.pk}" in page


@pytest.mark.parametrize(
    ("content", "form", "says"),
    [
        ('{"question": "?"}\n', {"purpose": "learn"}, "line 1: `answers` must be a list"),
        ("", {"purpose": "learn"}, "The submitted file is empty."),
        ('{"question": "Why?", "answers": ["So"]}\n', {"purpose": "both"}, "Select a valid choice."),
        ('{"question": "Why?", "answers": ["So"]}\n', {"purpose": "learn", "name": "../x"}, "cannot be a question"),
        ('{"question": "Who wrote Faust?", "answers": ["Goethe"]}\n', {"purpose": "learn"}, "is in plain-dev"),
    ],
)
def test_questions_that_cannot_be_added(staff: Person, content: str, form: dict[str, str], says: str) -> None:
    question_set()
    page = upload(staff, content, **form)
    assert says in page.replace("&#x27;", "'") and QuestionSet.objects.count() == 1


def test_a_set_whose_file_is_gone_says_so(staff: Person) -> None:
    questions = question_set()
    resolve(questions.path).unlink()
    response = staff.client.get(f"/manage/questions/{questions.pk}/")
    assert response.status_code == 200 and b"does not exist" in response.content


def test_feedback_becomes_questions_to_learn_from(staff: Person) -> None:
    assert "Nothing has been accepted yet" in staff.client.get("/manage/questions/").content.decode()
    Feedback.objects.create(answer=stored.store(), right=True, session_key="somebody", review=Review.ACCEPTED)
    assert "1 was accepted" in staff.client.get("/manage/questions/").content.decode()
    staff.client.post("/manage/questions/from-feedback/", {"name": "said"})
    made = QuestionSet.objects.get()
    assert (made.name, made.purpose, made.questions) == ("said", Purpose.LEARN, 1)
    refused = staff.client.post("/manage/questions/from-feedback/", {"name": "/"}, follow=True)
    assert b"cannot be a question set" in refused.content
