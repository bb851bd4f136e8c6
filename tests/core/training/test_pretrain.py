"""Pre-training as a whole: it learns, a killed run is the same run, an index may be late, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.model.checkpoint import Model, load_model, new_model, save_model
from realm_core.runs.activity import Activity
from realm_core.salient.extract import extract
from realm_core.salient.taggers import TaggerOptions
from realm_core.training.live_index import newest_step, step_name
from tests.core.processes import finish, start
from tests.core.running import activity_of, metrics
from tests.core.training.towns import QUIET, Towns
from tests.tiny import tiny_snapshot
from tests.waiting import wait_until

# A few seconds, and the loss falls.
LEARNING: dict[str, Any] = {
    "steps": 40,
    "batch": 4,
    "k": 3,
    "learning_rate": 1e-2,
    "dropout": 0.0,
    "checkpoint_every": 20,
    "holdout": 0.1,
    "refresh": "in-loop",
    "refresh_every": 16,
}
# Ends at once.
SHORT = LEARNING | {"steps": 2, "checkpoint_every": 2, "refresh": "never", "holdout": 0.0}


def pretrain(towns: Towns, folder: Path, settings: dict[str, Any], *, name: str = "made") -> Path:
    """Run it in this process; returns the model's folder. The run is `NAME-run`."""
    activity_of("pretrain", towns.pretrain(folder / name, settings), run=folder / f"{name}-run")
    return folder / name


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def learnt(towns: Towns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain(towns, tmp_path_factory.mktemp("learnt"), LEARNING)


# ── It learns ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_loss_falls(learnt: Path) -> None:
    run = learnt.with_name("made-run")
    losses = metrics(run, "pretrain.loss")
    assert list(losses) == [10, 20, 30, 40]
    assert losses[40] < losses[10] - 1
    held_out = metrics(run, "pretrain.held_out.loss")
    assert list(held_out) == [20, 40] and held_out[40] < losses[10] - 0.25


def test_embedder_and_encoder_have_moved_but_not_their_embeddings(towns: Towns, learnt: Path) -> None:
    before, after = load_model(towns.model), load_model(learnt)
    for name in ("block", "encoder"):
        old, new = before.parts()[name].state_dict(), after.parts()[name].state_dict()
        changed = {key for key in old if not torch.equal(old[key], new[key])}
        assert "bert.encoder.layer.0.attention.self.query.weight" in changed
        assert not any("embeddings" in key for key in changed)


def test_sentences_and_blocks_share_one_embedder_and_the_reader_begins_with_the_encoder(learnt: Path) -> None:
    model = load_model(learnt)
    assert model.encoder is not None
    for one, other in ((model.query, model.block), (model.reader.bert, model.encoder.bert)):
        own, others = one.state_dict(), other.state_dict()
        assert all(torch.equal(own[key], others[key]) for key in own)


def test_the_result_tells_model_recipe_and_figures(towns: Towns, learnt: Path) -> None:
    run = learnt.with_name("made-run")
    result = json.loads((run / "result.json").read_text())
    model = load_model(learnt)
    assert (result["path"], result["model_hash"]) == (str(learnt), model.hash)
    assert model.about is not None
    recipe = model.about["recipe"][-1]
    snapshot = Snapshot.open(towns.corpus)
    for part in (f"pre-trained from {load_model(towns.model).hash} on {snapshot.snapshot_id}, 80 salient", "'k': 3"):
        assert part in recipe
    assert model.about["held_out"] == result["held_out"]
    assert result["held_out"]["loss"] == metrics(run, "pretrain.held_out.loss")[40]
    assert result["passages"]["learnt"] > result["passages"]["held_out"] > 0
    assert sorted(path.name for path in run.iterdir()) == ["metrics.jsonl", "progress.json", "result.json", "task.json"]


def distance(one: Model, other: Model, part: str) -> float:
    """Between all parameters of a part."""
    own, others = one.parts()[part].state_dict(), other.parts()[part].state_dict()
    return math.sqrt(sum(float((own[key] - others[key]).square().sum()) for key in own))


def test_worked_off_in_parts_it_comes_to_the_same(towns: Towns, tmp_path: Path) -> None:
    begun = load_model(towns.model)
    settings = SHORT | {
        "loss": "release",
        "masking": "span",
        "holdout": 0.1,
    }  # parts count by their masks, of which they have more or less
    whole, parts = (
        load_model(pretrain(towns, tmp_path, settings | {"at_once": at_once}, name=f"at-once-{at_once}"))
        for at_once in (4, 3)
    )
    for figure in ("loss", "perplexity", "held_out.loss", "held_out.perplexity"):
        ours, theirs = (metrics(tmp_path / f"at-once-{at_once}-run", f"pretrain.{figure}")[2] for at_once in (4, 3))
        assert ours == pytest.approx(theirs, rel=2e-3), figure
    for part in ("block", "encoder"):
        assert distance(whole, parts, part) < 0.1 * distance(whole, begun, part)


def test_sentences_may_come_from_another_corpus(towns: Towns, tmp_path: Path) -> None:
    """X ≠ Z: names of no town in the sentences, towns in what is retrieved."""
    other = tiny_snapshot(tmp_path, {"Rome": "Rome was built in 753 BC.", "Suez": "The canal was opened in 1869."})
    extract(other, tmp_path / "spans", QUIET, TaggerOptions("dates"))
    words = ["--spans", tmp_path / "spans", "--sentences", other]
    settings = SHORT | {"k": 5, "batch": 2}
    activity_of("pretrain", [*towns.pretrain(tmp_path / "made", settings), *words], run=tmp_path / "run")
    model = load_model(tmp_path / "made")
    assert model.about is not None and "2 salient spans" in model.about["recipe"][-1]
    assert Snapshot.open(towns.corpus).snapshot_id in model.about["recipe"][-1]


def test_a_model_without_an_encoder_begins_with_an_untrained_head_and_says_so(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(replace(load_model(towns.model), encoder=None), tmp_path / "headless")
    said: list[str] = []
    monkeypatch.setattr(Activity, "say", lambda self, message: said.append(message))
    for name, words in (("without", ["--model", tmp_path / "headless"]), ("with", [])):
        activity_of("pretrain", [*towns.pretrain(tmp_path / name, SHORT), *words], run=tmp_path / f"{name}-run")
        warned = [message for message in said if "no masked-language head; it starts untrained" in message]
        assert len(warned) == 1, name
    assert load_model(tmp_path / "without").encoder is not None


def test_a_query_embedder_that_is_lost_is_named(towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(towns.model)
    with torch.no_grad():
        model.query.norm.bias.add_(1)
    save_model(model, tmp_path / "tuned")
    said: list[str] = []
    monkeypatch.setattr(Activity, "say", lambda self, message: said.append(message))
    for name, words in (("tuned-made", ["--model", tmp_path / "tuned"]), ("made", [])):
        activity_of("pretrain", [*towns.pretrain(tmp_path / name, SHORT), *words], run=tmp_path / f"{name}-run")
        assert sum("the query embedder is lost" in message for message in said) == 1, name


# ── A killed run is the same run ────────────────────────────────────────────────────────────────────────────────────


def saved(run: Path) -> int:
    """The step of the last checkpoint."""
    return max((int(path.name.rpartition("-")[2]) for path in run.glob("pretrain/checkpoint-*")), default=0)


@pytest.mark.timeout(900)  # a process is started, on a machine that may be busy
def test_killed_between_checkpoints_and_behind_a_refresh_it_comes_to_the_same_bytes(
    towns: Towns, tmp_path: Path
) -> None:
    """The index is that of four steps before, the checkpoint up to five steps old, and dropout is on."""
    settings = LEARNING | {"steps": 12, "checkpoint_every": 5, "refresh_every": 4, "dropout": 0.1}
    run = tmp_path / "killed-run"
    killed = start(["pretrain", *towns.pretrain(tmp_path / "killed", settings), "--run", str(run)])
    wait_until(lambda: (newest_step(run / "generations") or 0) >= 8, killed)
    killed.kill()
    assert finish(killed)[0] == -signal.SIGKILL
    assert saved(run) in (5, 10) and not (tmp_path / "killed").exists()

    killed_model = pretrain(towns, tmp_path, settings | {"metrics_every": 1}, name="killed")
    whole = pretrain(towns, tmp_path, settings, name="whole")
    assert weights(killed_model) == weights(whole)
    other = pretrain(towns, tmp_path, settings | {"refresh": "never"}, name="other")
    assert weights(other) != weights(whole)  # the refreshes matter
    results = [json.loads((tmp_path / f"{name}-run" / "result.json").read_text()) for name in ("killed", "whole")]
    assert results[0]["held_out"] == results[1]["held_out"]


def test_what_another_run_left_without_a_checkpoint_is_not_used(towns: Towns, tmp_path: Path) -> None:
    settings = LEARNING | {"steps": 6, "refresh_every": 4, "holdout": 0.0}
    left = tmp_path / "second-run" / "generations" / step_name(4)
    whole = pretrain(towns, tmp_path, settings, name="first")
    shutil.copytree(towns.index, left)
    manifest = json.loads((left / "manifest.json").read_text())
    (left / "manifest.json").write_text(json.dumps(manifest | {"step": 4, "parameters_at": 0.0}))
    assert weights(pretrain(towns, tmp_path, settings, name="second")) == weights(whole)


def test_a_full_disk_leaves_the_last_checkpoint_whole(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SHORT | {"steps": 6}
    room = 2

    def filling(stored: dict[str, Tensor], path: Path) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            path.write_bytes(b"half of it")
            raise Exception("Error while serializing: I/O error: No space left on device (os error 28)")
        save_file(stored, path)

    with monkeypatch.context() as full:
        full.setattr("realm_core.tensors.save_file", filling)
        with pytest.raises(RealmError, match=r"The disk that holds .* is full; free some space"):
            pretrain(towns, tmp_path, settings)
    assert saved(tmp_path / "made-run") == 4 and not (tmp_path / "made").exists()
    assert weights(pretrain(towns, tmp_path, settings)) == weights(pretrain(towns, tmp_path, settings, name="whole"))


def test_without_a_run_folder_nothing_but_the_model_is_left(towns: Towns, tmp_path: Path) -> None:
    activity_of("pretrain", towns.pretrain(tmp_path / "made", SHORT))
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


# ── What it refuses ─────────────────────────────────────────────────────────────────────────────────────────────────


def refused(towns: Towns, folder: Path, message: str, *words: object, **settings: object) -> None:
    """It ends with this sentence, and makes no model."""
    with pytest.raises(RealmError, match=message):
        activity_of("pretrain", [*towns.pretrain(folder / "made", SHORT | settings), *words], run=folder / "run")
    assert not (folder / "made").exists()


def test_a_corpus_without_spans_of_its_own_is_refused(towns: Towns, tmp_path: Path) -> None:
    refused(towns, tmp_path, r"nowhere/identity\.json does not exist", "--spans", tmp_path / "nowhere")
    other = tiny_snapshot(tmp_path, {"Rome": "Rome was built in 753 BC."})
    extract(other, tmp_path / "spans", QUIET, TaggerOptions("dates"))
    refused(towns, tmp_path, r"contains the salient spans of the snapshot .*, not of", "--spans", tmp_path / "spans")
    (tmp_path / "spans" / "manifest.json").unlink()
    refused(towns, tmp_path, r"is not finished", "--spans", tmp_path / "spans", "--sentences", other)


def test_an_index_of_another_model_or_corpus_is_refused(towns: Towns, tmp_path: Path) -> None:
    other = tiny_snapshot(tmp_path, {"Rome": "Rome was built in 753 BC."})
    foreign = build(towns.model, other, tmp_path, QUIET, device="cpu")
    refused(towns, tmp_path, "is of corpus snapshot .* build an index of this corpus", "--index", foreign)
    save_model(new_model(load_model(towns.model).config, seed=9), tmp_path / "model")
    refused(towns, tmp_path, "was built with another block embedder", "--model", tmp_path / "model")


def test_a_model_that_exists_is_never_overwritten(towns: Towns, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with pytest.raises(RealmError, match="made exists already; choose another name"):
        pretrain(towns, tmp_path, SHORT)
    assert not list((tmp_path / "made").iterdir())


def test_too_few_blocks_for_k_are_refused(towns: Towns, tmp_path: Path) -> None:
    refused(towns, tmp_path, "too few different blocks: it must have 40 besides a sentence's own passage", k=41)


def killed_at_the_end(monkeypatch: pytest.MonkeyPatch, words: list[str], run: Path) -> None:
    """A pre-training that has its last checkpoint, and does not come to save the model."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("realm_core.training.stage.Stage.publish", killed)
        with pytest.raises(KeyboardInterrupt):
            activity_of("pretrain", words, run=run)


def test_a_checkpoint_of_other_settings_is_refused_but_a_longer_run_goes_on(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_the_end(monkeypatch, towns.pretrain(tmp_path / "made", SHORT), tmp_path / "run")
    assert saved(tmp_path / "run") == 2
    for other in ({"batch": 3}, {"masking": "uniform"}, {"seed": 2}):
        refused(towns, tmp_path, "checkpoint-2 belongs to other rows or settings than this run's", **other)
    longer = SHORT | {"steps": 4, "checkpoint_every": 1, "metrics_every": 1, "at_once": 2}
    activity_of("pretrain", towns.pretrain(tmp_path / "made", longer), run=tmp_path / "run")
    assert list(metrics(tmp_path / "run", "pretrain.loss")) == [2, 3, 4]


def test_a_checkpoint_that_began_with_other_spans_is_refused(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many of them, of other blocks: the batches of a step would be others."""
    spans = [
        extract(towns.corpus, tmp_path / str(seed), QUIET, TaggerOptions("dates"), blocks=9, seed=seed)
        for seed in (0, 1)
    ]
    assert len(spans[0]) == len(spans[1]) and spans[0].rows_N.tolist() != spans[1].rows_N.tolist()
    words = [*towns.pretrain(tmp_path / "made", SHORT), "--spans", str(tmp_path / "0")]
    killed_at_the_end(monkeypatch, words, tmp_path / "run")
    refused(towns, tmp_path, "checkpoint-2 belongs to other rows or settings", "--spans", tmp_path / "1")
    activity_of("pretrain", words, run=tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"refresh": "elsewhere", "refresh_every": 1},
            "The index was never replaced: no new one arrived in time",
        ),
        ({"refresh": "in-loop", "refresh_every": 1}, None),
        ({"refresh": "never"}, None),
    ],
)
def test_an_index_that_stays_is_told_of(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], said: str | None
) -> None:
    told: list[str] = []
    for way in ("say", "warn"):
        monkeypatch.setattr(Activity, way, lambda self, message: told.append(message))
    activity_of("pretrain", towns.pretrain(tmp_path / "made", SHORT | settings), run=tmp_path / "run")
    about = [sentence for sentence in told if "replaced" in sentence]
    assert len(about) == (said is not None) and (said is None or re.match(said, about[0]))


def test_an_index_that_stays_after_resuming_is_told_of(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_the_end(monkeypatch, towns.pretrain(tmp_path / "made", SHORT), tmp_path / "run")
    told: list[str] = []
    monkeypatch.setattr(Activity, "warn", lambda self, message: told.append(message))
    longer = SHORT | {"steps": 4, "refresh": "elsewhere", "refresh_every": 1}
    activity_of("pretrain", towns.pretrain(tmp_path / "made", longer), run=tmp_path / "run")
    assert len(told) == 1 and told[0].startswith("The index was never replaced since step 2, where")


def test_spans_that_are_all_held_out_teach_nothing(towns: Towns, tmp_path: Path) -> None:
    one = tiny_snapshot(tmp_path, {"Rome": "Rome was built in 753 BC."})
    extract(one, tmp_path / "spans", QUIET, TaggerOptions("dates"))
    words = ("--spans", tmp_path / "spans", "--sentences", one)
    refused(towns, tmp_path, "The spans hold no passage to train on besides those held out", *words, holdout=0.9)


def test_a_loss_that_is_no_number_ends_it(towns: Towns, tmp_path: Path) -> None:
    refused(towns, tmp_path, r"pretrain: the loss of step \d+ is (nan|inf); lower", learning_rate=1e30, steps=5)
