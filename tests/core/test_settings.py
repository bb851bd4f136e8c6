"""Settings refuse what no file, database or processor can hold, in one sentence that can be printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from realm_core.errors import RealmError
from realm_core.settings import (
    ANY,
    NOT_NEGATIVE,
    SHARE,
    SettingError,
    Settings,
    describe,
    explain,
    in_toml,
    make,
    parse_toml,
    printable,
    read_settings,
    setting,
    some_of,
    template,
)
from realm_core.training.ablation import AblationConfig


@dataclass(frozen=True)
class Example(Settings):
    """One setting of every kind."""

    count: int = setting(1, "a whole number", NOT_NEGATIVE)
    rate: float = setting(0.5, "a number", NOT_NEGATIVE)
    text: str = setting("", "a text")
    repeat: dict[str, int] = setting({}, "whole numbers by name")
    floor: float | None = setting(None, "a share; empty: none", SHARE)
    seasons: list[str] = setting(["spring"], "some words", some_of({"spring": "Spring", "autumn": "Fall"}))
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
    assert make(Example, values) == Example(2**63 - 1, 1e15, "Ünïcödé \U0001f600", {"ä": 2**63 - 1})


def test_a_list_has_some_of_its_words_each_once() -> None:
    assert make(Example, {"seasons": ["autumn", "spring"]}).seasons == ["autumn", "spring"]
    first = make(Example, {})
    first.seasons.append("autumn")
    assert make(Example, {}).seasons == ["spring"]  # a list of each one's own
    for wrong in ([], ["autumn", "autumn"], ["winter"]):
        with pytest.raises(SettingError, match=r"^seasons must be one or more of spring, autumn, each once, not \["):
            make(Example, {"seasons": wrong})
    for wrong in ("autumn", [1], [["autumn"]], None):
        with pytest.raises(SettingError, match=r"^seasons must be a list of words, not "):
            make(Example, {"seasons": wrong})


def test_a_field_that_is_no_setting_is_not_described() -> None:
    assert Example(fixed=8).fixed == 8 and "fixed" not in explain(Example) + template(Example())
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


def test_a_template_is_the_defaults_with_what_they_mean() -> None:
    text = template(Example())
    assert make(Example, parse_toml(text)) == Example()
    other = Example(text='a "b"', repeat={"x y": 2}, seasons=["autumn", "spring"])
    assert make(Example, parse_toml(template(other))) == other
    for one in describe(Example):
        limit = "" if one.limit is ANY else f" ({one.limit.says})"
        assert f"# {one.help}{limit}\n{'# ' if one.default is None else ''}{one.name} =" in text


def test_values_in_toml() -> None:
    values = [True, 3, 1e-5, 'a "b" \\ \x7f é', {"plain-train": 2}, ["a", "b"]]
    assert [in_toml(value) for value in values] == [
        "true", "3", "1e-05", '"a \\"b\\" \\\\ \\u007F é"', '{"plain-train" = 2}', '["a", "b"]',
    ]  # fmt: skip


def test_an_ablation_in_toml_is_what_it_was() -> None:
    text = AblationConfig().in_toml()
    assert AblationConfig.make(parse_toml(text)) == AblationConfig()
    assert "# blocks read for a sentence, the null block counted (paper: 8) (at least 2)\nk = 8" in text
    other = {"ict": {"steps": 7}, "finetune": {"repeat": {"plain-train": 2}}, "pretrain": {"refresh": "in-loop"}}
    made = AblationConfig.make(other)
    assert AblationConfig.make(parse_toml(made.in_toml())) == made != AblationConfig()
