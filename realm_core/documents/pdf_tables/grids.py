"""Tables of a PDF whose cells are divided by lines in both directions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from realm_core.corpus.grid import Cell
from realm_core.documents.pdf_tables.drawn import SAME, Drawn, Rule
from realm_core.documents.pdf_tables.segments import Glyph, RuledTable, Segment, cells_of, rows_of, within

_NARROW = 12.0  # a column or row of this size without text is a gap between borders
_MOST_CELLS = 4_000
_FEW_ROWS = 3  # by lines; the text may stand in more


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
        self._heights = [-y for y in self.ys]

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

    def unit(self, glyph: Glyph) -> tuple[int, int] | None:
        """Row and column between neighbouring lines."""
        row = bisect_right(self._heights, -glyph.middle) - 1
        column = bisect_right(self.xs, (glyph.left + glyph.right) / 2) - 1
        inside = 0 <= row < len(self.ys) - 1 and 0 <= column < len(self.xs) - 1
        return (row, column) if inside else None

    def units(self, glyphs: Sequence[Glyph | None]) -> dict[int, tuple[int, int]]:
        found = ((place, self.unit(glyph)) for place, glyph in enumerate(glyphs) if glyph is not None)
        return {place: unit for place, unit in found if unit is not None}

    def without_gaps(self, units: Mapping[int, tuple[int, int]]) -> Grid:
        """The same with what stands between the borders of two cells joined to one of them."""
        xs = _joined(self.xs, {column for _, column in units.values()})
        ys = _joined(self.ys, {row for row, _ in units.values()})
        return Grid(xs, ys, self.down, self.across)


def _joined(places: Sequence[float], used: Container[int]) -> list[float]:
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
    across = sorted(drawn.across, key=lambda rule: rule.at)
    heights = [rule.at for rule in across]
    groups = list(range(len(across) + len(drawn.down)))

    def group_of(number: int) -> int:
        while groups[number] != number:
            groups[number] = groups[groups[number]]
            number = groups[number]
        return number

    for number, rule in enumerate(drawn.down, len(across)):
        for other in range(bisect_left(heights, rule.start - SAME), bisect_right(heights, rule.end + SAME)):
            if across[other].covers(rule.at):
                groups[group_of(other)] = group_of(number)
    members: dict[int, Grid] = defaultdict(lambda: Grid([], [], [], []))
    for number, rule in enumerate([*across, *drawn.down]):
        grid = members[group_of(number)]
        (grid.across if number < len(across) else grid.down).append(rule)
    for grid in members.values():
        if len(grid.down) < 2:
            continue
        left, right = min(rule.at for rule in grid.down), max(rule.at for rule in grid.down)
        top, bottom = max(rule.end for rule in grid.down), min(rule.start for rule in grid.down)
        grid.across = [rule for rule in grid.across if _divides(rule, grid.down)]
        grid.across += [
            edge
            for edge in shaded
            if abs(edge.start - left) <= SAME and abs(edge.end - right) <= SAME and bottom <= edge.at <= top
        ]
        if grid.across:
            xs = _places([rule.at for rule in grid.down], [(one.start, one.end) for one in grid.across])
            ys = _places([rule.at for rule in grid.across], [(one.start, one.end) for one in grid.down])[::-1]
            if len(xs) > 2 and len(ys) > 1 and len(xs) * len(ys) <= _MOST_CELLS:
                yield Grid(xs, ys, grid.down, grid.across)


def _divides(rule: Rule, down: Sequence[Rule]) -> bool:
    """A line across cells; not one under a word, that begins at the edge of its cell."""
    places = sorted(one.at for one in down)
    return all(
        not places[0] < end < places[-1] or any(abs(end - place) <= _NARROW / 2 for place in places)
        for end in (rule.start, rule.end)
    )


def _places(lines: Iterable[float], extents: Iterable[tuple[float, float]]) -> list[float]:
    """Where lines stand, and where those that cross them end if that is further out."""
    places: list[float] = []
    for place in sorted(lines):
        if not places or place - places[-1] > SAME:
            places.append(place)
    starts, ends = zip(*extents, strict=True)
    if min(starts) < places[0] - _NARROW / 2:
        places.insert(0, min(starts))
    if max(ends) > places[-1] + _NARROW / 2:
        places.append(max(ends))
    return places


def table_of(grid: Grid, glyphs: Sequence[Glyph | None], segments: Sequence[Segment]) -> RuledTable | None:
    """The table that a grid is; None if it holds no text."""
    units = grid.units(glyphs)
    if not units:
        return None
    grid = grid.without_gaps(units)
    units = grid.units(glyphs)
    inside = [segment for segment in segments if segment.places[0] in units]
    rows: list[list[Cell]] = []
    cells: dict[tuple[int, int], Cell] = {}
    for row in range(len(grid.ys) - 1):
        rows.append([])
        for column in range(len(grid.xs) - 1):
            if (row, column) in cells:
                continue
            last_row, last_column = _extent(grid, row, column)
            widths = [range(column, last_column + 1)]
            if last_column > column and _is_divided(grid, range(row, last_row + 1), widths[0], inside, units):
                widths = [range(one, one + 1) for one in widths[0]]
            for width in widths:
                rows[-1].append(Cell("", columns=len(width), rows=last_row - row + 1))
                for one in width:
                    for other in range(row, last_row + 1):
                        cells.setdefault((other, one), rows[-1][-1])
    owned = {place: cells[unit] for place, unit in units.items()}
    if read := _rows_without_lines(grid, rows, inside, owned):
        rows, owned = read
    return RuledTable(rows, owned, grid.xs[0], grid.xs[-1], is_cut=grid.is_cut)


def _extent(grid: Grid, row: int, column: int) -> tuple[int, int]:
    """The last row and column of the cell that begins here."""
    last_column = column
    while last_column + 2 < len(grid.xs) and not grid.is_closed_right(row, last_column):
        last_column += 1
    last_row = row
    while last_row + 2 < len(grid.ys) and not any(
        grid.is_closed_below(last_row, one) for one in range(column, last_column + 1)
    ):
        if any(grid.is_closed_right(last_row + 1, one) for one in range(column, last_column)):
            break
        last_row += 1
    return last_row, last_column


def _is_divided(
    grid: Grid, rows: range, columns: range, inside: Sequence[Segment], units: dict[int, tuple[int, int]]
) -> bool:
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


def _rows_without_lines(
    grid: Grid, rows: list[list[Cell]], inside: Sequence[Segment], owned: dict[int, Cell]
) -> tuple[list[list[Cell]], dict[int, Cell]] | None:
    """The same with the rows of a part that has lines only between its columns; None if there is no such part.

    Text is not always written cell by cell. So in a table of many rows by its lines a row is divided only into several
    in which each cell is filled: that is no cell of several lines.
    """
    read: list[list[Cell]] = []
    cells: dict[int, Cell] = {}
    columns = len(grid.xs) - 1
    is_other = False
    for row in rows:
        own = {id(cell) for cell in row}
        segments = [segment for segment in inside if id(owned[segment.places[0]]) in own]
        below = (
            rows_of(segments, within(grid.xs)) if len(row) == columns and all(cell.rows == 1 for cell in row) else None
        )
        filled = sum(len(one) > 1 for one in below or ())
        is_certain = len(rows) <= _FEW_ROWS or (len(below or ()) >= _FEW_ROWS and min(map(len, below or ())) == columns)
        if below is None or filled < 2 or not is_certain:
            read.append(row)
            cells.update((place, cell) for place, cell in owned.items() if id(cell) in own)
            continue
        is_other = True
        for one in below:
            read.append(cells_of(one, columns, cells))
    return (read, cells) if is_other else None
