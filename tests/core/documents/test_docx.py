"""DOCX: everything of a document's body in order, and archives that are not what they say."""

from __future__ import annotations

import zipfile
from io import BytesIO

import docx
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import OxmlElement
from docx.oxml.ns import qn

from tests.core.documents.files import Reader, saved, shown, with_member

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BODY = "word/document.xml"


def turku() -> docx.document.Document:
    document = docx.Document()
    document.core_properties.title = "Template"
    document.add_heading("Turku", 0)
    document.add_paragraph("A city in Finland.")
    document.add_heading("Facts", 1)
    document.add_paragraph("Sights:")
    document.add_paragraph("the castle", style="List Bullet")
    document.add_paragraph("the cathedral", style="List Number")
    table = document.add_table(2, 2)
    for row, texts in zip(table.rows, [("Population", "206,035"), ("Founded", "1229")], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    document.add_heading("People", 2)
    table = document.add_table(3, 3)
    for row, texts in zip(
        table.rows, [("Year", "Mayor", "Party"), ("2017", "Minna Arve", "NCP"), ("2009", "", "SDP")], strict=True
    ):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    return document


def body(xml: str) -> bytes:
    """A DOCX file whose body is this XML; the prefix w is declared."""
    content = f'<?xml version="1.0"?><w:document xmlns:w="{W}"><w:body>{xml}</w:body></w:document>'
    return with_member(saved(docx.Document()), BODY, content.encode())


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_headings_lists_and_tables(reader: Reader) -> None:
    document = reader.one(saved(turku()), "turku.docx")
    assert document.title == "Turku"  # not its template's
    assert document.language == "en"
    assert shown(document) == [
        ((), "A city in Finland."),
        (("Facts",), "Sights:\nthe castle.\nthe cathedral.\nPopulation: 206,035.\nFounded: 1229."),
        (("Facts", "People"), "Year: 2017; Mayor: Minna Arve; Party: NCP.\nYear: 2009; Party: SDP."),
    ]


def test_a_bold_line_above_text_is_a_heading(reader: Reader) -> None:
    document = docx.Document()
    for text, bold in [
        ("Whistleblowing", True), ("Reports are kept for three years.", False), ("Important", True), ("Twice", True),
        ("Whoever reports is told the outcome.", False), ("The end.", True),
    ]:  # fmt: skip
        document.add_paragraph().add_run(text).bold = bold
    read = reader.one(saved(document), "whistle.docx")
    assert read.title == "Whistleblowing"
    assert shown(read) == [
        ((), "Reports are kept for three years.\nImportant"),
        (("Twice",), "Whoever reports is told the outcome.\nThe end."),
    ]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("Service", "2024", "2025"), ("Roads", "4025", "2298"), ("Parks", "880", "1950")],
         ["Service: Roads; 2024: 4025; 2025: 2298.", "Service: Parks; 2024: 880; 2025: 1950."]),
        ([("", "2024/25", "Budget 2025–26"), ("Roads", "£1500", "n/a"), ("Parks", "–", "£1995")],
         ["Roads; 2024/25: £1500; Budget 2025–26: n/a.", "Parks; 2024/25: –; Budget 2025–26: £1995."]),
        ([("", "Adult", "Child"), ("Gym", "£7.20", "£4.10")], ["Gym; Adult: £7.20; Child: £4.10."]),
        # Years of things, and numbers that are no years, name nothing.
        ([("Bridge", "1965", "stone"), ("Mill", "1972", "brick")], ["Bridge; 1965; stone.", "Mill; 1972; brick."]),
        ([("Bridge", "12", "stone"), ("Mill", "7", "brick")], ["Bridge; 12; stone.", "Mill; 7; brick."]),
        ([("Report 2023", "1 May 2024", "a"), ("Report 2024", "7 May 2025", "b")],
         ["Report 2023; 1 May 2024; a.", "Report 2024; 7 May 2025; b."]),
    ],
)  # fmt: skip
def test_a_first_row_that_is_not_marked_names_columns_by_words_and_years(
    reader: Reader, rows: list[tuple[str, ...]], told: list[str]
) -> None:
    document = docx.Document()
    table = document.add_table(len(rows), len(rows[0]))
    for row, texts in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    assert reader.one(saved(document), "a.docx").sections[0].text.split("\n") == told


