"""MediaWiki dumps: `pages-articles.xml`, plain or compressed, of any size and export version.

expat reads the XML as a stream, one page in memory at a time. Redirects, pages outside the article namespace,
disambiguation pages, and lists, indices and outlines are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote
from xml.parsers import expat

from realm_core.corpus.records import ArticleRights, RawArticle
from realm_core.corpus.streams import InputFile
from realm_core.errors import RealmError

URL_SAFE = "/:(),;@!*$'~-._"  # characters that MediaWiki does not quote in an article's URL
_TEXT_BUFFER_BYTES = 1 << 16  # of expat's text callback
# Against decompression bombs; MediaWiki itself allows 2 MiB of text.
_LONGEST_TEXT = 32 << 20  # characters
_LONGEST_TAG_BYTES = 1 << 20
_DEEPEST = 32  # elements
_MOST_NAMESPACES = 10_000
_LANGUAGE = re.compile(r"[a-z]{2,12}")
_LONGEST_URL = 512

_REDIRECT = re.compile(r"\s*+#\s*+[^\W\d_]++\s*+:?\s*+\[\[")
_DISAMBIGUATION = re.compile(
    r"__DISAMBIG__|\{\{\s*+(?:"
    # English, and names that contain the word
    r"(?:[^{}|\n]{0,60}[ -])?disambig(?:uation)?(?: page)?(?: cleanup)?|dab|(?:hn|geo|road|school|number|callsign|"
    r"place|math|ship|hospital|airport|station|church|mountain|bio|taxonomy|species|genus)dis(?:ambig)?|dis|4cc|tlad?|lnd|"
    r"mil-unit-dis|species latin name (?:abbreviation )?disambiguation|"
    # French, Spanish
    r"homonymie[^{}|\n]{0,40}|paronymie|patronymie|toponymie|internationalisation|arrondissements homonymes|"
    r"desambiguaci[oó]n|des(?:ambig)?"
    r")\s*(?:\||\}\})",
    re.IGNORECASE,
)
_DISAMBIGUATION_TITLE = re.compile(r"\((?:disambiguation|homonymie|desambiguación)\)\s*$", re.IGNORECASE)
_LIST_TITLE = {
    "en": re.compile(r"(?:Lists? of|Index of|Outline of)\b"),
    "fr": re.compile(r"Listes? (?:de|des|du|d['’])"),
    "es": re.compile(r"(?:Listas? de|Anexo:)"),
}


@dataclass
class _Page:
    id: str = ""
    title: str = ""
    namespace: str | None = None
    is_redirect: bool = False
    text: str = ""


@dataclass
class _Site:
    """The dump's description of its wiki, which precedes the pages."""

    language: str = ""
    url_base: str = ""
    namespaces: set[str] = field(default_factory=set)  # lower case, without the article namespace


class MediaWikiSource:
    """language: two-letter code; None takes it from the dump. licence, attribution: shown next to a passage."""

    name = "mediawiki"
    rights: tuple[ArticleRights, ...] = ()

    def __init__(
        self, path: Path, *, language: str | None = None, licence: str = "CC BY-SA 4.0", attribution: str = ""
    ) -> None:
        self._file = InputFile(path)
        self._site = self._read_site()
        self.language = language or self._site.language or "en"
        self.licence = licence
        home = self._site.url_base.removesuffix("/wiki/") or f"https://{self.language}.wikipedia.org"
        self.attribution = attribution or f"Text from the contributors of {home}, licensed under {licence}"

    def fingerprint(self) -> str:
        return f"mediawiki with links {self.language} {self._file.fingerprint()}"

    def share_read(self) -> float | None:
        return self._file.share_read()

    def articles(self, start: int) -> Iterator[RawArticle]:
        position = 0
        reader = _PageReader(self._file)
        for page in reader.pages():
            if not self._is_article(page, reader.site):
                continue
            position += 1
            if position > start:
                title = page.title
                url = (self._site.url_base or f"https://{self.language}.wikipedia.org/wiki/") + quote(
                    title.replace(" ", "_"), safe=URL_SAFE
                )
                yield RawArticle(page.id or title, title, url, page.text, "wikitext", self.language)

    def _read_site(self) -> _Site:
        """Read up to the first page; this also rejects files that are not dumps at once."""
        reader = _PageReader(self._file)
        next(reader.pages(), None)
        return reader.site

    def _is_article(self, page: _Page, site: _Site) -> bool:
        if page.namespace is not None:
            if page.namespace != "0":
                return False
        elif page.title.partition(":")[0].lower() in site.namespaces and ":" in page.title:
            return False  # dumps from before 2012 have no <ns>
        if page.is_redirect or not page.text.strip() or _REDIRECT.match(page.text):
            return False
        lists = _LIST_TITLE.get(self.language)
        if _DISAMBIGUATION_TITLE.search(page.title) or (lists is not None and lists.match(page.title)):
            return False
        return _DISAMBIGUATION.search(page.text) is None


