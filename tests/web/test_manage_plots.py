"""Diagrams and figures of jobs: what is drawn is what was measured, for what a look costs little."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from realm_core.training.ablation import ROWS
from tests.web.conftest import Person
from webapp.jobs import plots
from webapp.jobs.result import figures
from webapp.models import Job, JobMetric, JobState
from webapp.pages import drawing

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    plots._memory.clear()
    yield
    plots._memory.clear()


@pytest.fixture
def job() -> Job:
    return Job.objects.create(kind="pretrain", state=JobState.RUNNING)


def measure(job: Job, step: int, **values: Any) -> JobMetric:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return JobMetric.objects.create(job=job, step=step, time=timezone.now(), values=named)


def lines(svg: str) -> list[list[tuple[float, float]]]:
    """The points of every drawn curve, in the image's own units."""
    root = ET.fromstring(svg)
    found = []
    for path in root.iter("{http://www.w3.org/2000/svg}path"):
        numbers = re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path.get("d", ""))
        if "stroke: var(--line-" in path.get("style", "") and len(numbers) > 1 and "clip-path" in path.attrib:
            found.append([(float(x), float(y)) for x, y in numbers])
    return found


def test_a_panel_for_each_figure_that_there_is(job: Job) -> None:
    assert plots.curves(job.pk) == []
    measure(
        job,
        10,
        pretrain__loss=3.0,
        pretrain__accuracy=0.25,
        pretrain__accuracy_without=0.2,
        pretrain__index_lag_steps=7.0,
    )
    last = measure(
        job, 20, pretrain__loss=2.5, pretrain__held_out__loss=2.75, pretrain__note="text", pretrain__none=None
    )
    curves = plots.curves(job.pk)
    assert [curve.panel.slug for curve in curves] == ["loss", "accuracy", "lag"]
    loss, accuracy, lag = curves
    assert loss.lines == {"training": [(10.0, 3.0), (20.0, 2.5)], "held out": [(20.0, 2.75)]}
    assert loss.now == (("training", "2.5"), ("held out", "2.75")) and loss.at == last.pk
    assert accuracy.now == (("with retrieval", "25.0\xa0%"), ("without", "20.0\xa0%"))
    assert lag.now == (("lag", "7\xa0steps"),)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_axis_of_a_share_ends_where_shares_do(value: float) -> None:
    svg = drawing.lines_svg((drawing.Series("accuracy", 0, ((10, value), (20, value))),), along="step", share=True)
    ticks = [float(text.replace("\N{MINUS SIGN}", "-")) for text in re.findall(r">([^<>]*)\xa0%<", svg)]
    assert 100 * value in ticks and min(ticks) >= 0 and max(ticks) <= 100


@pytest.mark.parametrize("steps", [(30,), (1, 2, 3), (10, 20, 30), (250, 500, 750, 1000)])
def test_there_is_no_half_a_step(steps: tuple[int, ...]) -> None:
    svg = drawing.lines_svg((drawing.Series("loss", 0, tuple((step, 0.5) for step in steps)),), along="step")
    x_axis = svg[svg.index('id="matplotlib.axis_1"') : svg.index('id="matplotlib.axis_2"')]
    ticks = re.findall(r">([\d.,]+)<", x_axis)
    assert len(ticks) > 1 and all(tick.isdecimal() for tick in ticks)


def test_a_figure_held_out_is_called_as_in_the_result(job: Job) -> None:
    measure(job, 10, finetune__held_out__span=0.5)
    (curve,) = plots.curves(job.pk)
    Job.objects.filter(pk=job.pk).update(result={"held_out": {"span": 0.5}})
    job.refresh_from_db()
    named = [called.lower() for called, _ in figures(job)]
    assert [called for called in named if called.startswith("held out")] == [
        f"held out: {line}" for line in curve.lines
    ]
    assert curve.panel.title == "Best span is right, held out"


def test_an_evaluation_shows_how_many_it_got_right_so_far(job: Job) -> None:
    for asked, right in ((5, 0.2), (10, 0.5)):
        measure(job, asked, **{"evaluate.exact_match": right, "evaluate.recall@5": 2 * right})
    (curve,) = plots.curves(job.pk)
    assert curve.now == (("exact match", "50.0\xa0%"), ("recall@5", "100.0\xa0%"))
    svg = plots.curve_svg(job.pk, "so-far")
    assert svg is not None and ">questions<" in svg and ">step<" not in svg


def test_training_without_retrieval_has_one_line(job: Job) -> None:
    measure(job, 10, ict__accuracy=0.5)
    (curve,) = plots.curves(job.pk)
    assert (curve.panel.title, list(curve.lines)) == ("Accuracy", ["training"])


