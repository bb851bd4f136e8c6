"""`ablate`: every row of the table, what rows share made once; stopped and killed without loss; refused at once."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.index.bm25 import SparseRetriever
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever, Retriever
from realm_core.model.checkpoint import load_model
from realm_core.questions.answers import holds_answer
from realm_core.questions.question_file import read_questions
from realm_core.runs.activity import Activity
from realm_core.training import pretrain
from realm_core.training.ablation import ROWS
from realm_core.training.live_index import FixedIndex
from tests.core.processes import finish, start
from tests.core.running import activity_of
from tests.core.training.ablation_scene import SETTINGS, STALE, Case, Inline
from tests.core.training.material import write_lines
from tests.core.training.towns import Towns, training
from tests.waiting import wait_until

# Every kind of stage, in few.
SOME = ["realm-encoder", "bm25"]


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> type[Inline]:
    Inline.use(monkeypatch)
    return Inline


@pytest.fixture(scope="module")
def whole(towns: Towns, tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, list[str]]:
    """(all rows, the stages in the order in which they ran)."""
    case = Case(towns, tmp_path_factory.mktemp("whole"))
    with pytest.MonkeyPatch.context() as patch:
        Inline.use(patch)
        case.run(*ROWS)
    return case, Inline.started


def test_every_row_comes_out(whole: tuple[Case, list[str]]) -> None:
    case, _ = whole
    results = case.results()
    assert [row["name"] for row in results["rows"]] == list(ROWS)
    table = (case.output / "results.md").read_text()
    for row in results["rows"]:
        figures = [f"{100 * row[kind]['plain']:.1f}" for kind in ("exact_match", "zero_shot_recall@5")]
        assert f"| {row['title']} | {' | '.join(figures)} |" in table
        said = (case.output / "predictions" / f"{row['name']}.plain.jsonl").read_text().splitlines()[1:]
        assert row["exact_match"]["plain"] == sum(json.loads(line)["right"] for line in said) / len(said)
    assert json.loads((case.root / "run" / "result.json").read_text())["rows"] == results["rows"]
    progress = json.loads((case.root / "run" / "progress.json").read_text())
    assert progress["done"] == progress["total"]
    passed, own = case.measured()
    assert passed == own and {name for name, _, _ in passed} > {"ict", "pretrain-stale", "evaluate-bm25.plain"}


def test_recall_is_the_retrievers_before_it_is_tuned(whole: tuple[Case, list[str]]) -> None:
    case, _ = whole
    snapshot, asked = Snapshot.open(case.towns.corpus), read_questions(case.dev[0])
    rows = {row["name"]: row for row in case.results()["rows"]}
    found_by: dict[str, Retriever] = {"bm25": SparseRetriever(snapshot)}
    for name, row in ROWS.items():
        if row.retriever not in found_by:
            model, index = (case.output / folder / row.retriever for folder in ("models", "indexes"))
            found_by[row.retriever] = DenseRetriever(load_model(model), Generation.open(index))
        surely, perhaps = [], []
        searched = found_by[row.retriever].search([question.question for question in asked], 20)
        for question, own, scores in zip(asked, *searched, strict=True):
            holds = [holds_answer(snapshot.block(one).text, question.answers) for one in own]
            nearly = 0.01 * abs(scores[4])  # evaluation multiplies in bfloat16, so neighbours may change places
            surely.append(any(one for one, score in zip(holds[:5], scores, strict=False) if score > scores[4] + nearly))
            perhaps.append(any(one for one, score in zip(holds, scores, strict=True) if score >= scores[4] - nearly))
        hits = rows[name]["zero_shot_recall@5"]["plain"] * len(asked)
        assert sum(surely) <= hits <= sum(perhaps) <= sum(surely) + len(asked) // 2, name


def test_what_rows_share_is_made_once(whole: tuple[Case, list[str]]) -> None:
    _, started = whole
    assert max(Counter(started).values()) == 1
    kinds = Counter(name.partition("-")[0] for name in started)
    shared = {"ict": 1, "mlm": 1, "pretrain": 4, "index": 5, "combine": 7, "zero": 5}  # "zero-shot-…"
    assert kinds == shared | {"finetune": len(ROWS), "evaluate": len(ROWS)}


def test_variants_differ_in_one_setting(whole: tuple[Case, list[str]]) -> None:
    case, _ = whole
    commands = {stage["name"]: stage["command"] for stage in case.results()["stages"]}

    def differing(variant: str) -> set[str]:
        ordinary, other = (set(commands[f"pretrain-{name}"]) for name in ("realm", variant))
        return {word for word in other - ordinary if "/" not in word}

    assert differing("uniform") == {'--set=masking="uniform"'}
    assert differing("span") == {'--set=masking="span"'}
    assert differing("stale") == {f"--set=refresh_every={STALE}"}
    assert {"--set=refresh_every=1", '--set=masking="salient"'} < set(commands["pretrain-realm"])


def test_each_pretraining_says_how_fresh_its_index_was(whole: tuple[Case, list[str]]) -> None:
    """Of three steps the index is replaced before the second and the third, the stale one before the third alone."""
    case, _ = whole
    stages = {stage["name"]: (stage["refreshes"], stage["index_lag_steps"]) for stage in case.results()["stages"]}
    assert (stages["pretrain-realm"], stages["pretrain-stale"]) == ((2, 0.0), (1, 0.3))
    assert stages["mlm"] == (None, None)
    table = (case.output / "results.md").read_text()
    assert "| stage | budget | seed | seconds | refreshes | index lag steps | made |" in table
    (line,) = [line for line in table.splitlines() if line.startswith("| pretrain-stale ")]
    assert "| 1 | 0.3 |" in line and "refreshes: 0" not in table


@pytest.mark.usefixtures("inline")
def test_a_row_whose_index_was_never_replaced_is_told_of(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pretrain, "InLoopRefresh", lambda *words: FixedIndex(*words[:4]))
    case = Case(towns, tmp_path)
    case.run("realm")
    (sentence,) = [line for line in capsys.readouterr().err.splitlines() if "refreshes: 0" in line]
    assert sentence.startswith("warning: pretrain-realm ended with the index that it started with")
    said = (case.output / "results.md").read_text().partition("The stages.")[2]
    assert said.rstrip().endswith(sentence.removeprefix("warning: "))


@pytest.mark.parametrize("rows", [["stale"], list(ROWS)])
def test_an_index_that_would_never_be_stale_is_refused_before_anything_runs(
    towns: Towns, tmp_path: Path, rows: list[str]
) -> None:
    case = Case(towns, tmp_path, "[pretrain]\nsteps = 3000\nrefresh_every = 100\n")
    with pytest.raises(RealmError, match=r"row stale would never .* than the 3,000 steps, not 3,000\. Raise steps"):
        case.run(*rows)
    assert not case.output.exists()


def test_that_budget_does_for_the_other_rows(towns: Towns, tmp_path: Path, inline: type[Inline]) -> None:
    case = Case(towns, tmp_path, f"[pretrain]\nsteps = 100\nrefresh_every = {100 // STALE}\n")
    inline.kill_at = "ict"
    with pytest.raises(RealmError, match="ict"):
        case.run(*(name for name in ROWS if name != "stale"))
    assert inline.started == ["ict"]


def same(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    other = second.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in first.state_dict().items())


def test_a_row_has_the_retriever_and_the_encoder_that_it_says(whole: tuple[Case, list[str]]) -> None:
    case, _ = whole
    models = case.output / "models"
    made = {name: load_model(models / name) for name in ("baseline", "realm")}
    assert not same(made["baseline"].block, made["realm"].block)
    for row in (ROWS["realm"], ROWS["realm-retriever"], ROWS["realm-encoder"], ROWS["baseline"]):
        model = load_model(models / f"{row.retriever}+{row.encoder}")
        encoder = made[row.encoder].encoder
        assert encoder is not None
        assert same(model.query, made[row.retriever].query) and same(model.block, made[row.retriever].block)
        assert same(model.reader.bert, encoder.bert) and same(model.reader.score, made[row.encoder].reader.score)
    tuned = load_model(case.output / "tuned" / "bm25")
    assert same(tuned.query, made["baseline"].query) and not same(tuned.reader, made["baseline"].reader)
    dense = load_model(case.output / "tuned" / "baseline")
    assert not same(dense.query, made["baseline"].query)


def test_run_again_nothing_is_done_again(whole: tuple[Case, list[str]], inline: type[Inline]) -> None:
    case, _ = whole
    before = case.came_to()
    case.run(*ROWS)
    assert (inline.started, case.came_to()) == ([], before)


def test_interrupted_it_comes_to_the_same(
    towns: Towns, whole: tuple[Case, list[str]], tmp_path: Path, inline: type[Inline]
) -> None:
    """Each of some stages is stopped at work and then killed; what was finished before is not done again."""
    case, interrupted = Case(towns, tmp_path), ("mlm", "pretrain-realm", "finetune-bm25")
    for at in interrupted:
        inline.stop_at, inline.kill_at = at, None
        with pytest.raises(Stopped):
            case.run(*SOME)
        stopped = json.loads((case.root / "run" / "progress.json").read_text())["message"]
        assert re.fullmatch(rf"stage \d+ of \d+, {at}: 1 steps", stopped)  # at which it resumes
        inline.stop_at, inline.kill_at = None, at
        with pytest.raises(RealmError, match=rf"^{at} failed with status -9; \S+log\.txt shows more"):
            case.run(*SOME)
    inline.kill_at = None
    case.run(*SOME)
    assert Counter(inline.started) == Counter({**dict.fromkeys(inline.started, 1), **dict.fromkeys(interrupted, 3)})
    for at in interrupted:
        assert "resuming at step" in (case.output / "runs" / at / "log.txt").read_text()
    of, rows, stages = case.came_to()
    all_of, all_rows, all_stages = whole[0].came_to()
    assert of == all_of
    assert rows == [row for row in all_rows if row["name"] in SOME]
    assert stages == {name: all_stages[name] for name in stages}
    passed, own = case.measured()
    assert passed == own  # each once


def test_more_rows_later_use_what_is_there(
    towns: Towns, tmp_path: Path, inline: type[Inline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is not counted as done in no time either: no rate is told from it."""
    case, told, tell = Case(towns, tmp_path), list[int](), Activity.progress

    def note(activity: Activity, done: int, *details: Any) -> None:
        if activity.run == case.root / "run":
            told.append(done)
        tell(activity, done, *details)

    monkeypatch.setattr(Activity, "progress", note)
    case.dev.append(case.questions("other", range(32, 40)))
    case.run("bm25")
    first = list(inline.started)
    assert first[-2:] == ["evaluate-bm25.plain", "evaluate-bm25.other"]
    assert len(told) == len(first)
    told.clear()
    case.run("baseline", "bm25")
    assert inline.started[len(first) :] == [
        "index-baseline",
        *("zero-shot-baseline.plain", "zero-shot-baseline.other", "finetune-baseline"),
        *("evaluate-baseline.plain", "evaluate-baseline.other"),
    ]
    assert len(told) == len(inline.started) - len(first) + 1  # and when it had seen that the rest is there
    assert [row["name"] for row in case.results()["rows"]] == ["baseline", "bm25"]
    assert (
        "| row | EM % plain (10) | R@5 % plain (10) | EM % other (8) | R@5 % other (8) |"
        in (case.output / "results.md").read_text()
    )