@pytest.mark.parametrize(
    ("first", "bold", "told"),
    [
        (("Visitor", "Price"), False, ["Visitor: Adult; Price: 90 kronor.", "Visitor: Child; Price: free."]),
        (("Guest", "Reduced"), True, ["Guest: Adult; Reduced: 90 kronor.", "Guest: Child; Reduced: free."]),
        (("Guest", "Reduced"), False, ["Guest: Reduced.", "Adult: 90 kronor.", "Child: free."]),
    ],
)
def test_the_names_of_two_columns(reader: Reader, first: tuple[str, str], bold: bool, told: list[str]) -> None:
    document = docx.Document()
    table = document.add_table(3, 2)
    for row, texts in zip(table.rows, [first, ("Adult", "90 kronor"), ("Child", "free")], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.paragraphs[0].add_run(text).bold = bold and texts is first
    assert reader.one(saved(document), "a.docx").sections[0].text.split("\n") == told


def test_a_first_row_that_is_not_marked_and_divided_by_the_second(reader: Reader) -> None:
    document = docx.Document()
    rows = [("Body", "Members", ""), ("", "Full", "Deputy"), ("Board", "Ann", "Bo"), ("Trust", "Cy", "Di")]
    table = document.add_table(4, 3)
    for row, texts in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    told = ["Members Full: Ann; Members Deputy: Bo.", "Members Full: Cy; Members Deputy: Di."]
    text = reader.one(saved(document), "a.docx").sections[0].text
    assert text.split("\n") == [f"Body: Board; {told[0]}", f"Body: Trust; {told[1]}"]
    table.cell(0, 0).merge(table.cell(1, 0))
    assert reader.one(saved(document), "a.docx").sections[0].text == text


def test_cells_over_several_rows_and_columns(reader: Reader) -> None:
    document = docx.Document()
    rows = [
        ("City", "Year", "People"),
        ("Kemi", "1990", "a"),
        ("", "2020", "b"),
        ("All", "", "c"),
        ("Oulu", "2020", "d"),
    ]
    table = document.add_table(5, 3)
    for row, texts in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    table.cell(3, 0).merge(table.cell(3, 1))
    assert reader.one(saved(document), "a.docx").sections[0].text.split("\n") == [
        "City: Kemi; Year: 1990; People: a.",
        "City: Kemi; Year: 2020; People: b.",
        "City, Year: All; People: c.",
        "City: Oulu; Year: 2020; People: d.",
    ]


def test_spans_as_they_are_written(reader: Reader) -> None:
    """A cell that goes on below none is one of its own; columns before the first cell are empty."""

    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"

    rows = [
        cell("City") + cell("Year") + cell("People"),
        cell("Kemi", "<w:vMerge/>") + cell("one") + cell("two"),
        "<w:trPr><w:gridBefore w:val='1'/></w:trPr>" + cell("three") + cell("four", "<w:vMerge w:val='restart'/>"),
        cell("Ii", "<w:gridSpan w:val='0'/>") + cell("five") + cell("", "<w:vMerge w:val='continue'/>"),
    ]
    data = body(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>")
    assert reader.one(data, "a.docx").sections[0].text.split("\n") == [
        "City: Kemi; Year: one; People: two.",
        "Year: three; People: four.",
        "City: Ii; Year: five; People: four.",
    ]


def test_title_and_language_of_the_properties(reader: Reader) -> None:
    document = docx.Document()
    document.core_properties.title, document.core_properties.language = "Turku", "fi-FI"
    document.add_paragraph("Kaupunki.")
    read = reader.one(saved(document), "a.docx")
    assert (read.title, read.language) == ("Turku", "fi")


def test_a_file_without_properties_has_no_title_of_the_program_that_reads_it(reader: Reader) -> None:
    """As online editors export it."""
    document = docx.Document()
    document.core_properties.title = "Old"
    document.add_heading("Lantern Ferry", 1)
    document.add_paragraph("It runs to Velmara.")
    package = document.part.package
    for name, one in list(package.rels.items()):
        if one.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES:
            del package.rels[name]
    assert reader.one(saved(document), "ferry.docx").title == "Lantern Ferry"


def test_links(reader: Reader) -> None:
    document = docx.Document()
    document.add_paragraph("Words.")
    relation = document.part.relate_to("https://example.org/turku", RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    data = saved(document)
    with zipfile.ZipFile(BytesIO(data)) as archive:
        xml = archive.read(BODY).decode()
    link = f'<w:p><w:hyperlink r:id="{relation}"><w:r><w:t>See Turku</w:t></w:r></w:hyperlink></w:p>'
    read = reader.one(with_member(data, BODY, xml.replace("<w:sectPr", f"{link}<w:sectPr", 1).encode()), "a.docx")
    assert read.links == ("https://example.org/turku",)
    assert read.sections[0].text == "Words.\nSee Turku"


def test_changes_content_controls_and_text_boxes(reader: Reader) -> None:
    data = body(
        f"<w:p><w:r><w:t>Kept</w:t></w:r><w:ins><w:r><w:t xml:space='preserve'> and new</w:t></w:r></w:ins>"
        f"<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:tab/><w:t>words.</w:t></w:r></w:p>"
        f"<w:sdt><w:sdtContent>{paragraph('In a control.')}</w:sdtContent></w:sdt>"
        "<w:p><mc:AlternateContent xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006'>"
        f"<mc:Choice><w:txbxContent>{paragraph('In a box.')}</w:txbxContent></mc:Choice>"
        f"<mc:Fallback><w:txbxContent>{paragraph('In a box.')}</w:txbxContent></mc:Fallback>"
        "</mc:AlternateContent></w:p>"
    )
    assert shown(reader.one(data, "a.docx")) == [((), "Kept and new words.\nIn a control.\nIn a box.")]


def test_merged_cells_and_tables_within_cells(reader: Reader) -> None:
    inner = f"<w:tbl><w:tr><w:tc>{paragraph('inner')}</w:tc></w:tr></w:tbl>"
    rows = (
        f"<w:tr><w:trPr><w:tblHeader/></w:trPr><w:tc><w:tcPr><w:gridSpan w:val='2'/></w:tcPr>{paragraph('Name')}</w:tc>"
        f"<w:tc>{paragraph('Note')}</w:tc></w:tr>"
        f"<w:tr><w:tc>{paragraph('a')}</w:tc><w:tc>{paragraph('b')}</w:tc><w:tc>{inner}{paragraph('outer')}</w:tc></w:tr>"
    )
    read = reader.one(body(f"<w:tbl>{rows}</w:tbl>"), "a.docx")
    assert read.sections[0].text == "Name: a; Name: b; Note: inner outer."


def test_footnotes_stand_behind_what_refers_to_them(reader: Reader) -> None:
    """Others, and endnotes, at the end."""
    document = docx.Document()
    document.add_heading("Minutes", 0)
    document.add_heading("Pool", 1)
    first = document.add_paragraph("It costs £5.")
    document.add_paragraph("It is closed.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Roof", "£9"
    document.add_heading("Bridge", 1)
    document.add_paragraph("It is old.")
    for number, place in (("1", first), ("2", table.cell(0, 1).paragraphs[0])):
        mark = OxmlElement("w:footnoteReference")
        mark.set(qn("w:id"), number)
        place.add_run()._r.append(mark)
    for kind, texts in (("footnote", ["VAT apart.", "An estimate.", "Of nothing."]), ("endnote", ["As told."])):
        notes = "".join(
            f'<w:{kind} w:id="{number}">{paragraph(text)}</w:{kind}>' for number, text in enumerate(texts, 1)
        )
        separator = f'<w:{kind} w:type="separator" w:id="-1">{paragraph("x")}</w:{kind}>'
        content = f'<w:{kind}s xmlns:w="{W}">{separator}{notes}</w:{kind}s>'
        media_type = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}s+xml"
        part = Part(PackURI(f"/word/{kind}s.xml"), media_type, content.encode(), document.part.package)
        document.part.relate_to(part, getattr(RELATIONSHIP_TYPE, f"{kind}s".upper()))
    assert shown(reader.one(saved(document), "a.docx")) == [
        (("Pool",), "It costs £5.\nVAT apart.\nIt is closed.\nRoof: £9.\nAn estimate."),
        (("Bridge",), "It is old."),
        (("Footnotes",), "Of nothing."),
        (("Endnotes",), "As told."),
    ]


def test_only_a_title(reader: Reader) -> None:
    document = docx.Document()
    document.add_heading("Turku", 0)
    assert reader.refusal(saved(document), "a.docx") == "a.docx holds no text: only a title ('Turku')."


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated(reader: Reader, share: float) -> None:
    data = saved(turku())
    told = reader.refusal(data[: int(len(data) * share)], "a.docx")
    assert told.startswith("a.docx is a damaged or truncated archive (DOCX is one): ")


def test_damaged_within(reader: Reader) -> None:
    data = bytearray(saved(turku()))
    with zipfile.ZipFile(BytesIO(data)) as archive:
        place = archive.getinfo(BODY).header_offset + 60
    data[place : place + 40] = bytes(40)
    assert reader.refusal(bytes(data), "a.docx").startswith(f"a.docx is a damaged or truncated DOCX file in {BODY}: ")


def test_a_damaged_name_is_not_repeated_whole(reader: Reader) -> None:
    data = bytearray(saved(turku()))
    with zipfile.ZipFile(BytesIO(data)) as archive:
        place = archive.getinfo(BODY).header_offset + 26
    data[place : place + 2] = (6000).to_bytes(2, "little")
    assert len(reader.refusal(bytes(data), "a.docx")) < 1100


@pytest.mark.parametrize("part", ["docProps/core.xml", "_rels/.rels", "[Content_Types].xml"])
@pytest.mark.parametrize("content", [b"<a/>", b"<a>", b""])
def test_parts_that_are_something_else(reader: Reader, part: str, content: bytes) -> None:
    data = with_member(saved(turku()), part, content)
    assert reader.refusal(data, "a.docx").startswith("a.docx is no whole DOCX file: ")


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (b"<w:document", "a.docx is no whole DOCX file: "),
        (f'<w:document xmlns:w="{W}"/>'.encode(), "a.docx is no whole DOCX file: "),
        (b"<a/>", "a.docx is no whole DOCX file: "),
        (f'<w:document xmlns:w="{W}">{"<w:p>" * 100_000}'.encode(), "a.docx is no whole DOCX file: "),
    ],
    ids=["cut", "without body", "another element", "nested"],
)
def test_a_body_that_is_none(reader: Reader, xml: bytes, expected: str) -> None:
    assert reader.refusal(with_member(saved(turku()), BODY, xml), "a.docx").startswith(expected)


def test_entities_are_not_expanded(reader: Reader) -> None:
    declared = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12))
    xml = (
        f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{declared}<!ENTITY file SYSTEM "file:///etc/passwd">]>'
        f'<w:document xmlns:w="{W}"><w:body>{paragraph("x %s")}</w:body></w:document>'
    )
    bomb = with_member(saved(turku()), BODY, (xml % "&m;").encode())
    assert reader.refusal(bomb, "a.docx").startswith("a.docx is no whole DOCX file: ")
    secret = with_member(saved(turku()), BODY, (xml % "&file;").encode())
    assert "root:" not in str(reader.one(secret, "a.docx"))


