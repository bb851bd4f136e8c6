"""Deploying and going back: what is looked at beforehand, what is refused, and what a person must confirm."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from realm_core.errors import RealmError
from realm_core.files import read_json, write_json
from realm_core.model.identity import model_hash
from realm_core.pace import Rests
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.console import (
    ANSWERS,
    another_corpus,
    another_index,
    another_model,
    measured,
    question_set,
    whole,
    write_files,
)
from tests.web.pages import stored
from webapp.deployments import service as deploying
from webapp.deployments.service import CONFIRMATION, NotConfirmed, Verdict
from webapp.evaluations import service as comparing
from webapp.jobs import service as jobs
from webapp.models import AuditEntry, Deployment, Evaluation, IndexGeneration, Job, ModelVersion
from webapp.serving.engine import holder
from webapp.storage.places import resolve

pytestmark = pytest.mark.django_db
WORSE = (ANSWERS[0], ANSWERS[1], "no", "no")
BETTER = (ANSWERS[0], ANSWERS[1], ANSWERS[2], "no")


@pytest.fixture
def now() -> Deployment:
    """What answers."""
    return whole(stored.deployment())


def rival(now: Deployment) -> tuple[ModelVersion, IndexGeneration]:
    """Another model with an index of its own, whole on the disk."""
    model = another_model(block_hash="other")
    index = another_index(model)
    write_files(model, index, now.index.corpus)
    return model, index


def verdicts(check: deploying.PairCheck) -> dict[str, Verdict]:
    return {one.about: one.verdict for one in check.findings}


def test_the_same_model_over_another_index_of_the_corpus_raises_no_doubt(now: Deployment) -> None:
    again = another_index(now.model)
    write_files(now.model, again, now.index.corpus)
    check = deploying.check(again)
    assert set(verdicts(check).values()) == {Verdict.GOOD} and list(verdicts(check)) == [
        "Model and index",
        "Files of the model",
        "Files of the index",
        "Files of the corpus",
        "Quality",
    ]
    deployed = deploying.deploy(again, note="why")
    assert (Deployment.active(), deployed.note) == (deployed, "why")


@pytest.mark.parametrize(("articles", "verdict"), [(4, Verdict.DOUBT), (9_600, Verdict.GOOD)])
def test_how_many_articles_go_and_come_is_said_and_a_loss_of_most_needs_a_person(
    now: Deployment, articles: int, verdict: Verdict
) -> None:
    corpus = another_corpus("rooms", articles=articles, blocks=articles)
    small = another_index(now.model, corpus=corpus)
    write_files(now.model, small, corpus)
    measured(now.model, now.index, questions := question_set(), ANSWERS)
    measured(now.model, small, questions, ANSWERS)
    (size,) = (one for one in deploying.check(small).findings if one.about == "Articles")
    assert size.verdict is verdict
    if articles == 4:
        assert size.says == (
            f"4 articles in 4 blocks take the place of {now.index.corpus.articles:,} articles in "
            f"{now.index.corpus.blocks:,} blocks (−10,029 articles, −20,996 blocks): "
            "questions are answered from rooms alone then, and no longer from vital-en."
        )
        with pytest.raises(NotConfirmed, match="take the place"):
            deploying.deploy(small)
    else:
        deploying.deploy(small)


def test_pairs_that_read_as_many_blocks_as_each_is_set_to_are_compared(
    now: Deployment, staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model reads another number of blocks of a corpus with another calibration; who measures both is not told that
    nobody did."""
    rooms = another_corpus("rooms", articles=9_600)
    index = another_index(now.model, corpus=rooms)
    write_files(now.model, index, rooms)
    monkeypatch.setattr(comparing, "own_k", lambda _, corpus: 8 if corpus == rooms else 5)
    first = measured(now.model, now.index, questions := question_set(), ANSWERS, k=5)
    measured(now.model, index, questions, BETTER, k=20)
    assert verdicts(deploying.check(index))["Quality"] == Verdict.DOUBT  # as many as it would not read
    second = measured(now.model, index, questions, ANSWERS, k=8)
    assert verdicts(deploying.check(index))["Quality on plain-dev"] == Verdict.GOOD
    page = staff.client.get(f"/manage/compare/{first.pk}/{second.pk}/").content.decode()
    assert "as its model is set to over its corpus: A 5, B 8." in page
    deploying.deploy(index)


