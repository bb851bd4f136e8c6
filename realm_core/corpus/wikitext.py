"""Wikitext → clean prose and its sections.

One scan resolves nested templates, tables and links from the inside out, in time linear in the text. Then the lines are
read one by one: headings open sections, list marks and other markup are removed. Infoboxes and tables of data become
sentences (`boxes`), templates that stand for words become those words (`wikitemplates`), other templates and tables are
removed. Broken markup never raises: an unclosed bracket is removed and its content kept.
"""

from __future__ import annotations

import html
import re

from realm_core.corpus.anchors import Anchored, join_anchored, marked, unmarked
from realm_core.corpus.boxes import LINE, infobox_sentences, is_infobox, table_sentences
from realm_core.corpus.prose import TIDYING, Substitutions, gap_closing, sentence, tidy_line
from realm_core.corpus.records import Section, Span
from realm_core.corpus.wikitemplates import expand, named_values, template_name

# Sections that hold references and lists of links, not prose; compared in lower case.
_DROPPED_SECTIONS = frozenset(
    # English
    "references|external links|external link|see also|further reading|notes|bibliography|sources|footnotes|citations|"
    "notes and references|references and notes|works cited|literature|general references|primary sources|"
    "secondary sources|external sources|selected bibliography|discography|filmography|gallery|image gallery|"
    "references and further reading|notes and citations|additional reading|reference|explanatory notes|"
    "cited sources|general sources|cited works|references and sources|sources and further reading|"
    # French
    "notes et références|références|voir aussi|liens externes|lien externe|bibliographie|articles connexes|annexes|"
    "notes|liens et documents externes|pour approfondir|filmographie|discographie|galerie|sources et bibliographie|"
    # Spanish
    "referencias|véase también|enlaces externos|bibliografía|notas|notas y referencias|fuentes|filmografía|"
    "discografía|galería|lecturas adicionales|referencias y notas".split("|")
)

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_MARKUP_CHARACTERS = "[]{}|'<>=*#:;"
_HIDDEN = {ord(c): chr(0xE000 + i) for i, c in enumerate(_MARKUP_CHARACTERS)}  # private use: no text has them
_SHOWN = {hidden: chr(code) for code, hidden in _HIDDEN.items()}
_HIDDEN_CHARACTER = re.compile(f"[{''.join(_SHOWN)}]")

# Elements that are removed with their content …
_ELEMENTS = (
    "ref|references|nowiki|math|chem|ce|gallery|code|pre|source|syntaxhighlight|timeline|score|imagemap|hiero|graph|"
    "mapframe|maplink|templatedata|templatestyles|includeonly|inputbox|section|indicator|categorytree|"
    "dynamicpagelist|img|del|s|strike"
)
_ELEMENT = re.compile(rf"<({_ELEMENTS})\b([^<>]*?)(/?)>", re.IGNORECASE)
_END = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in _ELEMENTS.split("|")}
_END["ref"] = re.compile(r"</ref\s*>|<ref\b(?:[^<>]*[^/<>])?>", re.IGNORECASE)  # or the next one's beginning
_MAY_STAND = frozenset({"math", "chem", "ce", "code"})
# … except a formula or a piece of code that is short and has no markup, such as <math>x + 1</math>.
_SIMPLE = re.compile(r"\s*([\w .,+\-=()/^*<>]{1,40})\s*")
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)\b[^<>]*>")
_BLOCK_TAGS = frozenset({"p", "div", "blockquote", "center", "li", "ul", "ol", "dl", "dt", "dd", "poem", "hr"})
_CELL_TAGS = frozenset({"table", "tr", "td", "th"})