@pytest.mark.timeout(900)  # processes are started, on a machine that may be busy
@pytest.mark.nightly  # every day one is interrupted in test_interrupted_it_comes_to_the_same
def test_killed_and_stopped_processes_lose_nothing(towns: Towns, tmp_path: Path, inline: type[Inline]) -> None:
    """Real processes: SIGKILL takes the stage along, SIGTERM is passed on, and who comes next goes on."""
    toml = SETTINGS.replace("[mlm]\nsteps = 2", "[mlm]\nsteps = 120\ncheckpoint_every = 5")
    case = Case(towns, tmp_path, toml)
    checkpoints, log = case.output / "runs" / "mlm" / "mlm", case.output / "runs" / "mlm" / "log.txt"

    def progress() -> Any:
        path = tmp_path / "run" / "progress.json"
        return json.loads(path.read_text()) if path.exists() else {}

    inline.kill_at = "mlm"  # up to there in this process, to save time
    with pytest.raises(RealmError):
        case.run("bm25")
    first = start(["ablate", *case.arguments("bm25"), "--run", str(tmp_path / "run")])
    wait_until(lambda: any(checkpoints.glob("checkpoint-*")) and "mlm: " in progress().get("message", ""), first)
    first.kill()
    finish(first)
    assert 0 < progress()["done"] < progress()["total"] and progress()["unit"] == "sequences"
    second = start(["ablate", *case.arguments("bm25"), "--run", str(tmp_path / "run")])
    wait_until(lambda: "resuming at step" in log.read_text(), second)
    second.terminate()
    status, errors = finish(second)
    assert status == 3 and errors.endswith("Stopped; what was finished is kept.\n")
    (line,) = [line for line in errors.splitlines() if "resuming at" in line]
    assert line.startswith("mlm: mlm: resuming at step ")
    assert "\nmlm: Stopped; what was finished is kept.\n" in errors
    assert log.read_text().count("Stopped; what was finished is kept.") == 1  # the first was killed by the kernel
    assert inline.started == ["ict", "mlm"]
    inline.kill_at = "combine-baseline+baseline"
    with pytest.raises(RealmError):
        case.run("bm25")
    passed, own = case.measured()
    assert passed == own and {step for name, step, _ in own if name == "mlm"} == set(range(5, 121, 5))
    settings = {"steps": 120, "checkpoint_every": 5, "batch": 8}
    undisturbed = ["--model", case.output / "models" / "ict", "--corpus", towns.corpus]
    activity_of("mlm", [*undisturbed, *training(tmp_path / "undisturbed", settings)])
    hashes = {load_model(folder).hash for folder in (case.output / "models" / "baseline", tmp_path / "undisturbed")}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[ict]\nstep = 3", r"^ict\.step is no setting; there are seed, steps, "),
        ("[pretrain]\nk = 1", r"^pretrain\.k must be from 2 to 50, not 1"),
        ("[mlm]\nsteps = [1]", r"^mlm\.steps must be a whole number, not \[1\]"),
        ("[mlm]\nsteps = 2020-01-01", r"^mlm\.steps must be a whole number, not datetime"),
        ("[evaluate]\nk = 101", r"^evaluate\.k must be from 1 to 50, not 101"),
        ("[evaluate]\nscore_scale = inf", r"^evaluate\.score_scale must be a number above 0, not inf"),
        ("[evaluation]\nk = 3", r"^evaluation is no setting; there are ict, mlm, pretrain, "),
        ("steps = 3", r"^steps is no setting; there are ict, mlm, "),
        ("[ict", r"settings\.toml is not valid TOML"),
        ("[pretrain]\nmasking = 'span'", r"^pretrain\.masking is no setting; there are"),
        ("[pretrain]\nrefresh = 'never'", r"refresh must be one of process, in-loop, not 'never'"),
        (
            "[pretrain]\nsteps = 25",
            r"^pretrain\.refresh_every must be less than the 25 steps, not 25: the index would never be refreshed",
        ),
        ("[finetune.repeat]\nplain = 2", r"^finetune\.repeat names no question file that is given: 'plain'; there are"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(
    towns: Towns, tmp_path: Path, inline: type[Inline], settings: str, message: str
) -> None:
    case = Case(towns, tmp_path, settings)
    with pytest.raises(RealmError, match=message):
        case.run("bm25")
    assert not case.output.exists() and not inline.started


def test_settings_reach_the_stages_as_they_are(towns: Towns, tmp_path: Path, inline: type[Inline]) -> None:
    odd = "[finetune]\nquery_lr = 1e-5\nsupply = false\n[finetune.repeat]\ntrain = 2\n"
    case = Case(towns, tmp_path, odd)
    inline.kill_at = "ict"
    with pytest.raises(RealmError):
        case.run("bm25")
    settings = json.loads((case.output / "plan.json").read_text())["settings"]["finetune"]
    assert (settings["query_lr"], settings["supply"], settings["repeat"]) == (1e-5, False, {"train": 2})


def test_wrong_inputs_are_refused_before_anything_runs(towns: Towns, tmp_path: Path, inline: type[Inline]) -> None:
    case = Case(towns, tmp_path)
    with pytest.raises(RealmError, match=r"^--rows must be one or more of realm, .*, each once, not"):
        case.run("realm", "orqa")
    good = case.dev[0].read_text()
    case.dev[0].write_text('{"question": "?"}\n')
    with pytest.raises(RealmError, match=r"plain\.jsonl, line 1: `answers` must be a list"):
        case.run("bm25")
    case.dev[0].write_text(good)
    case.dev.append(case.dev[0])
    with pytest.raises(RealmError, match="another question file is called"):
        case.run("bm25")
    case.dev.pop()
    case.dev.append(case.questions("other", range(28, 34)))  # of which two are learnt from
    with pytest.raises(
        RealmError,
        match=r"train\.jsonl holds questions .* measured by, 2 of .*other\.jsonl; .* `questions --format own --with",
    ):
        case.run("bm25")
    case.dev.pop()
    for option in ("--device", "--builder-device"):
        with pytest.raises(RealmError, match="device must be auto, cpu, cuda or cuda:N, not 'gpu'"):
            activity_of("ablate", [*case.arguments("bm25"), option, "gpu"])
    (tmp_path / "titles.json").write_text("{}")
    with pytest.raises(RealmError, match=r"titles\.json is not a JSON list of titles"):
        activity_of("ablate", [*case.arguments("bm25"), "--exclude-titles", tmp_path / "titles.json"])
    case.towns = Towns(towns.root, towns.model, towns.index, towns.corpus, tmp_path / "spans")
    with pytest.raises(RealmError, match=r"spans/identity\.json does not exist"):
        case.run("bm25")
    assert not case.output.exists() and not inline.started


def test_questions_that_count_zero_times_may_be_measured_by(towns: Towns, tmp_path: Path, inline: type[Inline]) -> None:
    case = Case(towns, tmp_path, SETTINGS.replace("[finetune]", "[finetune]\nrepeat = {train = 0}"))
    case.dev.append(case.questions("other", range(28, 34)))
    inline.kill_at = "ict"
    with pytest.raises(RealmError, match="ict failed"):
        case.run("bm25")


def test_a_folder_is_of_one_ablation(towns: Towns, tmp_path: Path, inline: type[Inline]) -> None:
    case = Case(towns, tmp_path)
    inline.kill_at = "ict"
    with pytest.raises(RealmError, match="ict failed"):
        case.run("bm25")
    case.config.write_text(SETTINGS.replace("k = 3", "k = 4", 1))
    case.dev[0].write_text(case.dev[0].read_text() * 2)
    with pytest.raises(RealmError, match=r"it differs in dev\.plain.*; settings\.pretrain\.k: 3 there, 4 here\)"):
        case.run("bm25")
    case.output = tmp_path
    with pytest.raises(RealmError, match="holds other files; name a new folder"):
        case.run("bm25")


def test_what_a_stage_refuses_is_passed_on(towns: Towns, tmp_path: Path, inline: type[Inline]) -> None:
    case = Case(towns, tmp_path)
    rows = [{"question": "Who was the mayor?", "answers": ["nobody whom the corpus knows"]}]
    write_lines(case.train, rows)
    with pytest.raises(RealmError, match=r"^finetune-bm25: The corpus holds an answer to none of the questions"):
        case.run("bm25")


def test_repeats_train_every_row_with_other_seeds_and_share_the_rest(
    towns: Towns, tmp_path: Path, inline: type[Inline]
) -> None:
    case = Case(towns, tmp_path, f"repeats = 2\n{SETTINGS}")
    case.run("realm", "baseline")
    assert max(Counter(inline.started).values()) == 1
    assert inline.started.index("evaluate-baseline.plain") < inline.started.index("pretrain-realm.2")
    kinds = Counter(name.partition("-")[0] for name in inline.started)
    shared = {"ict": 1, "mlm": 1, "pretrain": 2, "index": 3, "combine": 3, "zero": 3}
    assert kinds == shared | {"finetune": 4, "evaluate": 4}
    results = case.results()
    seeds = {stage["name"]: stage["seed"] for stage in results["stages"] if stage["name"].startswith(("pre", "fine"))}
    pretrained = {"pretrain-realm": 1, "pretrain-realm.2": 2}
    tuned = {"finetune-realm": 1, "finetune-realm.2": 2, "finetune-baseline": 1, "finetune-baseline.2": 2}
    assert seeds == pretrained | tuned
    realm, baseline = results["rows"]
    assert [one["name"] for one in realm["seeds"]] == ["realm", "realm.2"]
    assert len({one["model_hash"] for row in (realm, baseline) for one in row["seeds"]}) == 4
    for row in (realm, baseline):
        for figure in ("exact_match", "zero_shot_recall@5"):
            assert row[figure]["plain"] == sum(one[figure]["plain"] for one in row["seeds"]) / 2
    assert realm["utility"] == sum(one["utility"] for one in realm["seeds"]) / 2 and baseline["utility"] is None
    table = (case.output / "results.md").read_text()
    spread = abs(realm["seeds"][0]["exact_match"]["plain"] - realm["seeds"][1]["exact_match"]["plain"]) / 2**0.5
    assert f"| REALM | {100 * realm['exact_match']['plain']:.1f} ± {100 * spread:.1f} |" in table
    assert "Exact match less that of REALM (2 seeds)" in table and "| baseline (ORQA) | 2 | " in table
    passed, own = case.measured()
    assert passed == own
