"""Infoboxes and tables of wikitext as sentences: "Population: 845,767." and "Year: 1997; Film: Titanic."

Templates and links inside them are resolved already. Each sentence stands between `LINE` and a line break, and becomes
a paragraph of its own. A box inside another one is a value that holds such lines.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence

from realm_core.corpus.anchors import unmarked
from realm_core.corpus.grid import Cell, each_once, joined_names, laid_out

# Like the marks of anchors: a character that no text has and no entity stands for.
LINE = "\ufdd2"

# Ordinary boxes stay below these limits; they bound what a hostile article can make of its own.
_LONGEST_VALUE = 300  # characters
_LONGEST_ROW = 600
_MOST_SENTENCES = 200  # of one infobox or table
_MOST_COLUMNS = 30

_INFOBOX = re.compile(r"\b(?:infobox|taxobox|speciesbox|geobox|chembox|drugbox|starbox|planetbox)|^ficha de ")
_LONGEST_NAME = 100  # of a template
_WORD = re.compile(r"[^\W\d_]+")
# A parameter or column with one of these words in its name holds nothing to read …
_LEFT_OUT_WORD = re.compile(
    # images, maps and colours
    r"image\w*|img|imagen|photos?|photocaption|foto|pics?|pictures?|\w*logos?|\w+image|icons?|flag(?!ship)\w*|signature|"
    r"firma|map|maps|mapsize|mapframe\w*|\w+map|mapa|carte|géolocalisation|pushpin|marker|zoom|\w*captions?|légende|legend|"
    r"leyenda|pie|upright|coord|coords|coordinates|coordenadas|coordonnées|lat[dms]?|latitude|latns|lon|long[dms]|longew|"
    r"longitude|\w*colou?rs?|couleurs?|(?:body|title|header|label|data|above|below|box)(?:style|class)|"
    # notes, addresses and files
    r"audio|file|filename|footnotes?|homepage|lien|link|\w+link|refs?|references?|siteweb|sitio|sound|url|video|web|webpage|"
    r"website|"
    # identifiers
    r"cas|casno\w*|chebi|chembl|chemspider\w*|cospar|dewey|diseasesdb|drugbank|emedicine\w*|genereviews\w*|glotto\w*|"
    r"icd|ids?|imdb|\w*inchi\w*|isbn|iso|issn|kegg|medlineplus|mesh\w*|oclc|omim|pubchem\w*|satcat|smiles|unii|wikidata|"
    r"wikisource"
)
# … and these names as a whole: the article's title, and layout.
_LEFT_OUT_NAMES = frozenset(
    "name title common_name nom titre nombre título alt background box_width status_system area_magnitude".split()
)
_SETTINGS = frozenset(
    "yes no y n true false on off auto none n/a oui non sí increase decrease steady inline inline,title".split()
)
_FILE_OR_COLOUR = re.compile(
    r".*\.(?:jpe?g|png|svg|gif|tiff?|webp|og[gv]|webm|pdf)|#[0-9a-f]{3,8}|\d+ ?(?:px|em|%)", re.IGNORECASE
)
# One parameter holds the label of another: leader_title1 = Mayor, leader_name1 = Jo → "Mayor: Jo."
_LABEL_PARAMETER = re.compile(r"(.*?)[_ ]?(title|type|event|label)(\d*)")
_LABELLED_PARAMETERS = {
    "title": ("{0}_name{1}", "{0}{1}"),
    "type": ("{0}_name{1}", "{0}{1}"),
    "event": ("{0}_date{1}",),
    "label": ("{0}{1}", "data{1}"),
}
_ACRONYM = re.compile(r"\b(?:gdp|gni|gva|hdi|ppp|utc|dst|iata|icao|dna|nba|nfl|mlb|nhl)\b")
_UNIT = re.compile(r"(.+?) (km2|sq mi|m2|km|mi|ft|kg|lb|ha)")

_BREAK = re.compile(
    r"(?<![ \t,])[ \t,]*+"  # no semicolon, which ends an entity
    r"(?:<br\b[^<>]*>|</?(?:div|p|ul|ol|li|dl|dd|dt|center|blockquote|poem|hr)\b[^<>]*>|\n)"
    r"[ \t,;*#:]*+",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"(?:, )++(\(?)")
_UNREAD = re.compile(r"<[^<>]*>|https?://\S+")


def is_infobox(template: str) -> bool:
    """Whether the template of this name (lower case) describes the article's subject by named parameters."""
    return len(template) <= _LONGEST_NAME and _INFOBOX.search(template) is not None


def infobox_sentences(values: Mapping[str, str]) -> str:
    """A line for each parameter that can be read, in their order. values: by their names in lower case."""
    labels = _labels(values)
    sentences: list[str] = []
    for name, value in values.items():
        if LINE in value:
            sentences += _sentences_in(value)
        elif name in labels and not _is_setting(value) and (text := _one_line(value)):
            sentences.append(_ended(f"{labels[name]}: {text}"))
    return _lines(sentences)


def table_sentences(content: str) -> str:
    """A line for each row of {|content|}: its cells, each after the header of its column.

    Where no row of headers stands above, a row of one header and one cell is read like a parameter of an infobox.
    Other tables are layout; of them, only the boxes inside are kept.
    """
    if LINE in content:
        return _lines(_sentences_in(content))
    headers: list[str] = []
    sentences: list[str] = []
    data_seen = False  # since the last row of headers
    for row in laid_out(_rows(content), _MOST_COLUMNS):
        if len(sentences) >= _MOST_SENTENCES:
            break
        if all(cell is row[0] for cell in row):
            continue  # a heading over the whole width, or a single column
        if all(cell.heads or (_is_bold(cell) and not sentences) for cell in row):
            headers = joined_names([] if data_seen else headers, [_one_label(cell.text) for cell in row])
            data_seen = False
            continue
        data_seen = True
        if headers:
            sentences += _row_sentence(headers, row)
        elif len(row) == 2 and (row[0].heads or _is_bold(row[0])):
            sentences += _row_sentence([_one_label(row[0].text)], row[1:])
    return _lines(sentences)


