"""Two models on the same questions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.evaluation.answering_code import answering_code
from realm_core.evaluation.predictions import Prediction
from realm_core.evaluation.why import CAUSES, UNANSWERABLE, Why
from realm_core.model.config import Calibration, ModelConfig
from realm_core.model.tasks import OWN
from tests.web.conftest import Person
from tests.web.console import ANSWERS, another_model, measured, question_set, write_files
from tests.web.operating import TokenClient, problem, walk
from tests.web.pages import stored
from tests.web.pages.pages import Page, text_of
from webapp.evaluations import service as comparing
from webapp.evaluations.outcomes import Predicted
from webapp.evaluations.service import Candidate, Differ
from webapp.models import Collection, Deployment, Evaluation, Job, ModelVersion, Purpose, QuestionSet

_K = ModelConfig().k
pytestmark = pytest.mark.django_db


@pytest.fixture
def both() -> tuple[Evaluation, Evaluation]:
    """The first says 1, 2 right; the second 1, 3; both are wrong on the last, in different words."""
    now = stored.deployment()
    questions = question_set()
    first = measured(now.model, now.index, questions, (ANSWERS[0], ANSWERS[1], "Paro", "Iron"))
    second = measured(another_model(), now.index, questions, (ANSWERS[0], "1961", ANSWERS[2], "Osmium"))
    return first, second


def test_counts_and_difference_are_of_the_questions(both: tuple[Evaluation, Evaluation]) -> None:
    compared = comparing.compare(*both, show=None)
    assert compared.counts == {Differ.FIRST: 1, Differ.SECOND: 1, Differ.ANSWER: 1}
    assert (compared.difference.n, compared.difference.difference, compared.difference.p) == (4, 0.0, 1.0)
    assert [pair.first.question for pair in compared.shown] == [
        "When did the Wall fall?",
        "What is the capital of Bhutan?",
    ]
    for show, said in ((Differ.FIRST, "1961"), (Differ.SECOND, "Thimphu"), (Differ.ANSWER, "Osmium")):
        assert [pair.second.prediction for pair in comparing.compare(*both, show=show).shown] == [said]


def test_two_versions_of_a_model_are_told_apart(both: tuple[Evaluation, Evaluation], staff: Person) -> None:
    first, second = both
    ModelVersion.objects.filter(pk=second.model_id).update(name=first.model.name, version="0f3a9c1b")
    page = text_of(staff.client.get(f"/manage/compare/{first.pk}/{second.pk}/"))
    assert f"{first.model.name}: {first.model.version} and 0f3a9c1b" in page and "B 0f3a9c1b" in page


def test_only_the_same_questions_are_compared(both: tuple[Evaluation, Evaluation]) -> None:
    first, second = both
    other = measured(second.model, first.index, question_set("other"), ANSWERS)  # type: ignore[arg-type]
    with pytest.raises(RealmError, match="different questions"):
        list(comparing.pairs(first, other))
    Evaluation.objects.filter(pk=other.pk).update(questions=first.questions)
    other.refresh_from_db()
    lines = (comparing.resolve(other.predictions)).read_text().splitlines()
    comparing.resolve(other.predictions).write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + "\n")
    with pytest.raises(RealmError, match="not of the same questions"):
        list(comparing.pairs(first, other))


def test_the_page_shows_both_answers(both: tuple[Evaluation, Evaluation], staff: Person) -> None:
    first, second = both
    page = staff.client.get(f"/manage/compare/{first.pk}/{second.pk}/").content.decode()
    assert "±0.0" in page and "50.0\xa0%" in page
    assert "That may be chance" in page and "Documents were edited" not in page
    assert "1989" in page and "1961" in page and "Osmium" not in page
    assert "Osmium" in staff.client.get(f"/manage/compare/{first.pk}/{second.pk}/?show=answer").content.decode()
    comparing.resolve(second.predictions).unlink()
    gone = staff.client.get(f"/manage/compare/{first.pk}/{second.pk}/")
    assert gone.status_code == 422 and b"does not exist" in gone.content


def test_answers_are_kept_from_who_may_not_read_all_collections(
    both: tuple[Evaluation, Evaluation], staff: Person, curator: Person
) -> None:
    address = f"/manage/compare/{both[0].pk}/{both[1].pk}/"
    assert "1961" in curator.client.get(address).content.decode()
    Collection.objects.create(name="board", private=True)
    kept = curator.client.get(address).content.decode()
    assert "1961" not in kept and "50.0\xa0%" in kept and "private collection" in kept
    assert "1961" in staff.client.get(address).content.decode()


def test_an_upgrade_between_two_evaluations_is_told_of(both: tuple[Evaluation, Evaluation], staff: Person) -> None:
    first, second = both
    address, told = f"/manage/compare/{first.pk}/{second.pk}/", "Different versions of this program"
    assert told not in staff.client.get(address).content.decode()
    Evaluation.objects.filter(pk=first.pk).update(figures=first.figures | {"of": {"code": "earlier"}})
    assert told in staff.client.get(address).content.decode()
    Evaluation.objects.filter(pk=second.pk).update(figures=second.figures | {"of": {"code": "earlier"}})
    assert told not in staff.client.get(address).content.decode()


def test_what_an_earlier_version_measured_is_told_of_wherever_it_is_listed(
    both: tuple[Evaluation, Evaluation], staff: Person, curator: Person
) -> None:
    first, second = both

    def told(address: str, person: Person = staff) -> int:
        return person.client.get(address).content.decode().lower().count("earlier version")

    own, other = f"/manage/evaluations/{first.pk}/", f"/manage/evaluations/{second.pk}/"
    lists = ("/manage/models/", f"/manage/models/{first.model_id}/", f"/manage/indexes/{first.index_id}/")
    for one in both:  # as the list of models shows it
        values = {"k": _K, "normalisation": OWN, "figures": one.figures | {"of": {"code": answering_code()}}}
        Evaluation.objects.filter(pk=one.pk).update(**values)
    assert [told(address) for address in (own, other, *lists)] == [0, 0, 0, 0, 0]
    Evaluation.objects.filter(pk=first.pk).update(figures=first.figures | {"of": {"code": "earlier"}})
    assert [told(address) for address in (own, other, *lists)] == [1, 1, 1, 1, 1]
    assert f"questions={first.questions_id}" in staff.client.get(own).content.decode()
    assert (told(own, curator), "Measure again" in curator.client.get(own).content.decode()) == (1, False)


def test_an_edit_between_two_evaluations_is_told_of(both: tuple[Evaluation, Evaluation], staff: Person) -> None:
    first, second = both
    Evaluation.objects.filter(pk=second.pk).update(state_id="0123456789abcdef")
    assert (
        "Documents were edited between" in staff.client.get(f"/manage/compare/{first.pk}/{second.pk}/").content.decode()
    )
    assert "state 0123456789abcdef" in staff.client.get(f"/manage/evaluations/{second.pk}/").content.decode()
    second.refresh_from_db()
    assert (
        comparing.measured_alike(
            comparing.Candidate(first.model, first.corpus), comparing.Candidate(second.model, second.corpus)
        )
        == []
    )


def test_no_p_value_is_shown_for_models_that_are_right_on_the_same_questions(
    both: tuple[Evaluation, Evaluation], staff: Person
) -> None:
    first, second = both
    same = measured(second.model, first.index, first.questions, ANSWERS)  # type: ignore[arg-type]
    alike = measured(first.model, first.index, first.questions, ANSWERS)  # type: ignore[arg-type]
    page = staff.client.get(f"/manage/compare/{alike.pk}/{same.pk}/").content.decode()
    assert "Both are right on the same questions: these 4 do not tell them apart." in page and "chance" not in page


def test_pages_of_many_questions(
    both: tuple[Evaluation, Evaluation], staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.evaluations.views._PAGE_SIZE", 1)
    first, second = both
    address = f"/manage/compare/{first.pk}/{second.pk}/"
    page = staff.client.get(address).content.decode()
    assert "Wall" in page and "Bhutan" not in page and 'href="?page=2"' in page
    assert "Bhutan" in staff.client.get(f"{address}?page=2").content.decode()


def test_choosing_models_leads_to_the_comparison_or_to_what_is_missing(staff: Person) -> None:
    now = stored.deployment()
    tuned, questions = another_model(), question_set()
    for model in (now.model, tuned):  # whose folders say how they read
        write_files(model, now.index, now.index.corpus)
    chosen = {
        "first": now.model_id,
        "second": tuned.pk,
        "questions": questions.pk,
        "corpus": now.index.corpus_id,
        "sample": 0,
    }
    first = measured(now.model, now.index, questions, ANSWERS)
    page = staff.client.get("/manage/compare/", chosen).content.decode()
    assert "Not measured yet" in page and re.search(rf"<li>{tuned} on plain-dev, all 4 questions</li>", page)
    staff.client.post("/manage/compare/measure/", chosen)
    job = Job.objects.get()
    assert (job.kind, job.parameters["model"], job.parameters["index"]) == ("evaluate", tuned.pk, now.index_id)
    assert job.created_by == staff.user
    page = staff.client.get("/manage/compare/", chosen).content.decode()
    assert f'under way: <a href="/manage/jobs/{job.pk}/">queued' in page and "Measure now" not in page
    larger = staff.client.get("/manage/compare/", {**chosen, "sample": 200}).content.decode()
    assert "plain-dev, all 4 questions" in larger and "under way" in larger and "Measure now" not in larger
    other = staff.client.get("/manage/compare/", {**chosen, "sample": 2}).content.decode()
    assert "under way" not in other and "Measure now" in other
    second = measured(tuned, now.index, questions, ANSWERS)
    response = staff.client.get("/manage/compare/", chosen)
    assert response["Location"] == f"/manage/compare/{first.pk}/{second.pk}/"
    assert staff.client.get("/manage/compare/", {**chosen, "sample": 2}).status_code == 200  # another sample is missing
    larger = staff.client.get("/manage/compare/", {**chosen, "sample": 200})  # than the set
    assert larger["Location"] == response["Location"]
    same = staff.client.get("/manage/compare/", {**chosen, "second": now.model_id})
    assert same.status_code == 422 and b"Choose another model" in same.content
    assert b"Choose another" not in staff.client.get("/manage/compare/", {"second": tuned.pk}).content  # not yet chosen


def test_without_an_index_there_is_a_sentence(staff: Person) -> None:
    now = stored.deployment()
    questions = question_set()
    lonely = another_model(block_hash="of nothing")
    candidates = [Candidate(lonely, now.index.corpus)]
    with pytest.raises(RealmError, match="build one first"):
        comparing.measure_missing(candidates, questions, 0, by=staff.user)  # type: ignore[arg-type]
    learnt = question_set("learnt", Purpose.LEARN)
    with pytest.raises(RealmError, match="is a set to train on"):
        comparing.measure_missing(candidates, learnt, 0, by=staff.user)  # type: ignore[arg-type]


def test_the_page_of_one_evaluation(both: tuple[Evaluation, Evaluation], staff: Person) -> None:
    first, second = both
    page = staff.client.get(f"/manage/evaluations/{first.pk}/").content.decode()
    error = f"{100 * first.figures['ece']:.1f}\xa0%"  # as on the page of the job that measured it
    assert f'<dt>Calibration error</dt><dd class="num">{error} ' in page
    assert "50.0\xa0% of 4 questions" in page and f"/manage/compare/{first.pk}/{second.pk}/" in page
    for panel in ("figures", "calibration"):
        image = staff.client.get(f"/manage/evaluations/{first.pk}/{panel}.svg")
        assert image["Content-Type"].startswith("image/svg+xml") and b"</svg>" in image.content
    assert staff.client.get(f"/manage/evaluations/{first.pk}/other.svg").status_code == 404


def test_answers_to_questions_without_an_answer_are_counted(staff: Person) -> None:
    now, questions, answers = stored.deployment(), question_set(), (ANSWERS[0], ANSWERS[1], "", "")
    first = measured(now.model, now.index, questions, (ANSWERS[0], "1961", "Paro", ""), answers=answers)
    second = measured(another_model(), now.index, questions, (ANSWERS[0], "1961", "", ""), answers=answers)
    assert (first.exact_match, second.exact_match, first.recall_at_5) == (0.5, 0.75, 1.0)
    page = staff.client.get(f"/manage/evaluations/{first.pk}/").content.decode()
    assert re.search(r"50\.0.% of the 2 <", page)
    page = staff.client.get(f"/manage/compare/{first.pk}/{second.pk}/").content.decode()
    assert re.search(r"Answered without an answer, of 2</th>\s*<td[^>]*>50\.0.%</td><td[^>]*>0\.0.%</td>", page)
    assert "Paro" in page and "Nothing was given." in page and "no answer exists" in page and "Iron" not in page


@pytest.fixture
def mixed() -> Evaluation:
    """Right, wrong and silent; of the fourth, which has no answer, silence is right. The second is withheld."""
    now, questions = stored.deployment(), question_set()
    evaluation = measured(
        now.model, now.index, questions, (ANSWERS[0], "1989", "Paro", ""), answers=(*ANSWERS[:3], ""), given=(0, 2)
    )
    assert evaluation.exact_match == 0.75
    return evaluation


def test_each_share_says_of_how_many_questions_it_is(mixed: Evaluation, staff: Person) -> None:
    page = Page(staff.client.get(f"/manage/evaluations/{mixed.pk}/").content.decode())
    facts = {name: said for (_, name), (_, said) in zip(page.all("dt"), page.all("dd"), strict=True)}
    assert facts["Exact match"] == "75.0 % of 4 questions; 1 of them has no answer; silence is right there"
    assert facts["Exact match as given"].startswith("50.0 % of 4 ")
    assert facts["Recall at 5"] == "100.0 % of the 3 that have an answer"
    assert facts["Withheld"] == "33.3 % of the 3 that have an answer too unlikely to be given"


def test_the_page_lists_the_questions(mixed: Evaluation, staff: Person, curator: Person) -> None:
    address = f"/manage/evaluations/{mixed.pk}/"

    def questions(show: str, person: Person = staff) -> str:
        return Page(person.client.get(address, {"show": show} if show else {}).content.decode()).one("main")

    wrong = questions("")
    assert "Wrong 1 Right, but withheld 1 Right 2 All 4" in wrong
    assert "What is the capital of Bhutan? SaidParo 75.0 % wrong from A block RightThimphu" in wrong
    assert "When did the Wall fall?" not in wrong
    withheld = questions("withheld")
    assert "SaidNothing was given. Nearest: 1989 75.0 % right, but withheld from A block Right1989" in withheld
    assert "Rightno answer exists" in questions("right") and "Paro" in questions("all")
    assert "Paro" in questions("wrong", curator)
    Collection.objects.create(name="board", private=True)
    assert "Paro" in questions("wrong") and "Paro" not in questions("wrong", curator)
    comparing.resolve(mixed.predictions).unlink()
    gone = staff.client.get(address)
    assert gone.status_code == 200 and b"does not exist" in gone.content and b"75.0" in gone.content


def test_the_questions_open_on_what_there_is(staff: Person) -> None:
    now, questions = stored.deployment(), question_set()

    def opened(given: tuple[int, ...] | None) -> str:
        named = {} if given is None else {"given": given}
        evaluation = measured(now.model, now.index, questions, ANSWERS, **named)
        return Page(staff.client.get(f"/manage/evaluations/{evaluation.pk}/").content.decode()).one("main")

    told = "All 4 are answered right"
    right = opened(None)
    assert told in right and "Wrong 0" in right and f"Right{ANSWERS[3]}" in right and "no such question" not in right
    withheld = opened((0, 1, 2))
    assert told not in withheld and f"Nearest: {ANSWERS[3]}" in withheld and f"Right{ANSWERS[0]}" not in withheld


def test_the_questions_over_rest(mixed: Evaluation, program: TokenClient) -> None:
    address = f"evaluations/{mixed.pk}/predictions"

    def found(query: str = "") -> list[tuple[int, str]]:
        pages = walk(program, f"/api/v1/{address}{query}")
        return [(one["number"], one["outcome"]) for page in pages for one in page["results"]]

    assert found() == [(1, "right"), (2, "withheld"), (3, "wrong"), (4, "right")]
    assert found("?outcome=wrong") == [(3, "wrong")]
    assert found("?outcome=right&page_size=1") == [(1, "right"), (4, "right")]
    first = program.get(f"/api/v1/{address}").json()["results"][0]
    assert (first["answers"], first["given"], first["cause"]) == ([ANSWERS[0]], True, None)
    assert problem(program.get(f"/api/v1/{address}?outcome=else"), 400)
    comparing.resolve(mixed.predictions).unlink()
    assert "does not exist" in problem(program.get(f"/api/v1/{address}"), 404)["detail"]


def test_the_cause_is_said_if_it_was_looked_for() -> None:
    about = ("Who?", ("A",), "string", "B", 0.5, None, True, False, None, (), 1.0)
    assert Predicted(1, Prediction(*about)).cause == ""
    for cause in (*CAUSES, UNANSWERABLE):
        assert bool(Predicted(1, Prediction(*about, why=Why(cause))).cause) == (cause != "right")


@pytest.fixture
def explained(both: tuple[Evaluation, Evaluation]) -> Evaluation:
    """The first of both again, with causes."""
    first, _ = both
    assert first.index is not None
    said, causes = (ANSWERS[0], "1961", "Paro", "Iron"), ("right", "misread", "misread", "not_in_corpus")
    return measured(first.model, first.index, first.questions, said, causes=causes)


def test_causes_are_counted_and_each_question_has_its_own(explained: Evaluation, staff: Person) -> None:
    page = text_of(staff.client.get(f"/manage/evaluations/{explained.pk}/"))
    assert "Misread 2 of 4 the blocks read that say it were read as another answer" in page
    assert "Not in the corpus 1 of 4" in page and "Not retrieved 0 of 4" in page
    assert "Right, but withheld 0 of 4" in page and "Outweighed 0 of 4" in page
    chosen = staff.client.get(f"/manage/evaluations/{explained.pk}/?cause=misread").content.decode()
    assert "1961" in chosen and "Paro" in chosen and "Osmium" not in chosen and "Iron" not in chosen
    assert staff.client.get(f"/manage/evaluations/{explained.pk}/?cause=none").status_code == 200


def test_causes_over_rest(explained: Evaluation, program: TokenClient) -> None:
    address = f"/api/v1/evaluations/{explained.pk}"
    counts = dict.fromkeys(CAUSES, 0) | {"right": 1, "misread": 2, "not_in_corpus": 1}
    assert program.get(address).json()["figures"]["why"] == counts
    found = program.get(f"{address}/predictions?cause=misread").json()["results"]
    assert [(one["number"], one["cause"]) for one in found] == [(2, "misread"), (3, "misread")]
    assert program.get(f"{address}/predictions?cause=misread&outcome=right").json()["results"] == []
    problem(program.get(f"{address}/predictions?cause=else"), 400)


def test_causes_are_compared_where_both_were_looked_for(
    both: tuple[Evaluation, Evaluation], explained: Evaluation, staff: Person
) -> None:
    second = both[1]
    plain = staff.client.get(f"/manage/compare/{explained.pk}/{second.pk}/").content.decode()
    assert "Misread" not in plain
    assert second.index is not None
    causes = ("right", "misread", "right", "withheld")
    other = measured(second.model, second.index, second.questions, ANSWERS, causes=causes)
    rows = text_of(staff.client.get(f"/manage/compare/{explained.pk}/{other.pk}/"))
    assert "Misread 50.0 % 25.0 % −25.0" in rows and "Right, but withheld 0.0 % 25.0 % +25.0" in rows
    assert "That was not looked for." in text_of(staff.client.get(f"/manage/evaluations/{second.pk}/"))


def test_with_one_model_there_is_nothing_to_compare(staff: Person) -> None:
    stored.deployment()
    assert (ModelVersion.objects.count(), QuestionSet.objects.count()) == (1, 0)
    assert b"are needed" in staff.client.get("/manage/compare/").content
    assert Deployment.active() is not None


@pytest.mark.parametrize(("source", "k"), [("default", 5), ("jsonl", 8)])
def test_the_calibration_for_a_corpus_decides_how_many_blocks_are_read(
    both: tuple[Evaluation, Evaluation], tmp_path: Path, source: str, k: int
) -> None:
    first, _ = both
    config = ModelConfig().calibrated(Calibration(), "default en", Calibration(k=8))
    (tmp_path / "config.json").write_text(json.dumps({"model": config.as_dict()}))
    first.model.path = str(tmp_path)
    first.corpus.source, first.corpus.language = source, "en"
    assert comparing.own_k(first.model, first.corpus) == k