class _PageReader:
    """One pass over a dump: expat's events → pages."""

    def __init__(self, file: InputFile) -> None:
        self.site = _Site()
        self._file = file
        self._path: list[str] = []
        self._parts: list[str] = []  # text since the last tag
        self._characters = 0
        self._page = _Page()
        self._namespace_key = ""
        self._pages: list[_Page] = []
        # Dumps are UTF-8. The XML declaration is ignored: it could name any of Python's codecs.
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.buffer_size = _TEXT_BUFFER_BYTES
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def pages(self) -> Iterator[_Page]:
        """Every page of the dump; `RealmError` with line, column and byte where it is not well-formed."""
        try:
            fed = 0
            for chunk in self._file.chunks():
                self._parser.Parse(chunk, False)
                fed += len(chunk)
                if fed - self._parser.CurrentByteIndex > len(chunk) + _LONGEST_TAG_BYTES:
                    raise RealmError(f"{self._file.path}: a tag is longer than {_LONGEST_TAG_BYTES >> 20} MiB.")
                yield from self._pages
                self._pages.clear()
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            reason = expat.errors.messages[error.code]
            hint = "; the file is truncated, fetch it again" if reason == "no element found" else ""
            raise RealmError(
                f"{self._file.path}, line {error.lineno:,}, column {error.offset:,}, byte "
                f"{self._parser.ErrorByteIndex:,} of the XML: {reason}{hint}."
            ) from None
        yield from self._pages

    def _doctype(self, *_: object) -> None:
        raise RealmError(f"{self._file.path} declares a document type, which no MediaWiki dump does.")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._path:
            if tag != "mediawiki":
                raise RealmError(f"{self._file.path} is not a MediaWiki dump: its first element is <{tag}>.")
            language = attributes.get("xml:lang", "").partition("-")[0]
            self.site.language = language if _LANGUAGE.fullmatch(language) else ""
        self._path.append(tag)
        if len(self._path) > _DEEPEST:
            raise RealmError(f"{self._file.path}: elements are nested deeper than {_DEEPEST} levels.")
        self._clear()
        if tag == "page":
            self._page = _Page()
        elif tag == "redirect":
            self._page.is_redirect = True
        elif tag == "namespace":
            self._namespace_key = attributes.get("key", "")

    def _end(self, tag: str) -> None:
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if parent == "page":
            if tag == "title":
                self._page.title = "".join(self._parts).strip()
            elif tag == "ns":
                self._page.namespace = "".join(self._parts).strip()
            elif tag == "id":
                self._page.id = "".join(self._parts).strip()
        elif parent == "revision" and tag == "text":
            self._page.text = "".join(self._parts)
        elif tag == "page":
            self._pages.append(self._page)
        elif tag == "namespace" and self._namespace_key != "0":
            self.site.namespaces.add("".join(self._parts).strip().lower())
            if len(self.site.namespaces) > _MOST_NAMESPACES:
                raise RealmError(f"{self._file.path}: more than {_MOST_NAMESPACES:,} namespaces are declared.")
        elif tag == "base":
            base, slash, _ = "".join(self._parts).strip().rpartition("/")
            url = base.replace("http://", "https://", 1) + slash
            self.site.url_base = url if url.startswith("https://") and len(url) <= _LONGEST_URL else ""
        self._clear()

    def _text(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > _LONGEST_TEXT:
            raise RealmError(f"{self._file.path}: a text is longer than {_LONGEST_TEXT >> 20} million characters.")
        self._parts.append(text)

    def _clear(self) -> None:
        self._parts.clear()
        self._characters = 0