# Lower-case letters right behind a link, as in [[bus]]es, are part of its anchor.
_TRAIL = "[a-zß-öø-ſά-ώа-џ]*+"
_TOKEN = re.compile(r"\{\{|\}\}|\[\[|\]\]" + _TRAIL + r"|^[ \t:*#]*\{\||^[ \t]*\|\}|\|\}(?!\})", re.MULTILINE)
_DEEPEST = 100  # MediaWiki itself stops at 40; deeper brackets are taken for text
_EXTERNAL_LINK = re.compile(r"\[(?:(?:(?:https?|ftp):)?//|mailto:)[^\s\]\[<>]++(?:\s++([^\]\[\n]*))?\]", re.IGNORECASE)
_PARAMETER = re.compile(r"\{\{\{[^{}]*\}\}\}")  # of a template, pasted into an article by mistake
_BARE_URL = re.compile(r"(?:https?|ftp)://[^\s<>\[\]{}|\"]+[^\s<>\[\]{}|\".,;:!?)']", re.IGNORECASE)
_ENTITY = re.compile(r"&#?\w+;?")
_QUOTES = re.compile(r"'{2,}")
_MAGIC_WORD = re.compile(r"__[A-ZÀ-Þ]{3,}__")
_LIST_MARKS = re.compile(rf"[*#:;{LINE}]+\s*")
_RESIDUE = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{\||(?<=\s)\|\}")
# "For other uses, see …": a note to the reader of the encyclopedia, indented and in italics.
_HATNOTE = re.compile(
    r":+\s*''+\s*(?:for|see|main|this (?:article|page)|further|not to be|.{0,80}redirects? (?:here|to)|voir|pour|"
    r"article|cet|véase|artículo|para|este)\b.*",
    re.IGNORECASE,
)
_DROPPED_NAMESPACES = frozenset(
    "file image media category fichier catégorie média archivo imagen categoría datei bild kategorie immagine "
    "categoria ficheiro imagem bestand categorie template wikipedia".split()
)
_LANGUAGE_PREFIX = re.compile(r"(?:[a-z]{2,3}|simple|zh-[a-z-]+|be-x-old|bat-smg|roa-[a-z]+|fiu-vro|nds-nl|map-bms):")
_INTERWIKI = re.compile(
    r"(?:w|wikt|wiktionary|s|wikisource|m|meta|commons|c|q|b|n|v|d|species|mw|iarchive|doi|hdl):", re.IGNORECASE
)


def to_prose(wikitext: str, language: str = "en") -> tuple[str, tuple[Section, ...], tuple[Span, ...]]:
    """The article's prose, its sections, and the places of its links' anchors in the prose.

    A section starts at a character of the prose that is not white space. Headings are not in the prose. A
    subsection's heading has its ancestors' before it. Sections without prose of their own, and those with
    references and links, are left out.
    """
    text = _COMMENT.sub("", unmarked(wikitext).replace(LINE, ""))
    text = _drop_elements(text)
    text = _PARAMETER.sub("", text)
    text = _EXTERNAL_LINK.sub(_words_of_link, text)  # here, so that their "]" closes nothing else
    remains: Substitutions = (
        (_TAG, _tag),
        (_EXTERNAL_LINK, _words_of_link),  # those that held something nested
        (_BARE_URL, ""),
        (_MAGIC_WORD, ""),
    )
    text = _resolve(text, language).replace(LINE, f"\n{LINE}")
    prose, sections = _sections(Anchored.read(text).edited(remains), language)
    return prose.text, sections, _links(prose)


def _drop_elements(text: str) -> str:
    """Without elements such as <ref>…</ref>; of an unclosed one, only the tag is removed."""
    kept: list[str] = []
    position = 0
    without_end: set[str] = set()
    while match := _ELEMENT.search(text, position):
        kept.append(text[position : match.start()])
        position = match.end()
        name = match[1].lower()
        if match[3] or name in without_end:
            continue
        end = _END[name].search(text, position)
        if end is None:
            without_end.add(name)
            continue
        if not end[0].startswith("</"):
            continue  # refs do not nest: this one was left open, and what follows is prose
        content = text[position : end.start()]
        if name == "nowiki":
            kept.append(content.translate(_HIDDEN))
        elif name in _MAY_STAND and (simple := _SIMPLE.fullmatch(content)):
            kept.append(simple[1].translate(_HIDDEN))
        position = end.end()
    kept.append(text[position:])
    return "".join(kept)


