"""Tables of a PDF whose cells are divided by lines in both directions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from realm_core.corpus.grid import Cell
from realm_core.documents.pdf_tables.drawn import SAME, Drawn, Interval, Rule, alike, clusters
from realm_core.documents.pdf_tables.segments import Glyph, Segment, cells_of, rows_of, within
from realm_core.documents.pdf_tables.table import Table

_NARROW = 12.0  # a column or row of this size without text is a gap between borders
_MOST_CELLS = 4_000
_FEW_ROWS = 3  # by lines; the text may stand in more

Unit = tuple[int, int]  # row and column between neighbouring lines


@dataclass
class Grid:
    """xs: rising; ys: falling. down, across: the lines."""

    xs: list[float]
    ys: list[float]
    down: list[Rule]
    across: list[Rule]

    def __post_init__(self) -> None:
        self._down_at = [[one for one in self.down if abs(one.at - x) <= SAME] for x in self.xs]
        self._across_at = [[one for one in self.across if abs(one.at - y) <= SAME] for y in self.ys]

    def is_closed_right(self, row: int, column: int) -> bool:
        middle = (self.ys[row] + self.ys[row + 1]) / 2
        return any(one.covers(middle) for one in self._down_at[column + 1])

    def is_closed_below(self, row: int, column: int) -> bool:
        middle = (self.xs[column] + self.xs[column + 1]) / 2
        return any(one.covers(middle) for one in self._across_at[row + 1])

    @property
    def is_cut(self) -> bool:
        """No line ends it below."""
        return not self._across_at[-1]

    def units(self, glyphs: Iterable[Glyph]) -> dict[int, Unit]:
        """Where the characters in it are, by their places in the text."""
        heights, units = [-y for y in self.ys], {}
        for glyph in glyphs:
            row = bisect_right(heights, -glyph.middle) - 1
            column = bisect_right(self.xs, (glyph.left + glyph.right) / 2) - 1
            if 0 <= row < len(self.ys) - 1 and 0 <= column < len(self.xs) - 1:
                units[glyph.place] = row, column
        return units

    def without_gaps(self, units: Mapping[int, Unit]) -> Grid:
        """The same with what stands between the borders of two cells joined to one of them."""
        xs = _without_gaps(self.xs, {column for _, column in units.values()})
        ys = _without_gaps(self.ys, {row for row, _ in units.values()})
        return Grid(xs, ys, self.down, self.across)

    def extent(self, row: int, column: int) -> Unit:
        """The last row and column of the cell that begins here."""
        last_column = column
        while last_column + 2 < len(self.xs) and not self.is_closed_right(row, last_column):
            last_column += 1
        last_row = row
        while last_row + 2 < len(self.ys) and not any(
            self.is_closed_below(last_row, one) for one in range(column, last_column + 1)
        ):
            if any(self.is_closed_right(last_row + 1, one) for one in range(column, last_column)):
                break
            last_row += 1
        return last_row, last_column


def _without_gaps(places: Sequence[float], used: Container[int]) -> list[float]:
    """The bounds without those of narrow parts that are not used."""
    kept = [
        place
        for number, place in enumerate(places[:-1])
        if number in used or not number or abs(places[number + 1] - place) > _NARROW
    ]
    if len(kept) > 1 and 0 not in used and abs(places[1] - places[0]) <= _NARROW:
        del kept[0]
    return [*kept, places[-1]]


def grids_of(drawn: Drawn, shaded: Sequence[Rule]) -> Iterator[Grid]:
    """Lines that meet, as grids of at least two columns. shaded: upper and lower edges of rows of shaded cells."""
    for across, down in _meeting(drawn):
        if len(down) < 2:
            continue
        extent = down[0].at, down[-1].at
        top, bottom = max(rule.end for rule in down), min(rule.start for rule in down)
        across = [rule for rule in across if _divides(rule, down)]
        across += (one for one in shaded if alike((one.start, one.end), extent) and bottom <= one.at <= top)
        if across:
            xs = _places(down, [(one.start, one.end) for one in across])
            ys = _places(across, [(one.start, one.end) for one in down])[::-1]
            if len(xs) > 2 and len(ys) > 1 and len(xs) * len(ys) <= _MOST_CELLS:
                yield Grid(xs, ys, down, across)


def _meeting(drawn: Drawn) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Lines across and down that meet one another, directly or through others; the lines down from left to right."""
    left = [sorted(drawn.across, key=lambda rule: rule.at), drawn.down]
    while left[0]:
        first = left[0].pop(0)
        group, waiting = ([first], list[Rule]()), [(0, first)]
        while waiting:
            direction, rule = waiting.pop()
            other = 1 - direction
            met = {one for one in left[other] if rule.covers(one.at) and one.covers(rule.at)}
            left[other] = [one for one in left[other] if one not in met]
            group[other].extend(met)
            waiting += ((other, one) for one in met)
        yield group[0], sorted(group[1], key=lambda rule: rule.at)