# ---- parameters


def _labels(values: Mapping[str, str]) -> dict[str, str]:
    """The labels of the parameters that can be read."""
    given: dict[str, str] = {}
    label_parameters: set[str] = set()
    for name, value in values.items():
        match = _LABEL_PARAMETER.fullmatch(name)
        for pattern in _LABELLED_PARAMETERS[match[2]] if match else ():
            labelled = pattern.format(match[1], match[3]) if match else ""
            if labelled != name and values.get(labelled) and (label := _one_label(value)):
                given[labelled] = label
                label_parameters.add(name)
                break
    left_out = label_parameters | {
        name for name in values if name.rstrip("0123456789") in _LEFT_OUT_NAMES or name.endswith(("_alt", " alt"))
    }
    return {
        name: given.get(name) or _label(name)
        for name in values
        if name and name not in left_out and not _is_left_out(name)
    }


def _label(name: str) -> str:
    """A parameter's name in words: "area_km2" → "Area (km²)", "leader1" → "Leader"."""
    words = " ".join(name.replace("_", " ").split())
    unit = _UNIT.fullmatch(words)
    words = unit[1] if unit else words.rstrip("0123456789 ") or words
    words = _ACRONYM.sub(lambda match: match[0].upper(), words)
    return words[:1].upper() + words[1:] + (f" ({unit[2].replace('2', '²')})" if unit else "")


def _is_left_out(name: str) -> bool:
    return any(map(_LEFT_OUT_WORD.fullmatch, _WORD.findall(name)))


def _is_setting(value: str) -> bool:
    plain = unmarked(value).strip()
    return plain.lower() in _SETTINGS or _FILE_OR_COLOUR.fullmatch(plain) is not None


# ---- values


def _one_line(value: str) -> str:
    """A value in one line, commas between its items; "" if nothing of it can be read."""
    value = _BREAK.sub(", ", value[: 4 * _LONGEST_VALUE])
    value = _SEPARATORS.sub(lambda match: " (" if match[1] else ", ", value).lstrip(" ,;*#:").rstrip(" ,*#:")
    plain = unmarked(value)
    if not any(map(str.isalnum, html.unescape(_UNREAD.sub("", plain)))):
        return ""
    if len(plain) > _LONGEST_VALUE:
        return plain[:_LONGEST_VALUE].rpartition(" ")[0].rstrip(" ,") + " …"
    return value


def _one_label(text: str) -> str:
    """A label that the article gives, in one line, without links, bold and italics."""
    plain = _BREAK.sub(" ", unmarked(text[: 4 * _LONGEST_VALUE]).replace("&nbsp;", " "))
    return _one_line(re.sub("''+", "", plain)).rstrip(": ")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def _lines(sentences: Sequence[str]) -> str:
    return "".join(f"{LINE}{sentence}\n" for sentence in sentences[:_MOST_SENTENCES])


def _sentences_in(text: str) -> list[str]:
    return [piece.partition("\n")[0] for piece in text.split(LINE)[1:]]


# ---- rows

_SPAN = re.compile(r"\b(col|row)span\s*=\s*[\"']?\s*(\d{1,3})")


def _is_bold(cell: Cell) -> bool:
    """Whether it looks like a header."""
    text = cell.text.strip()
    return len(text) > 6 and text.startswith("'''") and text.endswith("'''")


def _rows(content: str) -> Iterator[list[Cell]]:
    row: list[Cell] = []
    _attributes, _, body = content.partition("\n")
    for line in map(str.strip, body.split("\n")):
        if line.startswith("|-"):
            if row:
                yield row
            row = []
        elif line.startswith(("|", "!")) and not line.startswith("|+"):
            is_header = line.startswith("!")
            row += [_cell(part, is_header) for part in re.split(r"\|\||!!" if is_header else r"\|\|", line[1:])]
        elif row:
            row[-1].text += f"\n{line}"
    if row:
        yield row


def _cell(source: str, is_header: bool) -> Cell:
    attributes, bar, text = source.partition("|")
    if not bar:
        return Cell(source, is_header)
    spans = {kind: max(1, int(number)) for kind, number in _SPAN.findall(attributes.lower())}
    return Cell(text, is_header, spans.get("col", 1), spans.get("row", 1))


def _row_sentence(headers: Sequence[str], row: Sequence[Cell]) -> list[str]:
    """The sentence of a row, or none where it has nothing to say."""
    parts: list[str] = []
    length = 0
    for cell, columns in each_once(row):
        own = headers[columns.start : columns.stop]
        labels = [label for label in own if not _is_left_out(label.lower())]
        text = _one_line(cell.text) if labels else ""
        label = ", ".join(dict.fromkeys(filter(None, labels)))
        if not text or (columns.start and not label):
            continue
        part = f"{label}: {text}" if label else text
        length += len(unmarked(part))
        if length > _LONGEST_ROW:
            break
        parts.append(part)
    return [_ended("; ".join(parts))] if len(parts) > 1 or (parts and len(headers) == 1) else []