def _resolve(text: str, language: str) -> str:
    """Templates and tables as they read, link brackets gone; anchors of links are marked."""
    nesting = _Nesting(language)
    position = 0
    while match := _TOKEN.search(text, position):
        token = match[0]
        nesting.add(text[position : match.start()])
        position = match.end()
        if token in ("{{", "[["):
            nesting.open(token)
        elif token.endswith("{|"):
            nesting.open("{|")
        elif token == "}}":
            nesting.close("{{")
        elif token.startswith("]]"):
            trail = token.removeprefix("]]")
            if nesting.innermost == "[[":
                nesting.close("[[", trail)
            else:
                nesting.add(trail)
        elif nesting.innermost != "{{":
            nesting.close("{|")
        else:
            nesting.add(token)  # inside a template "|}" is an empty argument, not the end of a table
    nesting.add(text[position:])
    return nesting.text()


class _Nesting:
    """The open brackets with their content so far; a bracket is resolved when it closes."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._stack: list[tuple[str, list[str]]] = [("", [])]
        self._open_count = {"{{": 0, "[[": 0, "{|": 0}

    @property
    def innermost(self) -> str:
        return self._stack[-1][0]

    def add(self, text: str) -> None:
        self._stack[-1][1].append(text)

    def open(self, kind: str) -> None:
        if len(self._stack) <= _DEEPEST:
            self._stack.append((kind, []))
            self._open_count[kind] += 1

    def close(self, kind: str, trail: str = "") -> None:
        """Resolve the innermost open `kind`; brackets left open inside it become text.

        trail: letters behind a link that belong to its anchor.
        """
        if not self._open_count[kind]:
            return
        first = len(self._stack) - 1
        while self._stack[first][0] != kind:
            first -= 1
        content = self._text_from(first)
        if kind == "{{":
            self.add(_template(content, self._language))
        elif kind == "[[":
            self.add(_link(content, trail))
        else:
            self.add(table_sentences(content))

    def text(self) -> str:
        return self._text_from(0)

    def _text_from(self, first: int) -> str:
        frames = self._stack[first:]
        del self._stack[first:]
        parts: list[str] = []
        for kind, own_parts in frames:
            if kind:
                self._open_count[kind] -= 1
            if kind == "{|":
                parts.append("\n")  # an unclosed table's lines are dropped one by one, if its first line begins one
            parts.extend(own_parts)
        return "".join(parts)


def _template(content: str, language: str) -> str:
    """The words of {{content}}, with their links marked unless the marks would change the words."""
    if is_infobox(template_name(content)):
        return infobox_sentences(named_values(content))
    plain = unmarked(content)
    words = expand(plain, language)
    if not words or plain == content:
        return words
    with_links = expand(content, language)
    return with_links if unmarked(with_links) == words else words


def _link(content: str, trail: str) -> str:
    """The words of [[content]]trail, marked if they are the anchor of a link to a page."""
    target, bar, display = content.partition("|")
    target = unmarked(target).strip()
    shown_on_purpose = target.startswith(":")
    target = target.lstrip(":")
    prefix, colon, rest = target.partition(":")
    is_file_or_such = bool(colon) and prefix.strip().lower() in _DROPPED_NAMESPACES
    if not shown_on_purpose and (is_file_or_such or (colon and not bar and _LANGUAGE_PREFIX.match(target))):
        return trail
    if bar and display.strip():
        words = display
    else:
        if colon and _INTERWIKI.match(target):
            target = rest
        page, _, section = target.partition("#")
        words = _without_detail(target) if bar else (page or section).replace("_", " ")
    return words + trail if is_file_or_such or not words.strip() else marked(words + trail)


def _without_detail(title: str) -> str:
    """MediaWiki's pipe trick: "Boston (England)" and "Boston, Massachusetts" are both read "Boston"."""
    opening = title.rfind("(") if title.endswith(")") else -1
    if ")" in title[opening:-1]:
        opening = -1
    places = (opening, title.find(",", title.rfind("\n") + 1))
    return title[: min((place for place in places if place >= 0), default=len(title))].rstrip()