def test_a_bomb_is_counted_while_it_is_unpacked(reader: Reader) -> None:
    bomb = with_member(saved(turku()), "word/media/image.png", bytes(50 << 20))
    assert len(bomb) < 1 << 20
    told = reader.refusal(bomb, "a.docx", unpacked_bytes=20 << 20)
    assert told == "a.docx holds more than 20 MiB when unpacked, which is the limit."


def test_a_bomb_that_lies_of_its_size(reader: Reader) -> None:
    """Its directory states 10 bytes. It is refused before more than that is in memory."""
    bomb = bytearray(with_member(saved(turku()), "word/media/image.png", bytes(50 << 20)))
    size = (50 << 20).to_bytes(4, "little")
    while size in bomb:
        place = bomb.index(size)
        bomb[place : place + 4] = (10).to_bytes(4, "little")
    told = reader.refusal(bytes(bomb), "a.docx", unpacked_bytes=20 << 20)
    assert told.startswith("a.docx is a damaged or truncated DOCX file in word/media/image.png: ")


def test_an_encrypted_member(reader: Reader) -> None:
    data = bytearray(saved(turku()))
    directory = data.index(b"PK\x01\x02")
    data[directory + 8] |= 1
    assert "is encrypted" in reader.refusal(bytes(data), "a.docx")
