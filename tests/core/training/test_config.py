"""Settings of trainings: from a file, overridden, and refused by the name of the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.command_line import read_settings
from realm_core.errors import RealmError
from realm_core.evaluation.tasks import EvaluateConfig
from realm_core.model.base import base_architecture
from realm_core.model.config import ModelConfig
from realm_core.settings import MAX_K, Settings, describe
from realm_core.text.joins import TITLE_WORDPIECES
from realm_core.training.config import (
    FinetuneConfig,
    IctConfig,
    MineConfig,
    MlmConfig,
    PretrainConfig,
    ReaderConfig,
    RetrieverConfig,
    TrainingSettings,
    WarmstartConfig,
)
from tests.core.running import activity_of

KINDS = [FinetuneConfig, TrainingSettings, IctConfig, MlmConfig, PretrainConfig]
OF_A_CORPUS = [TrainingSettings, IctConfig, MlmConfig, PretrainConfig]
SHARE = "must be a share from 0 up to 1, not"


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_file_the_defaults_hold(kind: type) -> None:
    assert read_settings(kind, None) == kind()


def test_overrides_come_after_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("seed = 3\nreader_lr = 1\nholdout = 0.2\nsupply = false\n[repeat]\nplain = 2\n")
    config = read_settings(FinetuneConfig, tmp_path / "c.toml", ["holdout=0.1", "epochs = 7", "repeat={trec = 0}"])
    assert (config.seed, config.reader_lr, config.holdout, config.epochs) == (3, 1.0, 0.1, 7)
    assert (config.supply, config.repeat) == (False, {"trec": 0}) and isinstance(config.reader_lr, float)


def test_texts_are_written_as_toml_has_them(tmp_path: Path) -> None:
    config = read_settings(PretrainConfig, None, ["masking = 'uniform'", 'refresh="in-loop"', "title=true"])
    assert (config.masking, config.refresh, config.title, config.loss) == ("uniform", "in-loop", True, "paper")


MODELS = Path(__file__).resolve().parents[3] / "models"
RECIPES: dict[str, type[Settings]] = {
    **dict.fromkeys(("base-first-rows", "base-passages", "base-people", "base-agreed"), MineConfig),
    **dict.fromkeys(("base-open", "base-passages-more", "base-people-more"), MineConfig),
    **dict.fromkeys(("base-first", "base-second", "mini-third", "mini-fourth"), ReaderConfig),
    **dict.fromkeys(("base-asked", "base-asked-more", "base-asked-people", "base-varied"), MineConfig),
    **dict.fromkeys(("base-third", "base-fourth", "base-fifth", "base-sixth"), ReaderConfig),
    **dict.fromkeys(("mini-fifth", "mini-sixth"), ReaderConfig),
    **dict.fromkeys(("mini-first", "mini-second"), FinetuneConfig),
    "mini-retriever": RetrieverConfig,
}


def test_the_shipped_recipes_can_be_read() -> None:
    assert {path.stem for path in (MODELS / "recipes").glob("*.toml")} == RECIPES.keys()
    for name, kind in RECIPES.items():
        assert isinstance(read_settings(kind, MODELS / "recipes" / f"{name}.toml"), kind)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("retriever_lr=1e-4", "retriever_lr is no setting; there are seed, epochs, batch"),
        ("seed=1.5", "seed must be a whole number, not 1.5"),
        ("seed=true", "seed must be a whole number, not True"),
        ("supply=1", "supply must be true or false, not 1"),
        ("repeat=2", r"repeat must be a table of whole numbers, not 2"),
        ("reader_lr='fast'", "reader_lr must be a number, not 'fast'"),
        ("seed", "'seed' is not an override; write KEY=VALUE"),
        ("seed=one", "'one' is not a TOML value"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(override: str, message: str) -> None:
    with pytest.raises(RealmError, match=message):
        read_settings(FinetuneConfig, None, [override])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("holdout=1.0", f"holdout {SHARE} 1.0"),
        ("holdout=nan", f"holdout {SHARE} nan"),
        ("dropout=-0.1", f"dropout {SHARE} -0.1"),
        ("warmup=1", f"warmup {SHARE} 1.0"),
        ("checkpoint_every=0", "checkpoint_every must be at least 1, not 0"),
        ("metrics_every=0", "metrics_every must be from 1 to 100, not 0"),
        ("metrics_every=101", "metrics_every must be from 1 to 100, not 101"),
        ("at_once=0", r"at_once must be at least [12], not 0"),
        ("batch=-3", r"batch must be at least [12], not -3"),
        ("clip=0", r"clip must be a number above 0, not 0\.0"),
        ("clip=nan", "clip must be a number above 0, not nan"),
        ("weight_decay=-0.01", "weight_decay must be a number from 0 up, not -0.01"),
        ("weight_decay=nan", "weight_decay must be a number from 0 up, not nan"),
        ("seed=-1", "seed must be from 0 to 4294967295, not -1"),
        ("seed=4294967296", "seed must be from 0 to 4294967295, not 4294967296"),
    ],
)
def test_invalid_settings_of_a_training_are_named(kind: type, override: str, message: str) -> None:
    with pytest.raises(RealmError, match=f"^{message}"):
        read_settings(kind, None, [override])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs=0", "epochs must be at least 1, not 0"),
        ("k=0", "k must be from 1 to 50, not 0"),
        ("examined=0", "examined must be from 1 to 5000, not 0"),
        ("examined=5001", "examined must be from 1 to 5000, not 5001"),
        ("beam=-1", "beam must be 0 or more, not -1"),
        ("pairs=-0.5", "pairs must be a number from 0 up, not -0.5"),
        ("pairs=nan", "pairs must be a number from 0 up, not nan"),
        ("query_lr=-1e-5", "query_lr must be a number from 0 up, not -1e-05"),
        ("query_lr=inf", "query_lr must be a number from 0 up, not inf"),
        ("reader_lr=0", r"reader_lr must be a number above 0, not 0\.0"),
        ("head_lr=inf", "head_lr must be a number above 0, not inf"),
        ("repeat={plain = -1}", r"repeat\.plain must be a whole number that is not negative, not -1"),
        ("repeat={plain = 1.5}", r"repeat\.plain must be a whole number that is not negative, not 1\.5"),
        ("repeat={plain = 'x'}", r"repeat\.plain must be a whole number"),
        ("repeat={plain = true}", r"repeat\.plain must be a whole number that is not negative, not True"),
    ],
)
def test_what_fine_tuning_cannot_have_is_named(override: str, message: str) -> None:
    with pytest.raises(RealmError, match=f"^{message}"):
        read_settings(FinetuneConfig, None, [override])


@pytest.mark.parametrize("kind", [PretrainConfig, FinetuneConfig, EvaluateConfig])
def test_blocks_to_read_are_bounded_alike(kind: type) -> None:
    assert read_settings(kind, None, [f"k={MAX_K}"]).k == MAX_K
    with pytest.raises(RealmError, match=f"^k must be from [12] to {MAX_K}, not {MAX_K + 1}"):
        read_settings(kind, None, [f"k={MAX_K + 1}"])


@pytest.mark.parametrize("kind", OF_A_CORPUS)
@pytest.mark.parametrize("value", ["0", "-1e-5", "nan", "inf"])
def test_a_learning_rate_is_a_positive_number(kind: type, value: str) -> None:
    with pytest.raises(RealmError, match=r"^learning_rate must be a number above 0, not"):
        read_settings(kind, None, [f"learning_rate={value}"])


@pytest.mark.parametrize("kind", OF_A_CORPUS)
def test_a_schedule_has_a_step(kind: type) -> None:
    with pytest.raises(RealmError, match=r"^steps must be at least 1, not 0"):
        read_settings(kind, None, ["steps=0"])


@pytest.mark.parametrize(
    ("kind", "override", "message"),
    [
        (IctConfig, "batch=1", "batch must be at least 2, not 1"),  # its negatives are the others of the batch
        (IctConfig, "at_once=1", "at_once must be at least 2, not 1"),
        (IctConfig, "keep_sentence=1.0", f"keep_sentence {SHARE} 1.0"),
        (MlmConfig, "mask_share=0", r"mask_share must be between 0 and 1, not 0\.0"),
        (MlmConfig, "mask_share=1", r"mask_share must be between 0 and 1, not 1\.0"),
        (MlmConfig, "mask_share=nan", "mask_share must be between 0 and 1, not nan"),
        (PretrainConfig, "masking='names'", "masking must be one of salient, uniform, span, not 'names'"),
        (PretrainConfig, "loss='both'", "loss must be one of paper, release, not 'both'"),
        (PretrainConfig, "refresh='no'", "refresh must be one of process, elsewhere, in-loop, never, not 'no'"),
        (PretrainConfig, "k=1", "k must be from 2 to 50, not 1"),  # the null block is one of them
        (PretrainConfig, "refresh_every=0", "refresh_every must be at least 1, not 0"),
        (PretrainConfig, "query_wordpieces=15", "query_wordpieces must be from 16 to 496, not 15"),
        (PretrainConfig, "query_wordpieces=497", "query_wordpieces must be from 16 to 496, not 497"),
        (PretrainConfig, "pair_wordpieces=513", "pair_wordpieces must be from 32 to 512, not 513"),
    ],
)
def test_what_one_stage_cannot_have_is_named(kind: type, override: str, message: str) -> None:
    with pytest.raises(RealmError, match=f"^{message}"):
        read_settings(kind, None, [override])


def test_an_index_that_would_never_be_refreshed_is_refused() -> None:
    for refresh in ("process", "elsewhere", "in-loop"):
        words = [f"refresh={refresh!r}", "steps=500"]
        message = (
            "^refresh_every must be less than the 500 steps, not 500: .* set refresh to never if the first index is"
        )
        with pytest.raises(RealmError, match=message):
            read_settings(PretrainConfig, None, words)
        assert read_settings(PretrainConfig, None, [*words, "refresh_every=499"]).refresh_every == 499
    assert read_settings(PretrainConfig, None, ["refresh='never'", "steps=500"]).steps == 500


@pytest.mark.parametrize(("query", "pair", "title"), [(96, 112, "false"), (16, 32, "false"), (96, 177, "true")])
def test_a_pair_has_room_for_some_of_a_block(tmp_path: Path, query: int, pair: int, title: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"query_wordpieces = {query}\npair_wordpieces = {pair}\ntitle = {title}\n")
    assert read_settings(PretrainConfig, path).pair_wordpieces == pair
    assert (pair - query == 16 + TITLE_WORDPIECES + 1) == (title == "true")
    message = rf"^pair_wordpieces must be at least {pair + 1}, .* the {query + 1} of query_wordpieces.*, not {pair};"
    with pytest.raises(RealmError, match=message):
        read_settings(PretrainConfig, path, [f"query_wordpieces={query + 1}"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sample=-1", "sample must be at least 8, not -1"),
        ("sample=127", "sample must be at least 128, the dimension, not 127"),
        ("dimension=1000", "dimension must be from 8 to 384, not 1000"),
        ("dimension=7", "dimension must be from 8 to 384, not 7"),
        ("scale=nan", "scale must be a number above 0, not nan"),
        ("scale=inf", "scale must be a number above 0, not inf"),
        ("scale=0", r"scale must be a number above 0, not 0\.0"),
        ("seed=-1", "seed must be from 0 to 4294967295, not -1"),
    ],
)
def test_invalid_settings_of_a_warm_start_are_named_before_anything_is_loaded(
    tmp_path: Path, override: str, message: str
) -> None:
    words = ["--corpus", tmp_path / "none", "--output", tmp_path / "made", "--set", override]
    with pytest.raises(RealmError, match=f"^{message}"):
        activity_of("warmstart", words)


def test_the_widest_vectors_are_as_wide_as_the_base_models_states() -> None:
    dimension = next(one for one in describe(WarmstartConfig) if one.name == "dimension")
    assert dimension.limit.high == base_architecture(ModelConfig().base).hidden_size


@pytest.mark.parametrize("kind", [*KINDS, WarmstartConfig])
def test_every_setting_is_explained(kind: type) -> None:
    for one in describe(kind):
        assert one.help and not one.help.endswith("."), one


@pytest.mark.parametrize("value", ["beam=0", "pairs=0", "query_lr=0", "weight_decay=0", "holdout=0", "repeat={x=0}"])
def test_what_zero_switches_off_may_be_zero(value: str) -> None:
    config = read_settings(FinetuneConfig, None, [value])
    assert getattr(config, value.partition("=")[0]) in (0, {"x": 0})


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"no\.toml does not exist"):
        read_settings(FinetuneConfig, tmp_path / "no.toml")
    (tmp_path / "c.toml").write_text("seed = = 3")
    with pytest.raises(RealmError, match=r"c\.toml is not valid TOML"):
        read_settings(FinetuneConfig, tmp_path / "c.toml")
    (tmp_path / "c.toml").write_bytes(b"seed = '\xff'")
    with pytest.raises(RealmError, match=r"c\.toml is not UTF-8"):
        read_settings(FinetuneConfig, tmp_path / "c.toml")