def _words_of_link(match: re.Match[str]) -> str:
    return match[1] or ""


def _tag(match: re.Match[str]) -> str:
    name = match[1].lower()
    if name in _BLOCK_TAGS:
        return "\n"
    return " " if name == "br" or name in _CELL_TAGS else ""


def _links(prose: Anchored) -> tuple[Span, ...]:
    """The places of the anchors that have words in one line, without white space around them."""
    links: list[Span] = []
    for start, end in prose.anchors:
        words = prose.text[start:end]
        stripped = words.strip()
        if stripped and "\n" not in stripped:
            start += len(words) - len(words.lstrip())
            links.append((start, start + len(stripped)))
    return tuple(links)


def _sections(text: Anchored, language: str) -> tuple[Anchored, tuple[Section, ...]]:
    bodies: list[tuple[str, list[Anchored]]] = [("", [])]
    path: list[tuple[int, str]] = []  # open headings with their levels
    for line in text.lines():
        level, heading = _heading(line.text)
        if level:
            path = [(outer, title) for outer, title in path if outer < level]
            path.append((level, _plain(Anchored(heading, []), language).text))
            bodies.append((" › ".join(title for _, title in path if title), []))
        elif not any(title.lower().strip(" :.") in _DROPPED_SECTIONS for _, title in path):
            bodies[-1][1].append(line)
    prose: list[Anchored] = []
    sections: list[Section] = []
    length = 0
    for heading_path, lines in bodies:
        body = _body(lines, language)
        if not body.text:
            continue
        if prose:
            length += 1  # the line break before it
        if heading_path:
            sections.append(Section(tidy_line(heading_path), length))
        prose.append(body)
        length += len(body.text)
    return join_anchored("\n", prose), tuple(sections)


def _heading(line: str) -> tuple[int, str]:
    """Level (2 to 6) and words of a heading line; level 0 for any other."""
    line = line.strip()
    if not (line.startswith("==") and line.endswith("==")):
        return 0, ""
    without_left = line.lstrip("=")
    words = without_left.rstrip("=")
    level = min(len(line) - len(without_left), len(without_left) - len(words), 6)
    return (level, words.strip()) if level >= 2 and words.strip() else (0, "")


def _body(lines: list[Anchored], language: str) -> Anchored:
    paragraphs: list[list[Anchored]] = []
    continues = False  # a line break inside a paragraph is a space
    for raw_line in lines:
        line = raw_line.strip()
        if not line.text:
            continues = False
            continue
        if line.text.startswith(("|", "!", "{|", "----")) or _HATNOTE.fullmatch(line.text):
            continue  # rests of broken tables, horizontal rules, notes to the reader
        item = _LIST_MARKS.match(line.text)
        line = _plain(line.cut(item.end(), len(line.text)) if item else line, language)
        if not any(map(str.isalnum, line.text)):
            continues = False
            continue
        if item:  # a sentence, as in other formats
            line = join_anchored("", [line, Anchored(sentence(line.text).removeprefix(line.text), [])])
        if continues and not item:
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line])
        continues = item is None
    return _tidied(join_anchored("\n", [join_anchored(" ", paragraph) for paragraph in paragraphs]), language)


def _plain(line: Anchored, language: str) -> Anchored:
    """A line without quotation marks for bold and italics, entities and stray brackets."""
    rules: Substitutions = ((_QUOTES, _apostrophes), (_RESIDUE, ""), (_ENTITY, _character), (_HIDDEN_CHARACTER, _shown))
    return _tidied(line.edited(rules), language)


def _apostrophes(match: re.Match[str]) -> str:
    """Those of a run that are not for bold or italics."""
    length = len(match[0])
    return "'" * (1 if length == 4 else max(0, length - 5))


def _character(match: re.Match[str]) -> str:
    return html.unescape(match[0])


def _shown(match: re.Match[str]) -> str:
    return _SHOWN[match[0]]


def _tidied(text: Anchored, language: str) -> Anchored:
    return text.edited(TIDYING).strip().edited(gap_closing(language))
