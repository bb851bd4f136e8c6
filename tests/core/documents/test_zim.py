"""ZIM files as libzim writes and reads them, and damaged ones; it is installed by hand (docs/your-documents.md).

With ZIM=required in the environment, as at night, these tests fail without it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from realm_core.documents.reading import DEFAULT_LIMITS, read_documents
from realm_core.documents.records import Limits
from realm_core.errors import RealmError
from tests.core.documents.files import Reader, shown

pytestmark = pytest.mark.skipif(
    find_spec("libzim") is None and os.environ.get("ZIM") != "required", reason="this machine has no libzim"
)

TURKU = "<html lang=fi-FI><title>Other</title><p>Turku is a city.</p><h2>Facts</h2><p>It is old.</p>"
PAGES = (
    ("Turku", "Turku", "text/html", TURKU),
    ("Nothing", "Nothing", "text/html", "<html><title>Nothing</title></html>"),
    ("Blank", "Blank", "text/html", " <!-- to be written -->"),
    ("style.css", "", "text/css", "p {}"),
    ("Vaasa", "The city of Vaasa", "text/html", "<p>Vaasa is a city, too.</p>"),
)
SMALLEST_MIB = 400  # of memory in which the reader starts with pyarrow, lxml and libzim
CLUSTER_BYTES = 512 << 20


def written(path: Path, pages: Sequence[tuple[str, str, str, str]] = PAGES, redirects: Sequence[str] = ()) -> Path:
    """A ZIM file of pages (path, title, media type, content) with a title index; every redirect leads to the first."""
    from libzim.writer import Creator, Hint, Item, StringProvider

    class Page(Item):
        def __init__(self, path: str, title: str, mimetype: str, content: str) -> None:
            super().__init__()
            self.path, self.title, self.mimetype, self.content = path, title, mimetype, content

        def get_path(self) -> str:
            return self.path

        def get_title(self) -> str:
            return self.title

        def get_mimetype(self) -> str:
            return self.mimetype

        def get_contentprovider(self) -> StringProvider:
            return StringProvider(self.content)

        def get_hints(self) -> dict[Hint, bool]:
            return {Hint.FRONT_ARTICLE: self.mimetype == "text/html", Hint.COMPRESS: True}

    creator = Creator(path).config_indexing(True, "eng").config_clustersize(CLUSTER_BYTES)
    creator.set_mainpath(pages[0][0])
    with creator:
        for page in pages:
            creator.add_item(Page(*page))
        for name in redirects:
            creator.add_redirection(name, name, pages[0][0], {Hint.FRONT_ARTICLE: True})
        creator.add_metadata("Language", "eng,fin")
        creator.add_metadata("Title", "Cities")
    return path


def refusal(path: Path, limits: Limits = DEFAULT_LIMITS) -> str:
    """Of the process that reads uploads."""
    with pytest.raises(RealmError) as raised:
        read_documents(path, "cities.zim", limits=limits)
    return str(raised.value)


def test_pages_are_read_under_the_limits_of_an_upload(tmp_path: Path) -> None:
    first, second = read_documents(written(tmp_path / "a.zim", redirects=["Åbo"]), "cities.zim")
    assert (first.identity, first.title, first.language, first.format) == ("Turku", "Turku", "fi", "zim")
    assert shown(first) == [((), "Turku is a city."), (("Facts",), "It is old.")]
    assert (second.identity, second.language) == ("Vaasa", "en")


def test_a_truncated_file(tmp_path: Path) -> None:
    whole, cut = written(tmp_path / "a.zim").read_bytes(), tmp_path / "cut.zim"
    for size in (40, len(whole) // 2, len(whole) - 1):  # in the header, in the middle, in the checksum
        cut.write_bytes(whole[:size])
        assert refusal(cut).startswith("cities.zim is a damaged or truncated ZIM file: ")


def test_redirects_to_each_other_are_not_followed(tmp_path: Path, reader: Reader) -> None:
    """libzim writes no loop, so the entries' targets are changed."""
    content = bytearray(written(tmp_path / "a.zim", redirects=["r-one", "r-two"]).read_bytes())
    one, two = (content.index(b"\xff\xff\x00C", content.index(name) - 12) for name in (b"r-one\0", b"r-two\0"))
    turku = int.from_bytes(content[one + 8 : one + 12], "little")  # entries are in the order of their paths
    content[one + 8 : one + 12] = (turku + 3).to_bytes(4, "little")
    content[two + 8 : two + 12] = (turku + 2).to_bytes(4, "little")
    assert [document.title for document in reader.many(bytes(content), "a.zim")] == ["Turku", "The city of Vaasa"]
    content[two + 8 : two + 12] = (turku + 99).to_bytes(4, "little")  # and one that leads nowhere
    assert len(reader.many(bytes(content), "a.zim")) == 2


def test_a_title_that_is_no_text(tmp_path: Path, reader: Reader) -> None:
    content = written(tmp_path / "a.zim").read_bytes().replace(b"The city of Vaasa\0", b"\xffhe city of Vaasa\0")
    assert reader.refusal(content, "a.zim").startswith("a.zim is damaged at entry ")


@pytest.mark.nightly
def test_damage_within(tmp_path: Path) -> None:
    """Whatever a byte becomes, the file is read or refused in a sentence; the reader's end by a signal is one, too."""
    whole, changed = written(tmp_path / "a.zim").read_bytes(), tmp_path / "changed.zim"
    places = [number for number, byte in enumerate(whole) if byte and number > 80]
    for place in places[:: len(places) // 8]:
        changed.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert len(read_documents(changed, "cities.zim")) <= 2
        except RealmError as error:
            assert str(error).startswith("cities.zim ")


def test_a_page_that_cannot_be_read_is_named(tmp_path: Path, reader: Reader) -> None:
    deep = [("Deep", "Deep", "text/html", "<div>" * 5000 + "deep")]
    told = reader.refusal(written(tmp_path / "a.zim", [*PAGES, *deep]).read_bytes(), "a.zim")
    assert told.startswith("a.zim holds a page 'Deep' that cannot be read beyond line 1")


def test_limits(tmp_path: Path, reader: Reader) -> None:
    data = written(tmp_path / "a.zim", [*PAGES, ("Big", "Big", "text/html", "<p>" + " " * (2 << 20))]).read_bytes()
    assert reader.refusal(data, "a.zim", unpacked_bytes=1 << 20) == (
        "a.zim holds pages of more than 1 MiB when unpacked, which is the limit."
    )
    assert reader.refusal(data, "a.zim", documents=1) == "a.zim holds more than 1 documents, which is the limit."
    assert reader.refusal(data, "a.zim", characters=20).startswith("a.zim holds more than 20 characters of text")


def test_a_cluster_that_fills_the_memory(tmp_path: Path) -> None:
    """A page that follows a picture in a cluster is reached only by unpacking the picture."""
    picture = ("A.png", "", "image/png", " " * (SMALLEST_MIB << 20))
    large = written(tmp_path / "a.zim", [picture, *PAGES])
    assert large.stat().st_size < 1 << 20
    assert [page.title for page in read_documents(large, "cities.zim")] == ["Turku", "The city of Vaasa"]
    told = refusal(large, Limits(memory_bytes=SMALLEST_MIB << 20))
    assert f"more than {SMALLEST_MIB} MiB of memory" in told
