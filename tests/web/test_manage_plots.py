"""Diagrams of jobs: what is drawn is what was measured, for what a look costs little."""

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

from tests.web.conftest import Person
from webapp.models import Job, JobKind, JobMetric, JobState
from webapp.services import plots
from webapp.views.job_result import figures

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    plots._memory.clear()
    yield
    plots._memory.clear()


@pytest.fixture
def job() -> Job:
    return Job.objects.create(kind=JobKind.PRETRAIN, state=JobState.RUNNING)


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


def test_a_figure_held_out_is_called_as_in_the_result(job: Job) -> None:
    measure(job, 10, finetune__held_out__span=0.5)
    (curve,) = plots.curves(job.pk)
    Job.objects.filter(pk=job.pk).update(result={"held_out": {"span": 0.5}})
    job.refresh_from_db()
    ((called, _),) = figures(job)
    assert [called.lower()] == [f"held out: {line}" for line in curve.lines]
    assert curve.panel.title == "Best span is right, held out"


def test_an_evaluation_shows_how_many_it_got_right_so_far(job: Job) -> None:
    for asked, right in ((5, 0.2), (10, 0.5)):
        measure(job, asked, **{"evaluate.exact_match": right, "evaluate.recall@5": 2 * right})
    (curve,) = plots.curves(job.pk)
    assert curve.now == (("exact match", "50.0\xa0%"), ("recall@5", "100.0\xa0%"))
    svg = plots.curve_svg(job.pk, "so-far")
    assert svg is not None and ">questions<" in svg and ">step<" not in svg


def test_what_does_not_retrieve_has_no_line_without(job: Job) -> None:
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
    drawn = plots._curve_svg.cache_info().misses
    with CaptureQueriesContext(connection) as queries:
        assert plots.curve_svg(job.pk, "loss") == first
    assert plots._curve_svg.cache_info().misses == drawn
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
    assert {"line-0", "line-1", "soft", "rule"} <= used <= set(plots._COLOURS)


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
    svg = plots.bars_svg((("exact match", 0.25), ("recall@5", 0.75)))
    heights = []
    for drawn in re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--line-0\)', svg):
        ys = [float(y) for y in re.findall(r"[ML] -?[\d.]+ (-?[\d.]+)", drawn)]
        heights.append(max(ys) - min(ys))
    assert len(heights) == 2 and heights[1] == pytest.approx(3 * heights[0], rel=1e-3)
    assert "25.0" in svg and "75.0" in svg
    calibration = plots.reliability_svg(((0.0, 0.1, 0.05, 0.0), (0.9, 1.0, 0.95, 1.0)))
    assert "share that is right" in calibration