def test_a_step_that_was_measured_again_counts_as_the_last_time(job: Job) -> None:
    for step, loss in ((10, 3.0), (20, 2.0), (10, 2.9)):
        measure(job, step, ict__loss=loss)
    assert plots.curves(job.pk)[0].lines["training"] == [(10.0, 2.9), (20.0, 2.0)]


def test_looking_again_reads_what_is_new_and_draws_what_has_changed(job: Job) -> None:
    measure(job, 10, ict__loss=3.0)
    first = plots.curve_svg(job.pk, "loss")
    drawn = drawing.lines_svg.cache_info().misses
    with CaptureQueriesContext(connection) as queries:
        assert plots.curve_svg(job.pk, "loss") == first
    assert drawing.lines_svg.cache_info().misses == drawn
    (query,) = queries.captured_queries
    assert f'"id" > {plots._memory[job.pk].at}' in query["sql"]
    measure(job, 20, ict__loss=2.0)
    assert plots.curve_svg(job.pk, "loss") != first
    for _ in range(plots._JOBS_REMEMBERED):
        plots.curves(uuid4())
    assert job.pk not in plots._memory and len(plots._memory) == plots._JOBS_REMEMBERED


def test_the_curve_goes_where_the_points_are(job: Job) -> None:
    for step, loss in ((0, 4.0), (10, 2.0), (20, 3.0)):
        measure(job, step, ict__loss=loss)
    svg = plots.curve_svg(job.pk, "loss")
    assert svg is not None
    (curve,) = lines(svg)
    (x0, y0), (x1, y1), (x2, y2) = curve
    assert x1 - x0 == pytest.approx(x2 - x1, rel=1e-3)
    assert (y1 - y0) == pytest.approx(2 * (y1 - y2), rel=1e-3)  # down by 2, up by 1; an image's y grows downwards
    assert y1 > y2 > y0


def test_many_points_are_thinned_to_their_means() -> None:
    points = [(float(step), float(step % 2)) for step in range(1000)]
    thinned = plots._thinned(points)
    assert len(thinned) == 334 and thinned[0] == (2.0, pytest.approx(1 / 3)) and thinned[-1] == (999.0, 1.0)
    assert plots._thinned(points[:400]) == points[:400]


def test_an_image_has_both_themes_and_no_colour_besides(job: Job) -> None:
    measure(job, 10, ict__loss=3.0, ict__held_out__loss=3.1)
    svg = plots.curve_svg(job.pk, "loss")
    assert svg is not None and "prefers-color-scheme: dark" in svg
    outside = re.sub(r"<style.*?</style>", "", svg, flags=re.S)
    assert set(re.findall(r"#[0-9a-f]{6}\b", outside)) == set()
    used = set(re.findall(r"var\(--([\w-]+)\)", outside))
    assert {"line-0", "line-1", "soft", "rule"} <= used <= set(drawing._COLOURS)


def test_the_page_has_the_images_and_they_may_be_kept(job: Job, staff: Person) -> None:
    row = measure(job, 10, pretrain__loss=3.0)
    page = staff.client.get(f"/manage/jobs/{job.pk}/").content.decode()
    address = f"/manage/jobs/{job.pk}/plots/loss.svg?at={row.pk}"
    assert f'src="{address}"' in page
    image = staff.client.get(address)
    assert image["Content-Type"] == "image/svg+xml; charset=utf-8"
    assert "immutable" in image["Cache-Control"] and "private" in image["Cache-Control"]
    later = measure(job, 20, pretrain__loss=2.0)
    assert f"?at={later.pk}" in staff.client.get(f"/manage/jobs/{job.pk}/plots/").content.decode()
    assert staff.client.get(f"/manage/jobs/{job.pk}/plots/lag.svg").status_code == 404


def test_bars_and_calibration_are_drawn_to_scale() -> None:
    svg = drawing.bars_svg((("exact match", 0.25), ("recall@5", 0.75)))
    heights = []
    for drawn in re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--line-0\)', svg):
        ys = [float(y) for y in re.findall(r"[ML] -?[\d.]+ (-?[\d.]+)", drawn)]
        heights.append(max(ys) - min(ys))
    assert len(heights) == 2 and heights[1] == pytest.approx(3 * heights[0], rel=1e-3)
    assert "25.0" in svg and "75.0" in svg
    calibration = drawing.reliability_svg(((0.0, 0.1, 0.05, 0.0), (0.9, 1.0, 0.95, 1.0)))
    assert "share right" in calibration and "confidence in the answer" in calibration


