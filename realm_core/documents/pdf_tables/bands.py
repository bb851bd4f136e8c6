"""Tables of a PDF that lack lines between their columns: cells shaded side by side, or lines across alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from realm_core.documents.pdf_tables.drawn import SAME, Box, Rule
from realm_core.documents.pdf_tables.segments import (
    Column,
    FoundRows,
    Row,
    Segment,
    columns_of,
    in_row,
    rows_of,
    within,
)

_GAP = 0.6  # of the height of a line: between columns
_NEXT_LINE = 1.5  # heights from line to line in a cell
_OTHER_SIZE = 1.12  # of type: another part of the text
_ROW_BELOW = 2.0  # heights, from the row above
_HEADINGS_HEIGHT = 6.0  # heights
_MOST_TRIED = 4  # times that a part of a page is looked at
_MOST_GROUPS = 40  # of a page; more are a drawing
_FEWEST_RULES = 3  # across, of a table without other lines


@dataclass
class Band:
    """Filled boxes side by side, as programs shade the cells of a row."""

    bounds: list[float]
    bottom: float
    top: float

    @property
    def columns(self) -> list[Column]:
        return within(self.bounds)

    @property
    def edges(self) -> tuple[Rule, Rule]:
        left, right = self.bounds[0], self.bounds[-1]
        return Rule(self.top, left, right), Rule(self.bottom, left, right)

    def holds(self, segment: Segment) -> bool:
        """Whether text is between its left and its right edge."""
        return self.bounds[0] - SAME <= segment.left and segment.right <= self.bounds[-1] + SAME

    def is_under(self, rule: Rule) -> bool:
        """Whether a line above or below is as wide as this band."""
        return abs(rule.start - self.bounds[0]) <= SAME and abs(rule.end - self.bounds[-1]) <= SAME


def groups_of_bands(boxes: Sequence[Box]) -> list[list[Band]]:
    """Bands below one another with the same columns, from top to bottom."""
    by_height: dict[tuple[int, int], list[Box]] = defaultdict(list)
    for box in boxes:
        by_height[round(box.bottom), round(box.top)].append(box)
    bands: list[Band] = []
    for row in by_height.values():
        for side_by_side in _chains(sorted(set(row), key=lambda box: box.left)):
            bounds = [side_by_side[0].left, *(box.right for box in side_by_side)]
            bands.append(Band(bounds, side_by_side[0].bottom, side_by_side[0].top))
    groups: list[list[Band]] = []
    for band in sorted(bands, key=lambda band: -band.top):
        for group in groups:
            if len(group[0].bounds) == len(band.bounds) and all(
                abs(one - other) <= SAME for one, other in zip(group[0].bounds, band.bounds, strict=True)
            ):
                group.append(band)
                break
        else:
            groups.append([band])
        if len(groups) > _MOST_GROUPS:
            return []
    return groups


def _chains(boxes: Sequence[Box]) -> Iterator[list[Box]]:
    chain: list[Box] = []
    for box in boxes:
        if chain and abs(box.left - chain[-1].right) > SAME:
            if len(chain) > 1:
                yield chain
            chain = []
        if not chain or box.left > chain[-1].left + SAME:
            chain.append(box)
    if len(chain) > 1:
        yield chain


def tables_of_bands(bands: Sequence[Band], segments: Sequence[Segment], across: Sequence[Rule]) -> Iterator[FoundRows]:
    """The rows from the first band on; where they end, the next band begins another table."""
    last_top = float("inf")
    breaks = sorted(
        [
            *(band.top for band in bands),
            *(band.bottom for band in bands),
            *(r.at for r in across if bands[0].is_under(r)),
        ]
    )
    starts = [len(segments)] * len(bands)
    shaded: set[int] = set()
    by_height = sorted((segment.middle, number) for number, segment in enumerate(segments))
    for place, band in enumerate(bands):
        at_height = by_height[
            bisect_left(by_height, (band.bottom, 0)) : bisect_right(by_height, (band.top, len(segments)))
        ]
        own = [number for _, number in at_height if band.holds(segments[number])]
        shaded.update(own)
        starts[place] = min(own, default=len(segments))
    for band, start in zip(bands, starts, strict=True):
        if start == len(segments) or band.bottom >= last_top:
            continue
        end, bottom = start, band.top
        while (
            end < len(segments)
            and band.holds(segments[end])
            and segments[end].middle <= band.top
            and (end in shaded or _follows(segments[end], band, bottom))
            and segments[end].height <= _OTHER_SIZE * segments[start].height
        ):
            bottom = min(bottom, segments[end].bottom)
            end += 1
        rows = rows_of(segments[start:end], band.columns, breaks) or []
        lit = {segments[number].places[0] for number in range(start, end) if number not in shaded}
        alone = (n for n, row in enumerate(rows) if len(row) < 2 and all(one.places[0] in lit for one in in_row(row)))
        del rows[next(alone, len(rows)) :]
        if rows:
            last_top = min(one.bottom for row in rows for one in in_row(row))
            before = _headings_under_rule(segments, start, band, across)
            before = before or _row_before(segments, start, band.columns, band.bounds[0], band.bounds[-1])
            yield FoundRows([*before, *rows], len(band.columns), band.bounds[0], band.bounds[-1])


def _follows(segment: Segment, band: Band, bottom: float) -> bool:
    first, last = columns_of(segment, band.columns)
    return first == last and bottom - segment.top <= _ROW_BELOW * segment.height


def _headings_under_rule(segments: Sequence[Segment], start: int, band: Band, across: Sequence[Rule]) -> list[Row]:
    """What stands between the first box and the line above it that is as wide, if these are headings."""
    below = segments[start]
    top = min(
        (
            rule.at
            for rule in across
            if band.is_under(rule) and below.height / 2 < rule.at - below.top <= _HEADINGS_HEIGHT * below.height
        ),
        default=0.0,
    )
    first = start
    while first and below.top <= segments[first - 1].middle <= top:
        first -= 1
    rows = rows_of(segments[first:start], band.columns) or []
    return rows if all(len(row) > 1 for row in rows) else []


def _row_before(
    segments: Sequence[Segment], start: int, places: Sequence[Column], left: float, right: float
) -> list[Row]:
    """The headings above the first line or box, if there are some."""
    row: Row = {}
    below = segments[start]
    for segment in reversed(segments[:start]):
        columns = columns_of(segment, places)
        is_inside = left - SAME <= segment.left and segment.right <= right + SAME
        if columns[0] != columns[1] or not is_inside or (row and columns > min(row)):
            break
        if not row:
            is_near = 0 <= segment.bottom - below.top <= _ROW_BELOW * below.height
        elif columns in row:  # a line above in the same cell
            is_near = -0.5 <= (segment.bottom - below.top) / below.height <= 0.5 and _is_same_size(segment, below)
        else:
            is_near = abs(segment.middle - below.middle) <= _NEXT_LINE * below.height
        if not is_near:
            break
        row.setdefault(columns, []).insert(0, segment)
        below = segment
    return [row] if len(row) > 1 else []


def _is_same_size(one: Segment, other: Segment) -> bool:
    return one.height <= _OTHER_SIZE * other.height and other.height <= _OTHER_SIZE * one.height


def stacks_of(rules: Sequence[Rule]) -> Iterator[list[Rule]]:
    """Lines across of the same extent, from top to bottom."""
    by_extent: dict[tuple[int, int], list[Rule]] = defaultdict(list)
    for rule in sorted(rules, key=lambda rule: -rule.at):
        key = next(
            (key for key in by_extent if abs(key[0] - rule.start) <= SAME and abs(key[1] - rule.end) <= SAME),
            (round(rule.start), round(rule.end)),
        )
        by_extent[key].append(rule)
        if len(by_extent) > _MOST_GROUPS:
            return
    for stack in by_extent.values():
        if len(stack) >= _FEWEST_RULES:
            yield stack


def tables_of_stack(rules: Sequence[Rule], segments: Sequence[Segment]) -> Iterator[FoundRows]:
    """Tables that have lines across alone: what is between them leaves the same gaps free."""
    parts: list[list[Segment]] = [[] for _ in rules]
    heights = [-rule.at for rule in rules]
    for segment in segments:
        part = bisect_right(heights, -segment.middle)
        if 0 < part < len(rules) and rules[0].start - SAME <= segment.left and segment.right <= rules[0].end + SAME:
            parts[part].append(segment)
    parts = [part for part in parts if part]
    numbers = {segment.places[0]: number for number, segment in enumerate(segments)}
    left, right = rules[0].start, rules[0].end
    start, tried = 0, 0
    while start + 1 < len(parts) and tried <= _MOST_TRIED * len(parts):
        gap = _GAP * median(segment.height for segment in parts[start + 1])
        if len(_union([], parts[start], gap)) < 2:
            start += 1
            continue
        taken: list[tuple[float, float]] = []
        end = start + 1
        while end < len(parts) and len(more := _union(taken, parts[end], gap)) >= max(len(taken), 2):
            if not _is_part(parts[end], parts[start + 1][0], more):
                break
            taken = more
            end += 1
        tried += end - start
        if len(whole := _union(taken, parts[start], gap)) >= len(taken):
            taken = whole
        headings = rows_of(parts[start], taken)
        if end < start + 2 or not headings or min(map(len, headings)) < 2:
            start += 1
            continue
        read = [headings, *(rows_of(part, taken) or [] for part in parts[start + 1 : end])]
        before = _row_before(segments, numbers[parts[start][0].places[0]], taken, left, right)
        names = len(headings) if not before and len(read) <= _FEWEST_RULES and len(read[1]) > 1 else 0
        yield FoundRows([*before, *(row for part in read for row in part)], len(taken), left, right, names)
        start = end


def _is_part(part: Sequence[Segment], first: Segment, columns: Sequence[Column]) -> bool:
    """More rows of a table; not a heading or a paragraph, and then another table."""
    if any(one.height > _OTHER_SIZE * first.height for one in part):
        return False
    rows = rows_of(part, columns)
    return rows is not None and (len(rows) == 1 or len(rows[0]) > 1)


def _union(taken: Sequence[tuple[float, float]], segments: Iterable[Segment], gap: float) -> list[tuple[float, float]]:
    """The parts of the width that are taken, divided by wide gaps alone."""
    union: list[tuple[float, float]] = []
    for left, right in sorted([*taken, *((segment.left, segment.right) for segment in segments)]):
        if union and left - union[-1][1] < gap:
            union[-1] = (union[-1][0], max(union[-1][1], right))
        else:
            union.append((left, right))
    return union