def test_the_check_reads_with_rests_for_those_who_ask_meanwhile(
    now: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests = list[None]()
    monkeypatch.setattr(Rests, "rest", lambda self: rests.append(None))
    deploying.check(now.index)
    assert len(rests) >= 3  # model, index and corpus


def test_a_model_that_does_not_fit_the_index_is_refused(now: Deployment) -> None:
    model, _ = rival(now)
    assert verdicts(deploying.check(now.index, model))["Model and index"] == Verdict.BAD  # and a page says so
    with pytest.raises(RealmError, match="embeds blocks differently"):
        deploying.deploy(now.index, model=model, confirmed=True)
    assert Deployment.active() == now and not AuditEntry.objects.exists()


def test_a_folder_that_holds_another_model_by_now_is_refused(now: Deployment) -> None:
    model, index = rival(now)
    assert deploying.check(index).refusal == ""
    newer = another_model("newer", block_hash="other")
    newer.path = model.path
    write_files(newer, index, now.index.corpus)  # a later release, over the files of the earlier one
    with pytest.raises(RealmError, match="holds another model by now"):
        deploying.deploy(index, confirmed=True)
    assert Deployment.active() == now


@pytest.mark.parametrize("damage", ["lost", "changed", "no manifest", "a manifest of nothing"])
@pytest.mark.parametrize("part", ["model", "index", "corpus"])
def test_files_that_are_not_whole_are_refused(now: Deployment, part: str, damage: str) -> None:
    _, index = rival(now)
    folder, name, manifest = {
        "model": (resolve(index.model.path), "model.safetensors", "config.json"),
        "index": (resolve(index.path), "vectors-00000.safetensors", "manifest.json"),
        "corpus": (resolve(index.corpus.path), "blocks.arrow", "manifest.json"),
    }[part]
    assert deploying.check(index).refusal == ""  # and remembers the checksums of what was whole
    if damage == "lost":
        (folder / name).unlink()
    elif damage == "changed":
        (folder / name).write_text("something else")
    elif damage == "no manifest":
        (folder / manifest).unlink()
    else:
        (folder / manifest).write_text("{}")
    check = deploying.check(index)
    assert verdicts(check)[f"Files of the {part}"] == Verdict.BAD
    assert "Quality" not in verdicts(check)  # of what cannot be deployed nobody asks
    with pytest.raises(RealmError, match=f"The {part} cannot be used"):
        deploying.deploy(index, confirmed=True)
    assert Deployment.active() == now


def test_a_training_that_took_the_calibration_away_needs_a_person_s_word(now: Deployment) -> None:
    def fit(model: ModelVersion, slope: float) -> None:
        path = resolve(model.path) / "config.json"
        config = read_json(path)
        config.pop("checksum", None)
        config["model"]["confidence_slope"] = slope
        write_json(path, config, sealed=True)
        model.model_hash = model_hash(config)
        model.save()

    _, index = rival(now)
    assert "Calibration" not in verdicts(deploying.check(index)), "the active deployment is not calibrated either"
    fit(now.model, 0.8)
    check = deploying.check(index)
    assert verdicts(check)["Calibration"] == Verdict.DOUBT
    with pytest.raises(NotConfirmed, match="not calibrated since it was trained"):
        deploying.deploy(index)
    fit(index.model, 0.7)
    assert verdicts(deploying.check(index))["Calibration"] == Verdict.GOOD


def test_what_was_never_measured_needs_a_person_s_word(now: Deployment, staff: Person) -> None:
    model, index = rival(now)
    with pytest.raises(NotConfirmed, match="never measured") as caught:
        deploying.deploy(index, by=staff.user)
    assert caught.value.check.index == index and Deployment.active() == now
    deployed = deploying.deploy(index, by=staff.user, confirmed=caught.value.check.digest)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.by, entry.target) == ("deploy", staff.user, f"{model} over {index.generation}")
    assert entry.details["deployment"] == deployed.pk and entry.details["instead_of"] == now.pk
    assert entry.details["found"]["Quality"] == caught.value.check.doubts[0]
    assert entry.details["confirmed"] == [
        CONFIRMATION,
        "It was never measured on the same questions as the active deployment.",
    ]


