"""What a PDF's page draws besides text, as far as tables are made of it: lines along the axes, and filled boxes.

Coordinates are in points, turned as the page is shown; y grows upwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import pypdfium2.raw as pdfium
from pypdfium2 import PdfMatrix, PdfPage

from realm_core.documents.pdf_tables.table import TableBudget

_MOST_OF_PAGE = 100_000  # objects, counted as in the budget
_COST_OF_PATH = 10
_MOST_POINTS = 400  # of a path; more are a drawing
_MOST_LINES = 2_000  # of a page, of each direction, before they are joined
_MOST_JOINED = 800  # of a page; more are a drawing
_DEEPEST_FORM = 4
_THIN = 3.0  # a box that is a line
_STRAIGHT = 0.5
SAME = 3.0  # distance between lines that are one
_LARGEST = 20_000.0  # a page has at most 14,400 points

TURNS = {
    degrees: PdfMatrix(*turn) for degrees, turn in ((90, (0, -1, 1, 0)), (180, (-1, 0, 0, -1)), (270, (0, 1, -1, 0)))
}
Interval = tuple[float, float]
Point = tuple[float, float]


@dataclass(frozen=True)
class Rule:
    """A line along an axis. at: its place on the other axis."""

    at: float
    start: float
    end: float

    def covers(self, place: float) -> bool:
        return self.start - SAME <= place <= self.end + SAME


@dataclass(frozen=True)
class Box:
    """A filled box."""

    left: float
    bottom: float
    right: float
    top: float
    colour: tuple[int, ...]


@dataclass
class Drawn:
    """across, down: the lines of a page, those that go on from one another joined."""

    across: list[Rule]
    down: list[Rule]
    boxes: list[Box]


def drawn_on(page: PdfPage, budget: TableBudget) -> Drawn | None:
    """The lines and boxes of a page; None if there are more than are looked at."""
    reader = _DrawingReader(budget)
    count, turn = pdfium.FPDFPage_CountObjects(page), TURNS.get(page.get_rotation(), PdfMatrix())
    reader.objects(count, partial(pdfium.FPDFPage_GetObject, page), turn, 0)
    budget.objects = max(budget.objects, reader.least)
    if not reader.may_go_on:
        return None
    drawn = Drawn(_joined(reader.across), _joined(reader.down), reader.boxes)
    return None if len(drawn.across) + len(drawn.down) > _MOST_JOINED else drawn


class _DrawingReader:
    def __init__(self, budget: TableBudget) -> None:
        self._budget = budget
        self.least = max(budget.objects - _MOST_OF_PAGE, 0)
        self.across: list[Rule] = []
        self.down: list[Rule] = []
        self.boxes: list[Box] = []

    @property
    def may_go_on(self) -> bool:
        most = max(len(self.across), len(self.down), len(self.boxes))
        return self._budget.objects >= self.least and most <= _MOST_LINES

    def objects(self, count: int, get: Callable[[int], Any], matrix: PdfMatrix, depth: int) -> None:
        """Read the objects of a page or form, until there are too many."""
        self._budget.objects -= max(count, 0)
        for number in range(count):
            if not self.may_go_on:
                return
            drawn = get(number)
            kind = pdfium.FPDFPageObj_GetType(drawn)
            if kind == pdfium.FPDF_PAGEOBJ_PATH:
                self._path(drawn, _matrix(drawn).multiply(matrix))
            elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _DEEPEST_FORM:
                inside = partial(pdfium.FPDFFormObj_GetObject, drawn)
                self.objects(pdfium.FPDFFormObj_CountObjects(drawn), inside, _matrix(drawn).multiply(matrix), depth + 1)

    def _path(self, path: Any, matrix: PdfMatrix) -> None:
        count = pdfium.FPDFPath_CountSegments(path)
        self._budget.objects -= _COST_OF_PATH
        if not 2 <= count <= _MOST_POINTS:
            return
        self._budget.objects -= count
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
        for points in _subpaths(path, count, matrix):
            xs, ys = zip(*points, strict=True)
            left, bottom, right, top = min(xs), min(ys), max(xs), max(ys)
            if not all(isfinite(value) and abs(value) < _LARGEST for value in (left, bottom, right, top)):
                continue
            edges = list(zip(points, [*points[1:], points[0]], strict=True))
            is_area = right - left > _THIN and top - bottom > _THIN
            if fill.value and is_area and _is_box(edges):
                self.boxes.append(Box(left, bottom, right, top, _colour(path)))
            if stroke.value or (fill.value and not is_area):
                self._lines(edges)

    def _lines(self, edges: Iterable[tuple[Point, Point]]) -> None:
        for (x, y), (next_x, next_y) in edges:
            if abs(next_y - y) <= _STRAIGHT and abs(next_x - x) > _THIN:
                self.across.append(Rule((y + next_y) / 2, min(x, next_x), max(x, next_x)))
            elif abs(next_x - x) <= _STRAIGHT and abs(next_y - y) > _THIN:
                self.down.append(Rule((x + next_x) / 2, min(y, next_y), max(y, next_y)))


def _subpaths(path: Any, count: int, matrix: PdfMatrix) -> Iterator[list[Point]]:
    """The parts of a path that consist of straight lines."""
    x, y = ctypes.c_float(), ctypes.c_float()
    points: list[Point] = []
    is_straight = True
    for number in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(path, number)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            if len(points) > 1 and is_straight:
                yield points
            points, is_straight = [], True
        is_straight = is_straight and kind != pdfium.FPDF_SEGMENT_BEZIERTO
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        points.append(matrix.on_point(x.value, y.value))
    if len(points) > 1 and is_straight:
        yield points


def _is_box(edges: Sequence[tuple[Point, Point]]) -> bool:
    return 4 <= len(edges) <= 6 and all(
        abs(x - next_x) <= _STRAIGHT or abs(y - next_y) <= _STRAIGHT for (x, y), (next_x, next_y) in edges
    )


def _colour(path: Any) -> tuple[int, ...]:
    parts = [ctypes.c_uint() for _ in range(4)]
    pdfium.FPDFPageObj_GetFillColor(path, *parts)
    return tuple(part.value for part in parts)


def _matrix(drawn: Any) -> PdfMatrix:
    matrix = pdfium.FS_MATRIX(a=1, d=1)
    pdfium.FPDFPageObj_GetMatrix(drawn, matrix)
    return PdfMatrix.from_raw(matrix)


def _joined(rules: Iterable[Rule]) -> list[Rule]:
    """Lines at about one place as one, where they touch."""
    joined: list[Rule] = []
    for cluster in clusters(sorted(rules, key=lambda rule: rule.at)):
        at = sum(rule.at for rule in cluster) / len(cluster)
        joined += (Rule(at, *interval) for interval in union([(rule.start, rule.end) for rule in cluster], SAME))
    return joined


def clusters(rules: Iterable[Rule]) -> Iterator[list[Rule]]:
    """Lines in their order, those at about the place of the first of them together."""
    cluster: list[Rule] = []
    for rule in rules:
        if cluster and abs(rule.at - cluster[0].at) > SAME:
            yield cluster
            cluster = []
        cluster.append(rule)
    if cluster:
        yield cluster


def union(intervals: Iterable[Interval], gap: float) -> list[Interval]:
    """The parts that the intervals take, divided by gaps of more than this."""
    taken: list[Interval] = []
    for start, end in sorted(intervals):
        if taken and start - taken[-1][1] <= gap:
            taken[-1] = (taken[-1][0], max(taken[-1][1], end))
        else:
            taken.append((start, end))
    return taken


def alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the edges of two things are in the same places."""
    return len(one) == len(other) and all(abs(a - b) <= SAME for a, b in zip(one, other, strict=True))
