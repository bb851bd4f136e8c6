"""The activity that draws what trainings measured."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from realm_core.errors import RealmError
from realm_core.evaluation.curves import read_metrics
from tests.core.running import activity_of

_SVG = "{http://www.w3.org/2000/svg}"


def metrics_of(folder: Path, rows: list[dict[str, object]], end: str = "") -> Path:
    folder.mkdir(parents=True)
    text = "".join(json.dumps({"time": 1.0, **row}) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(text + end)
    return folder


def test_each_figure_has_a_panel_and_each_run_a_line_where_it_has_the_figure(tmp_path: Path) -> None:
    one = metrics_of(tmp_path / "one", [{"step": n, "pretrain.loss": 9 - n, "pretrain.utility": n} for n in range(5)])
    two = metrics_of(tmp_path / "two", [{"step": n, "pretrain.loss": 8 - n} for n in range(5)])
    plot = tmp_path / "curves.svg"
    activity_of(
        "curves", [one, f"stale & slow={two}", "--figures", "pretrain.loss", "pretrain.utility", "--plot", plot]
    )
    root = ElementTree.parse(plot).getroot()
    ids = {element.get("id", "") for element in root.iter(f"{_SVG}g")}
    assert {i for i in ids if i.startswith("pretrain.")} == {"pretrain.loss-0", "pretrain.loss-1", "pretrain.utility-0"}
    texts = [element.text for element in root.iter(f"{_SVG}text")]
    for shown in ("pretrain.loss", "pretrain.utility", "one", "stale & slow"):
        assert texts.count(shown) == 1
    assert texts.count("step") == 2


def test_the_table_has_a_line_for_each_run_and_step(tmp_path: Path) -> None:
    one = metrics_of(tmp_path / "one", [{"step": 5, "x.loss": 2.5}, {"step": 10, "x.loss": 0.5, "x.recall": 1.0}])
    two = metrics_of(tmp_path / "two", [{"step": 10, "x.loss": 3.0}])
    table = tmp_path / "curves.csv"
    activity_of("curves", [one, f"a,b={two}", "--csv", table])
    assert table.read_text().splitlines() == [
        "run,step,x.loss,x.recall",
        "one,5,2.5,",
        "one,10,0.5,1.0",
        '"a,b",10,3.0,',
    ]
    activity_of("curves", [one, "--figures", "x.recall", "--csv", table])
    assert table.read_text().splitlines() == ["run,step,x.recall", "one,10,1.0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--figures", "x.loss"], "or --csv must be given"), (["--plot", "x.svg"], "must be named for")],
)
def test_it_is_told_what_to_write(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=message):
        activity_of("curves", [tmp_path, *words])


def test_a_step_measured_twice_counts_as_measured_last_and_a_cut_off_line_not_at_all(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"step": 10, "x.loss": 3.0}, {"step": 20, "x.loss": 2.0}]
    run = metrics_of(tmp_path / "run", [*rows, {"step": 10, "x.loss": 1.0, "x.note": "words"}], '{"step": 30, "x.lo')
    assert read_metrics(run / "metrics.jsonl") == {"x.loss": [(10, 1.0), (20, 2.0)]}


def test_what_cannot_be_drawn_is_a_sentence(tmp_path: Path) -> None:
    run = metrics_of(tmp_path / "run", [{"step": 1, "x.loss": 3.0}])
    plot = tmp_path / "curves.svg"
    for arguments, message in (
        ([run, "--figures", "x.lost"], "No run has the figure x.lost; known ones are x.loss"),
        ([tmp_path / "none", "--figures", "x.loss"], "none/metrics.jsonl: No such file"),
        ([run, f"run={run}", "--figures", "x.loss"], "another run has the same name, run"),
    ):
        with pytest.raises(RealmError, match=message):
            activity_of("curves", [*arguments, "--plot", plot])
    for elsewhere, message in (
        (tmp_path / "x.png", "must end in .svg"),
        (tmp_path / "no" / "x.svg", "no is no folder"),
    ):
        with pytest.raises(RealmError, match=message):
            activity_of("curves", [run, "--figures", "x.loss", "--plot", elsewhere])
    broken = metrics_of(tmp_path / "broken", [], 'no row\n{"step": 1, "x.loss": 1, "time": 1}\n')
    with pytest.raises(RealmError, match="line 1: not a row of metrics"):
        read_metrics(broken / "metrics.jsonl")
    assert not plot.exists()
