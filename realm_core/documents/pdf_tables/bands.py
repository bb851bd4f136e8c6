"""Tables of a PDF that lack lines between their columns: cells shaded side by side, or lines across alone."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from realm_core.documents.pdf_tables.drawn import SAME, Box, Interval, Rule, alike, union
from realm_core.documents.pdf_tables.segments import (
    NEXT_LINE,
    Segment,
    SegmentRow,
    columns_of,
    in_row,
    rows_of,
    table_of_rows,
    within,
)
from realm_core.documents.pdf_tables.table import Table

T = TypeVar("T")

_GAP = 0.6  # of the height of a line: between columns
_OTHER_SIZE = 1.12  # ratio of type sizes from which on a line is no row of the table
_ROW_BELOW = 2.0  # heights, from the row above
_HEADINGS_HEIGHT = 6.0  # heights
_MOST_TRIED = 4  # times that a part of a page is looked at
_MOST_GROUPS = 40  # of a page; more are a drawing
_FEWEST_RULES = 3  # across, of a table without other lines


@dataclass
class Band:
    """Filled boxes side by side, as programs shade the cells of a row. bounds: rising."""

    bounds: list[float]
    bottom: float
    top: float

    @property
    def left(self) -> float:
        return self.bounds[0]

    @property
    def right(self) -> float:
        return self.bounds[-1]

    @property
    def edges(self) -> tuple[Rule, Rule]:
        return Rule(self.top, self.left, self.right), Rule(self.bottom, self.left, self.right)


def groups_of_bands(boxes: Iterable[Box]) -> list[list[Band]]:
    """Bands below one another with the same columns, from top to bottom."""
    bands = [
        Band([chain[0].left, *(box.right for box in chain)], chain[0].bottom, chain[0].top)
        for chain in _rows_of_boxes(boxes)
        if len(chain) > 1
    ]
    return _grouped(sorted(bands, key=lambda band: -band.top), lambda band: band.bounds)


def edges_of_stripes(boxes: Iterable[Box]) -> Iterator[Rule]:
    """Edges across of boxes that have none beside them, as programs shade a whole row at once.

    Where every other row is shaded, the last may be one that is not; then it is as high as the one before it.
    """
    stripes = [chain[0] for chain in _rows_of_boxes(boxes) if len(chain) == 1]
    for group in _grouped(sorted(stripes, key=lambda box: -box.top), lambda box: (box.left, box.right)):
        heights = [height for box in group for height in (box.top, box.bottom)]
        if len(group) > 1 and (row := group[-2].bottom - group[-1].top) > SAME:
            heights.append(group[-1].bottom - row)
        yield from (Rule(height, group[0].left, group[0].right) for height in heights)


def _rows_of_boxes(boxes: Iterable[Box]) -> Iterator[list[Box]]:
    """Boxes of one height that touch one another from left to right."""
    by_height: dict[tuple[int, int], set[Box]] = defaultdict(set)
    for box in boxes:
        by_height[round(box.bottom), round(box.top)].add(box)
    for row in by_height.values():
        yield from _chains(sorted(row, key=lambda box: box.left))


def _chains(boxes: Iterable[Box]) -> list[list[Box]]:
    """Boxes in a row from left to right, those that touch together; of several in one place the first."""
    chains: list[list[Box]] = []
    for box in boxes:
        if not chains or abs(box.left - chains[-1][-1].right) > SAME:
            chains.append([box])
        elif box.left > chains[-1][-1].left + SAME:
            chains[-1].append(box)
    return chains


def _grouped(items: Iterable[T], edges: Callable[[T], Sequence[float]]) -> list[list[T]]:
    """Those with the same edges together; none where there are too many, as in a drawing."""
    groups: list[list[T]] = []
    for item in items:
        group = next((group for group in groups if alike(edges(group[0]), edges(item))), None)
        if group is None:
            groups.append(group := [])
        group.append(item)
        if len(groups) > _MOST_GROUPS:
            return []
    return groups


def tables_of_bands(bands: Sequence[Band], segments: Sequence[Segment], across: Sequence[Rule]) -> Iterator[Table]:
    """The rows from the first band on; where they end, the next band begins another table."""
    left, right, columns = bands[0].left, bands[0].right, within(bands[0].bounds)
    across = [rule for rule in across if alike((rule.start, rule.end), (left, right))]
    breaks = sorted(rule.at for rule in [*(edge for band in bands for edge in band.edges), *across])
    shaded = _shaded(bands, segments)
    starts = {place: number for number, place in reversed(shaded.items())}
    last_top = float("inf")
    for place, start in sorted(starts.items()):
        band = bands[place]
        if band.bottom >= last_top:
            continue
        end, bottom = start, band.top
        while (
            end < len(segments)
            and segments[end].is_between(left, right)
            and segments[end].middle <= band.top
            and (end in shaded or _follows(segments[end], columns, bottom))
            and segments[end].height <= _OTHER_SIZE * segments[start].height
        ):
            bottom = min(bottom, segments[end].bottom)
            end += 1
        rows = rows_of(segments[start:end], columns, breaks) or []
        lit = {segments[number] for number in range(start, end) if number not in shaded}
        alone = (number for number, row in enumerate(rows) if len(row) < 2 and lit.issuperset(in_row(row)))
        del rows[next(alone, len(rows)) :]
        if rows:
            last_top = min(one.bottom for row in rows for one in in_row(row))
            before = _headings_under_rule(segments, start, columns, across)
            before = before or _row_before(segments, start, columns, left, right)
            yield table_of_rows([*before, *rows], len(columns), left, right)


def _shaded(bands: Sequence[Band], segments: Sequence[Segment]) -> dict[int, int]:
    """The numbers of the segments that stand on a band, with its number."""
    tops, shaded = [-band.top for band in bands], {}
    for number, segment in enumerate(segments):
        place = bisect_right(tops, -segment.middle) - 1
        if place >= 0 and bands[place].bottom <= segment.middle and segment.is_between(bands[0].left, bands[0].right):
            shaded[number] = place
    return shaded


def _follows(segment: Segment, columns: Sequence[Interval], bottom: float) -> bool:
    first, last = columns_of(segment, columns)
    return first == last and bottom - segment.top <= _ROW_BELOW * segment.height


def _headings_under_rule(
    segments: Sequence[Segment], start: int, columns: Sequence[Interval], across: Iterable[Rule]
) -> list[SegmentRow]:
    """What stands between the first box and the line above it that is as wide, if these are headings."""
    below = segments[start]
    near = (one.at for one in across if below.height / 2 < one.at - below.top <= _HEADINGS_HEIGHT * below.height)
    top = min(near, default=0.0)
    first = start
    while first and below.top <= segments[first - 1].middle <= top:
        first -= 1
    rows = rows_of(segments[first:start], columns) or []
    return rows if all(len(row) > 1 for row in rows) else []


def _row_before(
    segments: Sequence[Segment], start: int, bounds: Sequence[Interval], left: float, right: float
) -> list[SegmentRow]:
    """The headings above the first line or box, if there are some."""
    row: SegmentRow = {}
    below = segments[start]
    for segment in reversed(segments[:start]):
        columns = columns_of(segment, bounds)
        if columns[0] != columns[1] or not segment.is_between(left, right) or (row and columns > min(row)):
            break
        if not row:
            is_near = 0 <= segment.bottom - below.top <= _ROW_BELOW * below.height
        elif columns in row:  # a line above in the same cell
            is_near = abs(segment.bottom - below.top) <= below.height / 2 and _is_same_size(segment, below)
        else:
            is_near = abs(segment.middle - below.middle) <= NEXT_LINE * below.height
        if not is_near:
            break
        row.setdefault(columns, []).insert(0, segment)
        below = segment
    return [row] if len(row) > 1 else []


def _is_same_size(one: Segment, other: Segment) -> bool:
    return one.height <= _OTHER_SIZE * other.height and other.height <= _OTHER_SIZE * one.height


def stacks_of(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Lines across of the same extent, from top to bottom."""
    stacks = _grouped(sorted(rules, key=lambda rule: -rule.at), lambda rule: (rule.start, rule.end))
    return [stack for stack in stacks if len(stack) >= _FEWEST_RULES]