def test_a_confirmation_counts_only_for_the_doubts_that_were_shown(now: Deployment) -> None:
    model, index = rival(now)
    read = deploying.check(index).digest
    questions = question_set()
    measured(now.model, now.index, questions, BETTER)
    measured(model, index, questions, WORSE)
    with pytest.raises(NotConfirmed, match="answers worse") as caught:  # not that it was never measured
        deploying.deploy(index, confirmed=read)
    elsewhere = another_index(now.model, "gen-again")
    write_files(now.model, elsewhere, now.index.corpus)
    deploying.deploy(elsewhere)  # the same doubts, in the place of another deployment
    with pytest.raises(NotConfirmed):
        deploying.deploy(index, confirmed=caught.value.check.digest)
    deployed = deploying.deploy(index, confirmed=deploying.check(index).digest)
    assert Deployment.active() == deployed


def test_a_confirmation_counts_for_one_pair(now: Deployment) -> None:
    model, index = rival(now)
    again = another_index(model, "gen-again")
    twin = another_model("twin", block_hash="other")  # which fits the same indexes
    pairs = [(index, model), (again, model), (index, twin)]
    for one, other in pairs[1:]:
        write_files(other, one, now.index.corpus)
    checks = [deploying.check(*pair) for pair in pairs]
    assert len({check.doubts for check in checks}) == 1 and len({check.digest for check in checks}) == 3


