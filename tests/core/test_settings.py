"""Settings refuse what no file, database or processor can hold, in one sentence that can be printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from realm_core.command_line import explain, in_toml, parse_toml, read_settings
from realm_core.errors import RealmError, printable
from realm_core.settings import (
    Count,
    Counts,
    NotNegative,
    SettingError,
    Settings,
    Share,
    describe,
    flat,
    make,
    nested,
    setting,
    try_make,
)
from realm_core.task import undecided
from realm_core.training.ablation import AblationConfig
from realm_core.training.config import IctConfig
from realm_core.training.tasks import Ablate


class Example(Settings):
    """One setting of every kind."""

    count: Count = setting(1, "a whole number")
    rate: NotNegative = setting(0.5, "a number")
    text: str = setting("", "a text")
    repeat: Counts = setting({}, "whole numbers by name")
    floor: Share | None = setting(None, "a share; empty: none")
    season: Literal["spring", "autumn"] = setting("spring", "a word")
    size: int = setting(3, "a bounded number", ge=2, le=9)
    fixed: int = 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 10**400),
        ("count", 2**63),
        ("rate", 10**400),
        ("rate", -(10**400)),
        ("text", "a\x00b"),
        ("text", "half \ud800"),
        ("text", "\udfff"),
        ("repeat", {"a\x00": 1}),
        ("repeat", {"\udc00": 1}),
        ("repeat", {"a": 2**63}),
        ("repeat", {"a": 10**400}),
    ],
)
def test_what_nothing_can_hold_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        make(Example, {name: value})
    assert caught.value.name.partition(".")[0] == name
    assert len(str(caught.value)) < 200 and printable(str(caught.value)) == str(caught.value)


def test_what_can_be_held_is_taken() -> None:
    values = {"count": 2**63 - 1, "rate": 10**15, "text": "Ünïcödé \U0001f600", "repeat": {"ä": 2**63 - 1}}
    made = make(Example, values)
    assert {name: getattr(made, name) for name in values} == values and isinstance(made.rate, float)


def test_a_word_is_one_of_its_choices() -> None:
    assert make(Example, {"season": "autumn"}).season == "autumn"
    with pytest.raises(SettingError, match=r"^season must be one of spring, autumn, not 'winter'"):
        make(Example, {"season": "winter"})
    with pytest.raises(SettingError, match=r"^season must be a text, not 3"):
        make(Example, {"season": 3})


def test_a_list_setting_takes_known_words_without_repeats() -> None:
    def rows(value: Any) -> list[str]:
        task, wrong = try_make(Ablate, {**undecided(Ablate), **PATHS, "rows": value})
        if task is None:
            raise SettingError(*next(iter(wrong.items())))
        return task.rows

    assert rows(["realm", "bm25"]) == ["realm", "bm25"]
    for wrong in ([], ["realm", "realm"], ["winter"]):
        with pytest.raises(SettingError, match=r"^rows must be one or more of realm, .*, each once, not \["):
            rows(wrong)
    for wrong in ("realm", [1], [["realm"]], None):
        with pytest.raises(SettingError, match=r"^rows must be a list of words, not "):
            rows(wrong)


PATHS: dict[str, Any] = {
    **{name: Path(name) for name in ("model", "corpus", "spans")},
    **{name: (Path(name),) for name in ("questions", "dev")},
}


def test_everything_that_is_wrong_is_named_at_once() -> None:
    made, wrong = try_make(Example, {"count": -1, "rate": True, "season": "", "size": 1, "winter": 3})
    assert made is None and list(wrong) == ["winter", "count", "rate", "season", "size"]
    assert wrong["size"] == "must be from 2 to 9, not 1." and wrong["rate"] == "must be a number, not True."


def test_sections_are_named_before_their_settings() -> None:
    values = {"ict.steps": 7, "finetune.repeat": {"a": 2}}
    made = make(AblationConfig, nested(AblationConfig, values))
    assert made.ict == IctConfig(steps=7) and flat(made).items() >= values.items()
    assert make(AblationConfig, nested(AblationConfig, flat(made))) == made
    for wrong, name in (
        ({"ict": {"steps": 0}}, "ict.steps"),
        ({"finetune": {"repeat": {"a": -1}}}, "finetune.repeat.a"),
        ({"pretrain": {"masking": "span"}}, "pretrain.masking"),
        ({"pretrain": {"query_wordpieces": 64, "pair_wordpieces": 64}}, "pretrain.pair_wordpieces"),
        ({"pretrain": 3}, "pretrain"),
        ({"steps": 3}, "steps"),
    ):
        with pytest.raises(SettingError) as caught:
            make(AblationConfig, wrong)
        assert caught.value.name == name


def test_a_field_that_is_no_setting_is_not_described() -> None:
    assert Example(fixed=8).fixed == 8 and "fixed" not in explain(Example) and "fixed" not in flat(Example())
    with pytest.raises(SettingError, match=r"^fixed is no setting; there are count, "):
        make(Example, {"fixed": 8})
    with pytest.raises(SettingError) as caught:
        make(Example, {"9" * 100_000: 8})
    assert len(str(caught.value)) < 1000


def test_an_optional_setting_may_be_left_open() -> None:
    floor = next(one for one in describe(Example) if one.name == "floor")
    assert (floor.optional, floor.kind, floor.default) == (True, float, None)
    assert make(Example, {"floor": None}).floor is None and make(Example, {"floor": 0}).floor == 0.0
    with pytest.raises(SettingError, match=r"^floor must be a share from 0 up to 1, not 1\.0"):
        make(Example, {"floor": 1.0})
    with pytest.raises(SettingError, match=r"^count must be a whole number, not None"):
        make(Example, {"count": None})
    assert "floor: a share" in explain(Example) and "None" not in explain(Example)


def test_a_text_that_is_no_toml_is_named(tmp_path: Path) -> None:
    for text in ("a = ", f"a = {'9' * 5000}", "a = " + "[" * 100_000):
        with pytest.raises(RealmError, match=r"^is not valid TOML: "):
            parse_toml(text)
    (tmp_path / "c.toml").write_text(f"count = {'9' * 5000}")
    with pytest.raises(RealmError, match=r"c\.toml is not valid TOML"):
        read_settings(Example, tmp_path / "c.toml")


def test_values_in_toml() -> None:
    values = [True, 3, 1e-5, 'a "b" \\ \x7f é', {"plain-train": 2}, ["a", "b"]]
    assert [in_toml(value) for value in values] == [
        "true", "3", "1e-05", '"a \\"b\\" \\\\ \\u007F é"', '{"plain-train" = 2}', '["a", "b"]',
    ]  # fmt: skip