def tables_of_stack(rules: Sequence[Rule], segments: Sequence[Segment]) -> Iterator[Table]:
    """Tables that have lines across alone: what is between them leaves the same gaps free."""
    left, right = rules[0].start, rules[0].end
    between: list[list[Segment]] = [[] for _ in rules]
    heights = [-rule.at for rule in rules]
    for segment in segments:
        part = bisect_right(heights, -segment.middle)
        if 0 < part < len(rules) and segment.is_between(left, right):
            between[part].append(segment)
    parts = [part for part in between if part]
    start, tried = 0, 0
    while start + 1 < len(parts) and tried <= _MOST_TRIED * len(parts):
        gap = _GAP * median(segment.height for segment in parts[start + 1])
        if len(_taken(parts[start], gap)) < 2:
            start += 1
            continue
        taken: list[Interval] = []
        end = start + 1
        while end < len(parts) and len(more := _taken(parts[end], gap, taken)) >= max(len(taken), 2):
            if not _is_part(parts[end], parts[start + 1][0], more):
                break
            taken = more
            end += 1
        tried += end - start
        if len(whole := _taken(parts[start], gap, taken)) >= len(taken):
            taken = whole
        headings = rows_of(parts[start], taken)
        if end < start + 2 or not headings or min(map(len, headings)) < 2:
            start += 1
            continue
        read = [headings, *(rows_of(part, taken) or [] for part in parts[start + 1 : end])]
        before = _row_before(segments, segments.index(parts[start][0]), taken, left, right)
        names = len(headings) if not before and len(read) <= _FEWEST_RULES and len(read[1]) > 1 else 0
        yield table_of_rows([*before, *(row for part in read for row in part)], len(taken), left, right, names)
        start = end


def _is_part(part: Sequence[Segment], first: Segment, columns: Sequence[Interval]) -> bool:
    """More rows of a table; not a heading or a paragraph, and then another table."""
    if any(one.height > _OTHER_SIZE * first.height for one in part):
        return False
    rows = rows_of(part, columns)
    return rows is not None and (len(rows) == 1 or len(rows[0]) > 1)


def _taken(segments: Iterable[Segment], gap: float, taken: Sequence[Interval] = ()) -> list[Interval]:
    """The parts of the width that are taken, divided by wide gaps alone."""
    return union([*taken, *((segment.left, segment.right) for segment in segments)], gap)
