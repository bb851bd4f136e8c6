"""Small PDF files, written by the tests themselves: lines of Helvetica at given places, lines drawn, tags."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
_FILE_ID = b"0123456789abcdef"


@dataclass(frozen=True)
class Line:
    """size, x, y: in points; y from the lower edge of a page 842 points high.

    font:   F for Helvetica, B for bold, C for Courier.
    marked: number of the marked content that it is, for tags.
    """

    text: str
    y: float
    size: float = 11.0
    x: float = 72.0
    font: str = "F"
    marked: int | None = None

    def drawn(self) -> bytes:
        text = f"BT /{self.font} {self.size} Tf {self.x} {self.y} Td (".encode() + _escaped(self.text) + b") Tj ET"
        return text if self.marked is None else b"/P <</MCID %d>> BDC %s EMC" % (self.marked, text)


@dataclass(frozen=True)
class Drawn:
    """Operators between the lines of a page."""

    operators: str

    def drawn(self) -> bytes:
        return self.operators.encode()


def column(texts: Sequence[str], *, top: float = 740.0, leading: float = 14.0) -> list[Line]:
    """Lines one below the other; an empty one leaves its place free."""
    return [Line(text, top - number * leading) for number, text in enumerate(texts) if text]


def pdf(
    pages: Sequence[Sequence[Line | Drawn]],
    *,
    title: str = "",
    language: str = "",
    link: str = "",
    outline: Sequence[tuple[str, int]] = (),
    password: str = "",
    page_entries: str = "",
    structure: Tags | None = None,
) -> bytes:
    """A PDF of these pages.

    link:         an address that the first page links to.
    outline:      titles and pages, from 0.
    page_entries: of the dictionary of each page.
    structure:    tags, of which those at the top are the parts of the document.
    """
    count = len(pages)
    first_page, first_entry = 4, 4 + 2 * count
    objects: dict[int, bytes] = {}
    kids = " ".join(f"{first_page + 2 * number} 0 R" for number in range(count))
    last_entry = first_entry + len(outline)  # the outline itself comes behind its entries
    catalog = "/Type /Catalog /Pages 2 0 R" + (f" /Lang ({language})" if language else "")
    objects[1] = f"<< {catalog}{f' /Outlines {last_entry} 0 R' if outline else ''} >>".encode()
    objects[2] = f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode()
    fonts = " ".join(
        f"/{name} << /Type /Font /Subtype /Type1 /BaseFont /{base} /Encoding /WinAnsiEncoding >>"
        for name, base in (("F", "Helvetica"), ("B", "Helvetica-Bold"), ("C", "Courier"))
    )
    objects[3] = f"<< {fonts} >>".encode()
    for number, lines in enumerate(pages):
        annotation = f"/Annots [<< /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI ({link}) >> >>]"
        objects[first_page + 2 * number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {first_page + 2 * number + 1} 0 R "
            f"/Resources << /Font 3 0 R >> /StructParents {number} {page_entries} "
            f"{annotation if link and not number else ''} >>"
        ).encode()
        drawn = b"\n".join(line.drawn() for line in lines)
        objects[first_page + 2 * number + 1] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn)
    for number, (words, page) in enumerate(outline):
        entry = first_entry + number
        following = f"/Next {entry + 1} 0 R" if number + 1 < len(outline) else ""
        target = first_page + 2 * page
        objects[entry] = (
            f"<< /Title ({words}) /Parent {last_entry} 0 R {following} /Dest [{target} 0 R /Fit] >>".encode()
        )
    if outline:
        objects[last_entry] = f"<< /First {first_entry} 0 R /Last {last_entry - 1} 0 R >>".encode()
    if structure is not None:
        root = _add_structure(objects, structure, [first_page + 2 * number for number in range(count)])
        objects[1] = objects[1][:-2] + b"/MarkInfo << /Marked true >> /StructTreeRoot %d 0 R >>" % root
    trailer = b""
    if title:
        information = max(objects) + 1
        objects[information] = b"<< /Title (" + _escaped(title) + b") >>"
        trailer += b" /Info %d 0 R" % information
    if password:
        trailer += _encrypt(objects, password)
    return _file(objects, trailer)


@dataclass(frozen=True)
class Tag:
    """An element of the structure. content: (page from 0, number of the marked content)."""

    kind: str
    below: Sequence[Tag] = ()
    content: Sequence[tuple[int, int]] = ()
    attributes: str = ""


Tags = Sequence[Tag]


def _add_structure(objects: dict[int, bytes], tags: Tags, pages: Sequence[int]) -> int:
    """Returns the number of the root's object."""
    root = max(objects) + 1
    objects[root] = b""
    parents: list[dict[int, int]] = [{} for _ in pages]

    def add(tag: Tag, parent: int) -> int:
        number = max(objects) + 1
        objects[number] = b""
        below = [f"{add(one, number)} 0 R" for one in tag.below]
        for page, content in tag.content:
            parents[page][content] = number
            below.append(f"<< /Type /MCR /Pg {pages[page]} 0 R /MCID {content} >>")
        attributes = f"/A << /O /Table {tag.attributes} >>" if tag.attributes else ""
        objects[number] = (
            f"<< /Type /StructElem /S /{tag.kind} /P {parent} 0 R /K [{' '.join(below)}] {attributes} >>"
        ).encode()
        return number

    top = " ".join(f"{add(tag, root)} 0 R" for tag in tags)
    numbers = ""
    for page, own in enumerate(parents):
        elements = (own.get(content) for content in range(max(own, default=-1) + 1))
        numbers += f"{page} [{' '.join('null' if one is None else f'{one} 0 R' for one in elements)}] "
    objects[root] = f"<< /Type /StructTreeRoot /K [{top}] /ParentTree << /Nums [{numbers}] >> >>".encode()
    return root


def _escaped(text: str) -> bytes:
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _file(objects: dict[int, bytes], trailer: bytes) -> bytes:
    content = b"%PDF-1.4\n"
    places = []
    for number in sorted(objects):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(places) + 1
    start = len(content)
    content += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    return content + b"trailer\n<< /Size %d /Root 1 0 R%s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)


def _encrypt(objects: dict[int, bytes], password: str) -> bytes:
    """RC4 with 40 bits, as PDF 1.4 has it; returns the trailer's entries."""
    padded = (password.encode() + _PADDING)[:32]
    owner = _rc4(hashlib.md5(padded).digest()[:5], padded)
    key = hashlib.md5(padded + owner + (-4).to_bytes(4, "little", signed=True) + _FILE_ID).digest()[:5]
    for number, content in objects.items():
        head, stream, rest = content.partition(b"stream\n")
        if stream:
            own = hashlib.md5(key + number.to_bytes(3, "little") + b"\0\0").digest()[:10]
            drawn = rest.removesuffix(b"\nendstream")
            objects[number] = head + stream + _rc4(own, drawn) + b"\nendstream"
    handler = max(objects) + 1
    user = _rc4(key, _PADDING)
    objects[handler] = f"<< /Filter /Standard /V 1 /R 2 /P -4 /O <{owner.hex()}> /U <{user.hex()}> >>".encode()
    return f" /Encrypt {handler} 0 R /ID [<{_FILE_ID.hex()}> <{_FILE_ID.hex()}>]".encode()


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    out = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