def test_a_deployment_made_during_the_check_is_not_replaced(now: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    again = another_index(now.model)
    write_files(now.model, again, now.index.corpus)
    before = deploying.check

    def then(*args: Any) -> deploying.PairCheck:
        found = before(*args)
        Deployment.activate(now.index, note="somebody else's")
        return found

    monkeypatch.setattr(deploying, "check", then)
    with pytest.raises(RealmError, match="activated meanwhile"):
        deploying.deploy(again)
    active = Deployment.active()
    assert active is not None and active.note == "somebody else's"


def test_a_pair_that_measures_worse_must_be_confirmed(now: Deployment) -> None:
    model, index = rival(now)
    questions = question_set()
    measured(now.model, now.index, questions, BETTER)
    measured(model, index, questions, WORSE)
    check = deploying.check(index)
    assert len(check.doubts) == 1 and "worse on plain-dev: 50.0 % of 4 questions right, 75.0 %" in check.doubts[0]
    assert "difference −25.0" in check.doubts[0] and "points, which may be chance)" in check.doubts[0]
    measured(model, index, questions, ANSWERS)  # measured again: the newest counts
    check = deploying.check(index)
    assert check.doubts == () and verdicts(check)["Quality on plain-dev"] == Verdict.GOOD
    (said,) = [one.says for one in check.findings if one.about == "Quality on plain-dev"]
    assert "Different versions" not in said
    Evaluation.objects.filter(model=model).update(figures={"of": {"code": "later"}})
    (said,) = [one.says for one in deploying.check(index).findings if one.about == "Quality on plain-dev"]
    assert said.endswith("Different versions of this program answered, so the difference is not theirs alone.")
    assert deploying.deploy(index) == Deployment.active()
    assert AuditEntry.objects.get().details["confirmed"] == []


@pytest.mark.parametrize(
    "other", [{"sample": 2}, {"k": 20}, {"retriever": "bm25"}, {"normalisation": "block"}], ids=str
)
def test_measurements_that_cannot_be_compared_do_not_count(now: Deployment, other: dict[str, object]) -> None:
    model, index = rival(now)
    questions = question_set()
    measured(now.model, now.index, questions, WORSE)
    measured(model, index, questions, BETTER, **other)
    assert verdicts(deploying.check(index))["Quality"] == Verdict.DOUBT


def test_predictions_that_are_gone_are_a_doubt_and_no_crash(now: Deployment) -> None:
    model, index = rival(now)
    questions = question_set()
    measured(now.model, now.index, questions, WORSE)
    resolve(measured(model, index, questions, BETTER).predictions).unlink()
    (doubt,) = deploying.check(index).doubts
    assert "cannot be compared" in doubt and "does not exist" in doubt


def test_the_page_says_what_was_found_and_asks_for_the_word(now: Deployment, staff: Person) -> None:
    model, index = rival(now)
    question_set()
    address = f"/manage/deployments/deploy/?index={index.pk}"
    page = staff.client.get(address).content.decode()
    assert "It was never measured" in page and CONFIRMATION in page and 'name="confirmed"' in page
    assert str(now.model) in page and str(model) in page
    refused = staff.client.post("/manage/deployments/deploy/", {"index": index.pk, "note": "a reason"})
    assert refused.status_code == 422 and b"confirm this first" in refused.content and b"a reason" in refused.content
    assert Deployment.active() == now
    form = {"index": index.pk, "note": "a reason", "confirmed": "1"}
    other = staff.client.post("/manage/deployments/deploy/", form)
    assert other.status_code == 422 and b"no longer what you confirmed" in other.content
    form["confirmed"] = deploying.check(index).digest
    assert f'value="{form["confirmed"]}"' in page
    done = staff.client.post("/manage/deployments/deploy/", form, follow=True)
    active = Deployment.active()
    assert active is not None and (active.index, active.activated_by, active.note) == (index, staff.user, "a reason")
    assert f"Deployment {active.pk} answers questions as soon as it is loaded".encode() in done.content


def test_a_pair_that_cannot_be_deployed_has_no_button(now: Deployment, staff: Person) -> None:
    _, index = rival(now)
    (resolve(index.path) / "manifest.json").unlink()
    page = staff.client.get(f"/manage/deployments/deploy/?index={index.pk}").content.decode()
    assert "does not exist" in page and 'id="deploy"' not in page
    refused = staff.client.post("/manage/deployments/deploy/", {"index": index.pk, "confirmed": "1"})
    assert refused.status_code == 422 and b"does not exist" in refused.content
    assert Deployment.active() == now


def test_both_are_measured_from_the_page(now: Deployment, staff: Person) -> None:
    model, index = rival(now)
    questions = question_set()
    form = {"index": index.pk, "model": model.pk, "questions": questions.pk, "sample": 2}
    response = staff.client.post("/manage/deployments/measure/", form)
    assert response["Location"] == f"/manage/deployments/deploy/?index={index.pk}&model={model.pk}"
    asked = {(job.parameters["model"], job.parameters["index"]) for job in Job.objects.all()}
    assert asked == {(model.pk, index.pk), (now.model_id, now.index_id)}
    assert {(job.parameters["sample"], job.parameters["questions"]) for job in Job.objects.all()} == {(2, questions.pk)}
    staff.client.post("/manage/deployments/measure/", form)
    assert Job.objects.count() == 2  # they are under way
    third = another_model("third")
    jobs.start("evaluate", {"index": now.index_id, "model": third.pk, "questions": questions.pk}, by=None)
    page = staff.client.get(response["Location"]).content.decode()
    told = page[page.index("Evaluations are under way") : page.index("Look again")]
    theirs = {str(job.pk) for job in Job.objects.exclude(parameters__model=third.pk)}
    assert set(re.findall('href="/manage/jobs/([^/"]*)/"', told)) == theirs


def test_who_measures_what_has_been_measured_is_told(now: Deployment, staff: Person) -> None:
    model, index = rival(now)
    questions = question_set()
    for one, its in ((now.model, now.index), (model, index)):
        measured(one, its, questions, BETTER)
    form = {"index": index.pk, "model": model.pk, "questions": questions.pk, "sample": 0}
    page = staff.client.post("/manage/deployments/measure/", form, follow=True).content.decode()
    assert "Both have been asked these questions already" in page and not Job.objects.exists()


def test_measuring_keeps_the_note_and_the_page_it_came_from(now: Deployment, staff: Person) -> None:
    model, index = rival(now)
    form = {"index": index.pk, "model": model.pk, "questions": question_set().pk, "note": "smaller & quicker"}
    blank = staff.client.post("/manage/deployments/measure/", {**form, "sample": ""})
    assert blank.status_code == 422 and b"This field is required" in blank.content
    assert b'value="smaller &amp; quicker"' in blank.content and not Job.objects.exists()
    done = staff.client.post("/manage/deployments/measure/", {**form, "sample": 2}, follow=True)
    assert b'value="smaller &amp; quicker"' in done.content and Job.objects.count() == 2
    second = deploying.deploy(index, confirmed=True)
    back = {**form, "deployment": now.pk, "index": now.index_id, "model": now.model_id, "sample": 3}
    response = staff.client.post("/manage/deployments/measure/", back)
    assert response["Location"] == f"/manage/deployments/{now.pk}/roll-back/" and Deployment.active() == second
    assert staff.client.post("/manage/deployments/measure/", {**back, "sample": ""}).status_code == 422


def test_a_refusal_keeps_the_chosen_pair(now: Deployment, staff: Person) -> None:
    model, index = rival(now)
    form = {"index": index.pk, "model": model.pk, "questions": question_set().pk, "sample": 2, "note": "a & b"}
    staff.client.post("/manage/deployments/measure/", form)
    second = deploying.deploy(index, confirmed=True)
    Deployment.activate(now.index)
    for address, given in (
        ("/manage/deployments/deploy/", form),
        ("/manage/deployments/measure/", {**form, "sample": ""}),
        (f"/manage/deployments/{second.pk}/roll-back/", {}),
    ):
        refused = staff.client.post(address, given)
        link = re.search('<a href="([^"]*)">Look again</a>', refused.content.decode())
        assert refused.status_code == 422 and link is not None
        page = staff.client.get(html.unescape(link[1]))
        assert page.status_code == 200 and str(model) in page.content.decode()
        assert (b'value="a &amp; b"' in page.content) == bool(given)


def test_going_back_is_looked_at_too(staff: Person, loader: Loader, now: Deployment) -> None:
    _, index = rival(now)
    holder().refresh(wait=True)
    second = deploying.deploy(index, confirmed=True)
    holder().refresh(wait=True)
    assert holder().status().deployment_id == second.pk
    address = f"/manage/deployments/{now.pk}/roll-back/"
    page = staff.client.get(address).content.decode()
    assert re.search(
        r"It answered until \d+ \w+ \d{4}, \d\d:\d\d UTC, but it was never measured on the same questions", page
    )
    assert staff.client.post(address).status_code == 422 and Deployment.active() == second
    word = deploying.check(now.index, now.model).digest
    page = staff.client.post(address, {"confirmed": word}, follow=True).content.decode()
    active = Deployment.active()
    assert active is not None and active.index == now.index and active.note == f"Back to deployment {now.pk}"
    assert active.note in page
    entry = AuditEntry.objects.first()
    assert entry is not None and (entry.action, entry.by) == ("roll-back", staff.user)
    holder().refresh(wait=True)
    assert holder().status().deployment_id == active.pk
    assert staff.client.get(f"/manage/deployments/{active.pk}/roll-back/").status_code == 302  # it answers already
    with pytest.raises(RealmError, match="is active already"):
        deploying.roll_back(active)


def test_the_page_looks_until_what_was_deployed_is_loaded(staff: Person, loader: Loader, now: Deployment) -> None:
    holder().refresh(wait=True)
    loader.may_go_on.clear()
    again = Deployment.activate(another_index(now.model))
    page = staff.client.get("/manage/deployments/").content.decode()
    assert f"until then, deployment {now.pk} answers" in page and "Look again" in page
    link = re.search('hx-get="([^"]*)"', page)
    assert link is not None
    part = staff.client.get(link[1])
    assert part.status_code == 200 and b"being loaded" in part.content and b"<html" not in part.content
    loader.may_go_on.set()
    holder().refresh(wait=True)
    part = staff.client.get(link[1])
    assert part.status_code == 286 and str(again.index.generation) in part.content.decode()
    assert b"being loaded" not in part.content
    assert link[0] not in staff.client.get("/manage/deployments/").content.decode()
    Deployment.objects.update(is_active=False)
    assert b"Nothing is deployed" in staff.client.get(link[1]).content


def test_without_an_index_there_is_nothing_to_look_at(staff: Person, engine: FakeEngine) -> None:
    for query in ("", "?index=99", "?index=x", "?index=1&model=99999999999999999999"):
        assert staff.client.get(f"/manage/deployments/deploy/{query}").status_code == 404
