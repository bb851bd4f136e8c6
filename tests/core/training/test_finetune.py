"""Fine-tuning for real, on a dozen articles: it learns, being killed changes nothing, and what is wrong is named."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.files import read_json, sha256_of_file, write_json
from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_manifest_fits
from realm_core.model.checkpoint import load_model
from realm_core.questions.answers import exact_match
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.training.finetune import main
from realm_core.training.tasks import Finetune
from tests.core.conftest import Deployment
from tests.core.processes import finish, start
from tests.core.running import Listening, metrics, told
from tests.core.training.material import QUESTIONS, finetune_arguments, questions, write_lines
from tests.tiny import tiny_model, tiny_snapshot
from tests.waiting import wait_until

LEARNING: dict[str, Any] = {
    "holdout": 0.0,
    "epochs": 25,
    "batch": 6,
    "at_once": 4,
    "query_lr": 5e-3,
    "reader_lr": 5e-3,
    "head_lr": 1e-2,
    "dropout": 0.0,
}
SHORT = LEARNING | {"epochs": 2, "checkpoint_every": 2}
TERMS = ("loss", "retriever_loss", "reader_loss", "pair_loss")


def finetune(
    deployment: Deployment,
    folder: Path,
    settings: dict[str, Any],
    *options: object,
    output: str = "tuned",
    activity: Activity | None = None,
) -> Path:
    """Run it in this process; returns the model's folder. Unless told otherwise the run is in `run`."""
    run(finetune_arguments(deployment, folder, settings, *options, output=output), activity or quiet(folder / "run"))
    return folder / output


def run(words: Sequence[str], activity: Activity) -> None:
    """As the command line does, but with this activity."""
    task = told("finetune", words)
    assert isinstance(task, Finetune)
    main(task, activity)


def quiet(folder: Path) -> Activity:
    return Activity(folder, quiet=True)