def _divides(rule: Rule, down: Sequence[Rule]) -> bool:
    """A line across cells; not one under a word, that begins at the edge of its cell."""
    return all(
        not down[0].at < end < down[-1].at or any(abs(end - one.at) <= _NARROW / 2 for one in down)
        for end in (rule.start, rule.end)
    )


def _places(rules: Iterable[Rule], extents: Iterable[Interval]) -> list[float]:
    """Where lines stand, and where those that cross them end if that is further out."""
    places = [cluster[0].at for cluster in clusters(sorted(rules, key=lambda rule: rule.at))]
    starts, ends = zip(*extents, strict=True)
    if min(starts) < places[0] - _NARROW / 2:
        places.insert(0, min(starts))
    if max(ends) > places[-1] + _NARROW / 2:
        places.append(max(ends))
    return places


def table_of(grid: Grid, glyphs: Iterable[Glyph], segments: Sequence[Segment]) -> Table | None:
    """The table that a grid is; None if it holds no text."""
    units = grid.units(glyphs)
    if not units:
        return None
    grid = grid.without_gaps(units)
    units = grid.units(glyphs)
    inside = [segment for segment in segments if segment.places[0] in units]
    rows: list[list[Cell]] = []
    cells: dict[Unit, Cell] = {}
    for row in range(len(grid.ys) - 1):
        rows.append([])
        for column in range(len(grid.xs) - 1):
            if (row, column) in cells:
                continue
            last_row, last_column = grid.extent(row, column)
            height, width = range(row, last_row + 1), range(column, last_column + 1)
            is_divided = len(width) > 1 and _is_divided(grid, height, width, inside, units)
            for part in [range(one, one + 1) for one in width] if is_divided else [width]:
                rows[-1].append(Cell("", columns=len(part), rows=len(height)))
                for one in part:
                    for other in height:
                        cells.setdefault((other, one), rows[-1][-1])
    table = Table(rows, {place: cells[unit] for place, unit in units.items()}, grid.xs[0], grid.xs[-1])
    table.is_cut = grid.is_cut
    _divide_rows_without_lines(table, within(grid.xs), inside)
    return table


def _is_divided(grid: Grid, rows: range, columns: range, inside: Sequence[Segment], units: Mapping[int, Unit]) -> bool:
    """The text of a wide cell stands in the columns of the others: only the lines between them are missing."""
    middle = (grid.xs[columns[0]] + grid.xs[columns[-1] + 1]) / 2
    used = set()
    is_centred = False
    for segment in inside:
        row, column = units[segment.places[0]]
        if row in rows and column in columns:
            if segment.right > grid.xs[column + 1] + SAME:
                return False
            used.add(column)
            is_centred = is_centred or abs((segment.left + segment.right) / 2 - middle) <= SAME
    return len(used) > 1 or (bool(used) and columns[0] not in used and not is_centred)


def _divide_rows_without_lines(table: Table, bounds: Sequence[Interval], inside: Sequence[Segment]) -> None:
    """Find the rows of a part that has lines only between its columns.

    Text is not always written cell by cell. So in a table of many rows by its lines a row is divided only into several
    in which each cell is filled: that is no cell of several lines.
    """
    rows: list[list[Cell]] = []
    for row in table.rows:
        rows.append(row)
        if len(row) != len(bounds) or any(cell.rows > 1 for cell in row):
            continue
        own = set(row)
        below = rows_of([segment for segment in inside if table.cells[segment.places[0]] in own], bounds) or []
        is_certain = len(table.rows) <= _FEW_ROWS or (len(below) >= _FEW_ROWS and min(map(len, below)) == len(bounds))
        if sum(len(one) > 1 for one in below) > 1 and is_certain:
            table.cells = {place: cell for place, cell in table.cells.items() if cell not in own}
            rows[-1:] = [cells_of(one, len(bounds), table.cells) for one in below]
    table.rows = rows
