"""What a PDF's page draws besides text, as far as tables are made of it: lines along the axes, and filled boxes.

Coordinates are in points, turned as the page is shown; y grows upwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_MOST_OF_PAGE = 100_000  # objects; a path counts as ten, and as its points
_COST_OF_PATH = 10
_MOST_POINTS = 400  # of a path; more are a drawing
_MOST_LINES = 2_000  # of a page, of each direction, before they are joined
_MOST_JOINED = 800  # of a page; more are a drawing
_DEEPEST_FORM = 4
_THIN = 3.0  # a box that is a line
_STRAIGHT = 0.5
_SHORTEST = 4.0
SAME = 3.0  # distance between lines that are one
_LARGEST = 20_000.0  # a page has at most 14,400 points

Matrix = tuple[float, float, float, float, float, float]
UNTURNED: Matrix = (1, 0, 0, 1, 0, 0)
TURNS: dict[int, Matrix] = {
    0: UNTURNED,
    90: (0, -1, 1, 0, 0, 0),
    180: (-1, 0, 0, -1, 0, 0),
    270: (0, 1, -1, 0, 0, 0),
}


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

    across: list[Rule] = field(default_factory=list)
    down: list[Rule] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)


def drawn_on(page: PdfPage, most: int) -> tuple[Drawn | None, int]:
    """The lines and boxes of a page, and how many objects were looked at; None if there are more than may be."""
    most = min(most, _MOST_OF_PAGE)
    reader = _Reader(TURNS.get(page.get_rotation(), UNTURNED), most)
    reader.objects_of(page)
    looked_at = most - max(reader.left, 0)
    if not reader.may_go_on:
        return None, looked_at
    drawn = Drawn(_joined(reader.across), _joined(reader.down), reader.boxes)
    return (None if len(drawn.across) + len(drawn.down) > _MOST_JOINED else drawn), looked_at


class _Reader:
    def __init__(self, turn: Matrix, most: int) -> None:
        self._turn = turn
        self.left = most
        self.across: list[Rule] = []
        self.down: list[Rule] = []
        self.boxes: list[Box] = []

    @property
    def may_go_on(self) -> bool:
        return self.left >= 0 and max(len(self.across), len(self.down), len(self.boxes)) <= _MOST_LINES

    def objects_of(self, page: Any) -> None:
        """Read the objects of a page, until there are too many."""
        import pypdfium2.raw as pdfium

        self._objects(
            pdfium.FPDFPage_CountObjects(page), lambda number: pdfium.FPDFPage_GetObject(page, number), self._turn, 0
        )

    def _objects(self, count: int, get: Callable[[int], Any], matrix: Matrix, depth: int) -> None:
        import pypdfium2.raw as pdfium

        self.left -= max(count, 0)
        for number in range(count):
            if not self.may_go_on:
                return
            drawn = get(number)
            kind = pdfium.FPDFPageObj_GetType(drawn)
            if kind == pdfium.FPDF_PAGEOBJ_PATH:
                self._path(drawn, _times(_matrix(drawn), matrix))
            elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _DEEPEST_FORM:
                inside = partial(pdfium.FPDFFormObj_GetObject, drawn)
                self._objects(pdfium.FPDFFormObj_CountObjects(drawn), inside, _times(_matrix(drawn), matrix), depth + 1)

    def _path(self, path: Any, matrix: Matrix) -> None:
        import pypdfium2.raw as pdfium

        count = pdfium.FPDFPath_CountSegments(path)
        self.left -= _COST_OF_PATH
        if not 2 <= count <= _MOST_POINTS:
            return
        self.left -= count
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
        for points in _subpaths(path, matrix):
            left, right = min(x for x, _ in points), max(x for x, _ in points)
            bottom, top = min(y for _, y in points), max(y for _, y in points)
            if not all(isfinite(value) and abs(value) < _LARGEST for value in (left, right, bottom, top)):
                continue
            if fill.value and right - left > _THIN and top - bottom > _THIN:
                if _is_box(points):
                    self.boxes.append(Box(left, bottom, right, top, _colour(path)))
                if not stroke.value:
                    continue
            if stroke.value or fill.value:
                self._lines(points, (left, bottom, right, top))

    def _lines(self, points: Sequence[tuple[float, float]], extent: tuple[float, float, float, float]) -> None:
        left, bottom, right, top = extent
        if top - bottom <= _THIN < right - left:
            self.across.append(Rule((bottom + top) / 2, left, right))
        elif right - left <= _THIN < top - bottom:
            self.down.append(Rule((left + right) / 2, bottom, top))
        elif top - bottom > _THIN:
            for (x, y), (next_x, next_y) in zip(points, [*points[1:], points[0]], strict=True):
                if abs(next_y - y) <= _STRAIGHT and abs(next_x - x) >= _SHORTEST:
                    self.across.append(Rule((y + next_y) / 2, min(x, next_x), max(x, next_x)))
                elif abs(next_x - x) <= _STRAIGHT and abs(next_y - y) >= _SHORTEST:
                    self.down.append(Rule((x + next_x) / 2, min(y, next_y), max(y, next_y)))


def _subpaths(path: Any, matrix: Matrix) -> Iterator[list[tuple[float, float]]]:
    """The parts of a path that consist of straight lines."""
    import pypdfium2.raw as pdfium

    x, y = ctypes.c_float(), ctypes.c_float()
    points: list[tuple[float, float]] = []
    is_straight = True
    for number in range(pdfium.FPDFPath_CountSegments(path)):
        segment = pdfium.FPDFPath_GetPathSegment(path, number)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            if len(points) > 1 and is_straight:
                yield points
            points, is_straight = [], True
        is_straight = is_straight and kind != pdfium.FPDF_SEGMENT_BEZIERTO
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        points.append(moved(matrix, x.value, y.value))
    if len(points) > 1 and is_straight:
        yield points


def _is_box(points: Sequence[tuple[float, float]]) -> bool:
    return 4 <= len(points) <= 6 and all(
        abs(x - next_x) <= _STRAIGHT or abs(y - next_y) <= _STRAIGHT
        for (x, y), (next_x, next_y) in zip(points, [*points[1:], points[0]], strict=True)
    )


def _colour(path: Any) -> tuple[int, ...]:
    import pypdfium2.raw as pdfium

    parts = [ctypes.c_uint() for _ in range(4)]
    pdfium.FPDFPageObj_GetFillColor(path, *parts)
    return tuple(part.value for part in parts)


def _matrix(drawn: Any) -> Matrix:
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(drawn, matrix):
        return UNTURNED
    return (matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)


def _times(first: Matrix, then: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = then
    return (a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m)


def moved(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _joined(rules: Sequence[Rule]) -> list[Rule]:
    """Lines at about one place as one, where they touch."""
    joined: list[Rule] = []
    ordered = sorted(rules, key=lambda rule: rule.at)
    start = 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end].at - ordered[start].at <= SAME:
            end += 1
        open_rule: Rule | None = None
        at = sum(rule.at for rule in ordered[start:end]) / (end - start)
        for rule in sorted(ordered[start:end], key=lambda rule: rule.start):
            if open_rule is not None and rule.start <= open_rule.end + SAME:
                open_rule = Rule(at, open_rule.start, max(open_rule.end, rule.end))
            else:
                if open_rule is not None:
                    joined.append(open_rule)
                open_rule = Rule(at, rule.start, rule.end)
        if open_rule is not None:
            joined.append(open_rule)
        start = end
    return joined