def test_the_rows_of_an_ablation_are_compared_stage_by_stage(job: Job, staff: Person) -> None:
    def row_of(stage: str, row: str, step: int, **values: float) -> JobMetric:
        said = {"stage": stage} | ({"row": row} if row else {}) | ({"questions": "dev"} if "ev" in stage else {})
        return measure(job, step, **said, **values)

    row_of("ict", "", 10, ict__loss=3.0, ict__held_out__loss=3.5)
    row_of("pretrain", "stale", 10, pretrain__loss=2.0, pretrain__null_share=0.5)
    realm = row_of("pretrain", "realm", 10, pretrain__loss=1.0, pretrain__held_out__loss=1.5)
    row_of("zero-shot", "realm", 5, **{"zero-shot.recall@5": 0.75})
    row_of("evaluate", "bm25", 5, **{"evaluate.exact_match": 0.25, "evaluate.recall@5": 0.5})
    shown = [(curve.stage, curve.panel.title, dict(curve.lines)) for curve in plots.curves(job.pk)]
    assert shown == [
        ("Warm up the embedder (ICT)", "Loss", {"training": [(10.0, 3.0)], "held out": [(10.0, 3.5)]}),
        ("Pre-train", "Loss, training", {"realm": [(10.0, 1.0)], "stale": [(10.0, 2.0)]}),
        ("Pre-train", "Loss, held out", {"realm": [(10.0, 1.5)]}),
        ("Pre-train", "Prior of the null block", {"stale": [(10.0, 0.5)]}),
        ("Retrievers before fine-tuning", "Recall@5 so far", {"realm": [(5.0, 0.75)]}),
        ("Evaluate: dev", "Exact match so far", {"bm25": [(5.0, 0.25)]}),
        ("Evaluate: dev", "Recall@5 so far", {"bm25": [(5.0, 0.5)]}),
    ]
    curves = {curve.slug: curve for curve in plots.curves(job.pk)}
    assert list(curves) == ["0-loss", "1-loss", "1-loss-1", "1-null-share", "2-so-far-1", "3-so-far", "3-so-far-1"]
    # What has not changed keeps its address, and a row its looks.
    assert curves["1-loss"].at == realm.pk and curves["0-loss"].at < realm.pk
    assert curves["1-loss"].styles == (0, 6) and curves["1-null-share"].styles == (6,)
    page = staff.client.get(f"/manage/jobs/{job.pk}/plots/").content.decode()
    headings = re.findall('<h3 class="plots-of">(.*?)</h3>', page)
    assert headings == list(dict.fromkeys(stage for stage, _, _ in shown))
    assert "<span>stale 0.5</span>" in page and "<span>bm25 25.0\xa0%</span>" in page  # whose it is, while it is alone
    for slug, curve in curves.items():
        assert f'src="/manage/jobs/{job.pk}/plots/{slug}.svg?at={curve.at}"' in page
        assert staff.client.get(f"/manage/jobs/{job.pk}/plots/{slug}.svg").status_code == 200


def test_eight_lines_can_be_told_apart(job: Job) -> None:
    for number, row in enumerate(ROWS):
        for step in (10, 20):
            measure(job, step, stage="finetune", row=row, finetune__loss=number + step)
    (curve,) = plots.curves(job.pk)
    assert list(curve.lines) == list(ROWS) and curve.height > drawing.HEIGHT
    svg = plots.curve_svg(job.pk, curve.slug)
    assert svg is not None and all(f">{row}</text>" in svg for row in ROWS)
    assert len(set(re.findall(r"var\(--(line-\d)\)", svg))) == 8
    assert 'height="198pt"' in svg  # that many pixels


def test_a_row_that_stands_still_is_not_sorted_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ("realm", "stale"):
        measure(job, 10, stage="pretrain", row=row, pretrain__loss=1.0)
    plots.curves(job.pk)
    thinned: list[Any] = []
    monkeypatch.setattr(plots, "_thinned", lambda points: thinned.append(points) or points)
    measure(job, 20, stage="pretrain", row="stale", pretrain__loss=2.0)
    (curve,) = plots.curves(job.pk)
    assert thinned == [[(10.0, 1.0), (20.0, 2.0)]] and curve.lines["realm"] == [(10.0, 1.0)]


def test_each_set_of_questions_says_what_was_learnt_from_it() -> None:
    sets = {
        "corrected": {"given": 3, "learnt": 2, "held_out": 1, "right_before": 0, "right_after": 2},
        "many": {"given": 1200, "learnt": 1200, "held_out": 0},
    }
    questions = {"given": 1203, "learnt": 1202, "held_out": 1, "sets": sets}
    assert figures(Job(kind="finetune", result={"questions": questions})) == [
        ("Questions learnt", "1,202 of 1,203"),
        ("Learnt from corrected", "2 of 3, 1 held out; right before: 0, now: 2"),
        ("Learnt from many", "1,200 of 1,200"),
    ]