@pytest.fixture(scope="module")
def learnt(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained model, `tuned`, and its `run`."""
    folder = tmp_path_factory.mktemp("finetune")
    finetune(deployment, folder, LEARNING)
    return folder


# ── It learns ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("term", TERMS)
def test_the_loss_falls(learnt: Path, term: str) -> None:
    losses = list(metrics(learnt / "run", f"finetune.{term}").values())
    assert len(losses) == 5 and losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("k", [1, 5])
def test_after_fine_tuning_more_questions_are_found_and_answered(deployment: Deployment, learnt: Path, k: int) -> None:
    found, right = [], []
    for model in (deployment.model, learnt / "tuned"):
        engine = Engine.load(model, deployment.index, deployment.corpus, device="cpu")
        asked = [(engine.ask(question, k=k), said, title) for question, said, title in QUESTIONS]
        engine.close()
        found.append(sum(answer.evidence[0].title == title for answer, _, title in asked))
        right.append(sum(exact_match(answer.answers[0].text, [said]) for answer, said, _ in asked))
    assert found[0] <= 4 and found[1] >= 11  # recall@1, times 12
    assert right[0] <= 2 and right[1] >= 10


def test_indexes_stay_right_and_word_embeddings_stay_the_bases(deployment: Deployment, learnt: Path) -> None:
    before, after = load_model(deployment.model), load_model(learnt / "tuned")
    check_manifest_fits(after, Generation.open(deployment.index).manifest, Snapshot.open(deployment.corpus))
    assert changed(before.block, after.block) == set()
    for name in ("query", "reader"):
        names = changed(before.parts()[name], after.parts()[name])
        assert {"bert.encoder.layer.0.attention.self.query.weight"} < names
        assert not any("embeddings" in tensor for tensor in names)


def changed(before: torch.nn.Module, after: torch.nn.Module) -> set[str]:
    """Names of tensors that differ in as much as a bit."""
    own, others = before.state_dict(), after.state_dict()
    return {name for name in own if not torch.equal(own[name], others[name])}


def test_the_result_tells_model_and_recipe(deployment: Deployment, learnt: Path) -> None:
    result = json.loads((learnt / "run" / "result.json").read_text())
    before, model = load_model(deployment.model), load_model(learnt / "tuned")
    counted = {"given": 12, "learnt": 12, "held_out": 0}
    result["questions"].pop("sets")  # test_learnt_right.py
    assert result == {"path": str(learnt / "tuned"), "model_hash": model.hash, "held_out": {}, "questions": counted}
    assert model.about is not None
    recipe = model.about["recipe"][-1]
    told = f"fine-tuned from {before.hash} with {deployment.index.name} on 12 questions of tiny: "
    assert recipe.startswith(told) and "'query_lr': 0.005" in recipe and "'epochs': 25" in recipe
    assert not list((learnt / "run").glob("*/"))  # checkpoints are there for resuming alone
    progress = json.loads((learnt / "run" / "progress.json").read_text())
    assert (progress["done"], progress["total"], progress["unit"]) == (50, 50, "steps")


@pytest.mark.parametrize("normalisation", ["block", "joint"])
def test_it_answers_under_the_normalisation_that_it_was_trained_under(
    deployment: Deployment, learnt: Path, tmp_path: Path, normalisation: str
) -> None:
    assert load_model(learnt / "tuned").config.normalisation == "block+null"  # the default
    tuned = finetune(deployment, tmp_path, SHORT | {"normalisation": f"'{normalisation}'"})
    assert load_model(tuned).config.normalisation == normalisation


def test_a_query_embedder_that_shall_not_learn_stays_as_it_is(deployment: Deployment, tmp_path: Path) -> None:
    before, after = load_model(deployment.model), load_model(finetune(deployment, tmp_path, SHORT | {"query_lr": 0}))
    assert changed(before.query, after.query) == set() < changed(before.reader, after.reader)


def test_with_bm25_the_reader_alone_learns_and_needs_no_index(deployment: Deployment, tmp_path: Path) -> None:
    words = finetune_arguments(deployment, tmp_path, SHORT, "--retriever", "bm25")
    del words[words.index("--index") : words.index("--index") + 2]
    run(words, quiet(tmp_path / "run"))
    before, after = load_model(deployment.model), load_model(tmp_path / "tuned")
    assert changed(before.query, after.query) == set() < changed(before.reader, after.reader)
    assert after.about is not None and " with BM25 on 12 questions" in after.about["recipe"][-1]


# ── What it learns from ─────────────────────────────────────────────────────────────────────────────────────────────


class StopsWithACheckpoint(Listening):
    """Asks to stop as soon as there is one."""

    def check(self) -> None:
        if list((self.run or Path()).glob("finetune/checkpoint-*")):
            raise Stopped


def said_of(deployment: Deployment, folder: Path, settings: dict[str, Any], *options: object) -> str:
    """What it says until its first checkpoint."""
    activity = StopsWithACheckpoint(folder / "run")
    with pytest.raises(Stopped):
        finetune(deployment, folder, SHORT | {"epochs": 50} | settings, *options, activity=activity)
    return "\n".join(["", *activity.said])


@pytest.mark.parametrize(("repeat", "learnt_from"), [({}, 13), ({"few": 3}, 15), ({"tiny": 0}, 1)])
def test_questions_count_as_often_as_their_file(
    deployment: Deployment, tmp_path: Path, repeat: dict[str, int], learnt_from: int
) -> None:
    few = [
        {"question": "When was it opened?", "answers": [r"18\d\d"], "answer_type": "regex"},
        {"question": "Who?", "answers": ["Nobody at all"]},  # stands nowhere
    ]
    files = [write_lines(tmp_path / "tiny.jsonl", questions()), write_lines(tmp_path / "few.jsonl", few)]
    inline = "{" + ", ".join(f"{name} = {times}" for name, times in repeat.items()) + "}"
    assert f"\n{learnt_from} questions to train on, 0 held out." in said_of(
        deployment, tmp_path, {"repeat": inline}, "--questions", *files
    )


def test_excluded_articles_answer_nothing(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "titles.json").write_text(json.dumps(["the suez canal", "Mars", "Atlantis"]))
    said = said_of(deployment, tmp_path, {}, "--exclude-titles", tmp_path / "titles.json")
    assert "\n10 questions to train on, 0 held out." in said
    assert re.search(r"\n2 questions are not learnt, because only articles that are left out .*: “.*”, “.*”\.\n", said)


def test_a_question_that_nothing_answers_is_named(deployment: Deployment, tmp_path: Path) -> None:
    asked = write_lines(tmp_path / "q.jsonl", [*questions(), {"question": "Who?", "answers": ["Nobody at all"]}])
    said = said_of(deployment, tmp_path, {}, "--questions", asked)
    assert "\n1 question is not learnt, because no block of the corpus holds an answer: “Who?”.\n" in said


@pytest.mark.parametrize(("share", "told"), [("1e-6", 1), ("0.0", 0), ("0.5", 0)])
def test_a_share_of_the_questions_that_comes_to_none_is_told_of(
    deployment: Deployment, tmp_path: Path, share: str, told: int
) -> None:
    said = said_of(deployment, tmp_path, {"holdout": share})
    assert said.count("\nNone of the 12 questions is held out, as a hash of each decides about it: nothing") == told


def test_a_question_that_is_too_long_is_cut(deployment: Deployment, tmp_path: Path) -> None:
    """An encoder has no positions for 600 wordpieces; when the question is asked, it is cut to the same 64."""
    asked = [{**row, "question": f"{'why ' * 600}{row['question']}"} for row in questions()]
    path = write_lines(tmp_path / "long.jsonl", asked)
    assert finetune(deployment, tmp_path, SHORT, "--questions", path).exists()


def test_a_share_of_the_questions_is_held_out_and_measured(deployment: Deployment, tmp_path: Path) -> None:
    many = [{**row, "question": f"{row['question']} {i}"} for row in questions() for i in range(5)]
    files = [write_lines(tmp_path / f"{name}.jsonl", many) for name in ("one", "two")]  # the same questions twice
    finetune(deployment, tmp_path, SHORT | {"holdout": 0.3, "epochs": 1, "seed": 5}, "--questions", *files)
    result = json.loads((tmp_path / "run" / "result.json").read_text())["held_out"]
    names = {"recall@1", "recall@5", "recall@20", "span"}
    assert names | {"recall@20.one", "recall@20.two", "span.one", "span.two"} <= result.keys()
    assert result["recall@1"] <= result["recall@5"] <= result["recall@20"] == 1.0  # there are but twelve blocks
    for name in ("recall@5", "span"):  # a question is on one side, whatever files it stands in
        assert result[f"{name}.one"] == result[f"{name}.two"] == result[name]
    about = load_model(tmp_path / "tuned").about
    assert about is not None and about["held_out"] == result


# ── It can be killed ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)  # two processes are started, on a machine that may be busy
def test_killed_and_stopped_it_comes_to_the_same_bytes(deployment: Deployment, tmp_path: Path) -> None:
    settings = LEARNING | {"epochs": 14, "dropout": 0.1, "checkpoint_every": 2, "holdout": 0.2}
    folder = tmp_path / "run"
    command = ["finetune", *finetune_arguments(deployment, tmp_path, settings, output="resumed"), "--run", str(folder)]

    def reached(step: int) -> bool:
        return any(int(f.name.rpartition("-")[2]) >= step for f in (folder / "finetune").glob("checkpoint-*"))

    killed = start(command)
    wait_until(lambda: reached(2), killed)
    killed.kill()
    assert finish(killed)[0] == -signal.SIGKILL
    stopped = start(command)
    wait_until(lambda: reached(6), stopped)
    stopped.send_signal(signal.SIGTERM)
    status, errors = finish(stopped)
    assert (status, "Stopped" in errors) == (3, True), errors
    assert "finetune: resuming at step" in errors
    assert not (tmp_path / "resumed").exists() and not reached(28)

    finetune(deployment, tmp_path, settings | {"metrics_every": 1}, output="resumed")
    finetune(deployment, tmp_path, settings, output="whole", activity=quiet(tmp_path / "other"))
    resumed, whole = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("resumed", "whole"))
    assert resumed == whole
    figures = [json.loads((tmp_path / name / "result.json").read_text())["held_out"] for name in ("run", "other")]
    assert figures[0] == figures[1] and {"recall@1", "span"} <= figures[0].keys()


def test_what_decides_no_batch_may_change_when_it_goes_on(deployment: Deployment, tmp_path: Path) -> None:
    said_of(deployment, tmp_path, {})
    activity = Listening(tmp_path / "run")
    finetune(deployment, tmp_path, SHORT | {"epochs": 3, "at_once": 2, "checkpoint_every": 5}, activity=activity)
    assert "finetune: the number of steps is now 6; it was 100." in activity.said
    assert "finetune: resuming at step 2 of 6." in activity.said and (tmp_path / "tuned").exists()


# ── What it refuses ─────────────────────────────────────────────────────────────────────────────────────────────────


def refused(deployment: Deployment, folder: Path, message: str, *options: object, **settings: object) -> None:
    with pytest.raises(RealmError, match=message):
        finetune(deployment, folder, SHORT | settings, *options)
    assert not (folder / "tuned").exists()


@pytest.fixture(scope="module")
def stopped_once(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    said_of(deployment, folder, {"epochs": 2})
    assert (folder / "run" / "finetune" / "checkpoint-2").exists()
    return folder


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    """A folder whose `run` holds a checkpoint."""
    shutil.copytree(stopped_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


OTHER = r"checkpoint-2 belongs to other rows or settings than this run's \(it differs in {}\); choose another"


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"seed": 2}, "seed: 1 there, 2 here"),
        ({"batch": 5}, "batch: 6 there, 5 here"),
        ({"k": 4}, "k: 5 there, 4 here"),
        ({"query_lr": 0}, "query_lr: 0.005 there, 0.0 here"),
        ({"normalisation": "'block'"}, r'normalisation: "block\+null" there, "block" here'),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(
    deployment: Deployment, stopped: Path, setting: dict[str, Any], named: str
) -> None:
    refused(deployment, stopped, OTHER.format(named), **setting)


def test_a_checkpoint_of_other_questions_or_answers_is_refused(deployment: Deployment, stopped: Path) -> None:
    named = OTHER.format("(learnt; )?questions")
    asked = [{**row, "answers": ["Egypt"]} if i == 0 else row for i, row in enumerate(questions())]
    (stopped / "other").mkdir()
    refused(deployment, stopped, named, "--questions", write_lines(stopped / "other" / "tiny.jsonl", asked))
    asked[0] = {**questions()[0], "answers": ["17 November"]}  # as often, in the same block
    refused(deployment, stopped, named, "--questions", write_lines(stopped / "other" / "tiny.jsonl", asked))
    asked[0] = {**questions()[0], "question": "When did the Suez Canal open?"}
    refused(deployment, stopped, named, "--questions", write_lines(stopped / "other" / "tiny.jsonl", asked))


def test_a_checkpoint_of_other_exclusions_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    """Also where no question is about what is excluded: other blocks are read beside the right ones."""
    asked = ["--questions", write_lines(tmp_path / "six.jsonl", questions()[:6])]
    said_of(deployment, tmp_path, {}, *asked)
    (tmp_path / "titles.json").write_text('["Berlin"]')
    refused(deployment, tmp_path, OTHER.format("excluded"), "--exclude-titles", tmp_path / "titles.json", *asked)


def test_a_checkpoint_of_another_model_is_refused(deployment: Deployment, stopped: Path) -> None:
    other = tiny_model(stopped / "models", seed=1)
    index = build(other, deployment.corpus, stopped / "indexes", Activity(quiet=True), device="cpu")
    refused(deployment, stopped, OTHER.format("model: .+ there, .+ here"), "--model", other, "--index", index)


@pytest.mark.parametrize("damage", ["missing", "resized"])
def test_a_checkpoint_whose_tensors_do_not_fit_is_refused(deployment: Deployment, stopped: Path, damage: str) -> None:
    path = stopped / "run" / "finetune" / "checkpoint-2" / "state.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.startswith("parameter."))
    if damage == "missing":
        del tensors[name]
    if damage == "resized":
        tensors[name] = torch.zeros(3, 3)
    save_file(tensors, path)
    state = read_json(path.with_name("state.json"))
    write_json(path.with_name("state.json"), {**state, "sha256": sha256_of_file(path)})
    refused(deployment, stopped, "belongs to another model")


@pytest.mark.parametrize("damage", ["cut", "one bit", "another step"])
def test_a_damaged_checkpoint_is_refused(deployment: Deployment, stopped: Path, damage: str) -> None:
    path = stopped / "run" / "finetune" / "checkpoint-2" / "state.safetensors"
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "one bit":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        state = read_json(path.with_name("state.json"))
        write_json(path.with_name("state.json"), {**state, "step": 3})
    refused(deployment, stopped, "state.safetensors cannot be read" if damage == "cut" else "checkpoint-2 is damaged")


def test_a_model_that_exists_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "tuned").mkdir()
    with pytest.raises(RealmError, match="tuned exists already; choose another name"):
        finetune(deployment, tmp_path, SHORT)


def test_a_bad_question_is_named_with_file_and_line(deployment: Deployment, tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "bad.jsonl", [*questions()[:2], {"question": "q"}])
    refused(deployment, tmp_path, r"bad\.jsonl, line 3: `answers` must be", "--questions", bad)


def test_two_files_of_one_name_are_refused(deployment: Deployment, tmp_path: Path) -> None:
    """Their questions could not be told apart in settings and figures."""
    (tmp_path / "a").mkdir()
    files = [write_lines(folder / "tiny.jsonl", questions()) for folder in (tmp_path, tmp_path / "a")]
    message = r"a/tiny\.jsonl: another question file is called tiny, too; rename one"
    refused(deployment, tmp_path, message, "--questions", *files)


def test_an_unknown_group_is_named(deployment: Deployment, tmp_path: Path) -> None:
    message = r"repeat names no question file that is given: 'plain'; there are tiny"
    refused(deployment, tmp_path, message, repeat="{plain = 2}")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ([{"question": "Who?", "answers": ["Nobody"]}], "The corpus holds an answer to none of the questions"),
        (questions()[:1], "Of the questions, 1 have their answers only in articles that are left out"),
    ],
)
def test_questions_that_nothing_answers_teach_nothing(
    deployment: Deployment, tmp_path: Path, asked: list[dict[str, Any]], says: str
) -> None:
    (tmp_path / "titles.json").write_text('["Suez Canal"]')
    options = ["--exclude-titles", tmp_path / "titles.json", "--questions", write_lines(tmp_path / "q.jsonl", asked)]
    refused(deployment, tmp_path, says, *options)


@pytest.mark.parametrize("settings", [{"holdout": "0.9999999"}, {"repeat": "{tiny = 0}"}])
def test_answers_that_stand_there_but_are_not_learnt_from_are_told_of(
    deployment: Deployment, tmp_path: Path, settings: dict[str, str]
) -> None:
    refused(deployment, tmp_path, "an answer in the corpus, 12, are all held out or repeated 0 times", **settings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"Mars": 1}', r"titles\.json is not a JSON list of titles"),
        ('["Mars", 3]', r"titles\.json is not a JSON list of titles"),
        ("[", r"titles\.json is not valid JSON"),
        (None, r"titles\.json does not exist"),
    ],
)
def test_titles_to_exclude_are_a_list(
    deployment: Deployment, tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "titles.json").write_text(content)
    refused(deployment, tmp_path, message, "--exclude-titles", tmp_path / "titles.json")


def test_an_index_of_another_model_or_corpus_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    other = tiny_model(tmp_path / "models", seed=1)
    refused(deployment, tmp_path, "was built with another block embedder", "--model", other)
    corpus = tiny_snapshot(tmp_path, {"Mars": "It has two moons."})
    refused(deployment, tmp_path, "is of corpus snapshot", "--corpus", corpus)


@pytest.mark.parametrize("rate", ["reader_lr", "query_lr"])
def test_a_model_that_diverges_is_not_saved(deployment: Deployment, tmp_path: Path, rate: str) -> None:
    message = r"finetune: the loss of step \d+ is (nan|inf); lower the learning rate"
    refused(deployment, tmp_path, message, **{rate: 1e36})


def test_a_setting_that_does_not_exist_is_named(deployment: Deployment, tmp_path: Path) -> None:
    refused(deployment, tmp_path, "retriever_epochs is no setting", retriever_epochs=1)
