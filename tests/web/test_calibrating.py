"""A calibration whose questions cannot show when to be silent is refused before it starts."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Person
from tests.web.operating import TokenClient, post, problem
from webapp.jobs.form import JobForm
from webapp.kinds import KINDS
from webapp.models import IndexGeneration, Job, Purpose, SpanSet
from webapp.questions import service as questions


@pytest.fixture(autouse=True)
def _data(settings: Any, tmp_path: Path) -> None:
    settings.REALM_DATA = tmp_path


def recorded(name: str, *answers: list[str]) -> int:
    rows = [{"question": f"Question {number} of {name}?", "answers": right} for number, right in enumerate(answers)]
    return questions.record("".join(json.dumps(row) + "\n" for row in rows).encode(), name, Purpose.MEASURE).pk


def test_questions_with_and_without_answers_are_both_needed(
    program: TokenClient, staff: Person, index: IndexGeneration
) -> None:
    with_answers, without = recorded("asked", ["Goethe"], ["1989"]), recorded("none", [], [])
    given = {"model": index.model_id, "index": index.pk}
    for chosen, lacking in ((with_answers, "without an answer (`[]`)"), (without, "with answers")):
        body = {"kind": "calibrate", "parameters": {**given, "questions": [chosen]}}
        [error] = problem(post(program, "jobs", body), 400)["errors"]
        assert error["field"] == "parameters.questions" and f"must have some {lacking}, too" in error["detail"]
    form = JobForm(KINDS["calibrate"], None, {**given, "questions": [with_answers]})
    sent = {name: form[name].value() for name in form.fields}
    page = staff.client.post("/manage/jobs/new/calibrate/", sent)
    assert page.status_code == 422 and "Must have some without an answer" in unescape(page.content.decode())
    assert 'id="id_questions_error"' in page.content.decode() and not Job.objects.exists()
    body = {"kind": "calibrate", "parameters": {**given, "questions": [with_answers, without]}}
    assert post(program, "jobs", body).status_code == 201


def test_an_ablation_is_measured_by_questions_with_answers(program: TokenClient, index: IndexGeneration) -> None:
    learnt = questions.record(b'{"question": "Who?", "answers": ["A"]}', "learnt", Purpose.LEARN)
    spans = SpanSet.objects.create(corpus=index.corpus, path="spans/1", tagger="dates", spans=2, blocks=2)
    given = {"model": index.model_id, "corpus": index.corpus_id, "spans": spans.pk, "questions": [learnt.pk]}
    body = {"kind": "ablate", "parameters": {**given, "dev": [recorded("both", ["Goethe"], [])]}}
    [error] = problem(post(program, "jobs", body), 400)["errors"]
    assert error["field"] == "parameters.dev" and "an answer to each question" in error["detail"]
    assert not Job.objects.exists()
    body["parameters"] |= {"dev": [recorded("asked", ["Goethe"])]}  # type: ignore[operator]
    assert post(program, "jobs", body).status_code == 201


def test_one_question_set_may_have_questions_with_and_without_answers(
    program: TokenClient, index: IndexGeneration
) -> None:
    both = {"model": index.model_id, "index": index.pk, "questions": [recorded("both", ["Goethe"], [])]}
    assert post(program, "jobs", {"kind": "calibrate", "parameters": both}).status_code == 201
