"""Settings of trainings: from a file, overridden, and refused by the name of the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.training.config import FinetuneConfig, read_config


def test_without_a_file_the_defaults_hold() -> None:
    assert read_config(FinetuneConfig, None) == FinetuneConfig()


def test_overrides_come_after_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("seed = 3\nreader_lr = 1\nholdout = 0.2\n[repeat]\nplain = 2\n")
    config = read_config(FinetuneConfig, tmp_path / "c.toml", ["holdout=0.1", "reader_epochs = 7"])
    assert (config.seed, config.reader_lr, config.holdout, config.reader_epochs) == (3, 1.0, 0.1, 7)
    assert config.repeat == {"plain": 2} and isinstance(config.reader_lr, float)


def test_the_shipped_recipe_can_be_read() -> None:
    recipe = Path(__file__).resolve().parents[3] / "models" / "realm-mini.toml"
    assert isinstance(read_config(FinetuneConfig, recipe), FinetuneConfig)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning_rate=1e-4", r"Unknown setting 'learning_rate'; known are seed, holdout"),
        ("seed=1.5", "seed must be of type int, not 1.5"),
        ("seed=true", "seed must be of type int, not True"),
        ("reader_lr='fast'", "reader_lr must be of type float, not 'fast'"),
        ("reader_lr=0", "reader_lr must be positive, not 0.0"),
        ("holdout=1.0", "holdout must be a share from 0 up to 1, not 1.0"),
        ("holdout=nan", "holdout must be a share"),
        ("dropout=-0.1", "dropout must be a share"),
        ("negative_share=1.1", "negative_share must be a share"),
        ("checkpoint_every=0", "checkpoint_every must be at least 1, not 0"),
        ("reader_epochs=-1", "reader_epochs must not be negative, not -1"),
        ("repeat={plain = -1}", r"repeat\.plain must be a whole number that is not negative, not -1"),
        ("repeat={plain = 'x'}", r"repeat\.plain must be a whole number"),
        ("seed", "'seed' is not an override; write KEY=VALUE"),
        ("seed=one", "'one' is not a TOML value"),
    ],
)
def test_a_wrong_setting_is_named(override: str, message: str) -> None:
    with pytest.raises(RealmError, match=message):
        read_config(FinetuneConfig, None, [override])


def test_all_rows_may_bring_a_negative() -> None:
    assert read_config(FinetuneConfig, None, ["negative_share=1.0"]).negative_share == 1.0


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"no\.toml does not exist"):
        read_config(FinetuneConfig, tmp_path / "no.toml")
    (tmp_path / "c.toml").write_text("seed = = 3")
    with pytest.raises(RealmError, match=r"c\.toml is not valid TOML"):
        read_config(FinetuneConfig, tmp_path / "c.toml")
    (tmp_path / "c.toml").write_bytes(b"seed = '\xff'")
    with pytest.raises(RealmError, match=r"c\.toml is not valid TOML"):
        read_config(FinetuneConfig, tmp_path / "c.toml")
