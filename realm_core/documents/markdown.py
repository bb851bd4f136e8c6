"""Markdown as CommonMark has it, with tables; headings become sections, front matter gives title and language."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from realm_core.corpus.grid import Cell
from realm_core.documents.draft import Draft
from realm_core.documents.html import instead_of_tag, read_fragment

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?P<lines>.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_STATED = re.compile(r"(?P<key>title|lang|language)\s*:\s*(?P<value>.+)")


def read_markdown(text: str, draft: Draft) -> None:
    """Read headings, paragraphs, lists, tables and code; pieces of HTML as HTML is read."""
    text = text.replace("\r\n", "\n")
    matter = _FRONT_MATTER.match(text)
    if matter is not None:
        _read_front_matter(matter["lines"], draft)
        text = text[matter.end() :]
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    if not draft.title:
        draft.title = _only_title(tokens)
    _read_tokens(tokens, draft)


def _read_front_matter(lines: str, draft: Draft) -> None:
    for line in lines.split("\n"):
        stated = _STATED.fullmatch(line.strip())
        if stated is None:
            continue
        value = stated["value"].strip().strip("\"'")
        if stated["key"] == "title":
            draft.title = value
        else:
            draft.language = value


def _only_title(tokens: Sequence[Token]) -> str:
    """The one heading of the first level; a document with several has no title of its own."""
    titles = [
        _plain(tokens[number + 1].children or [])
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h1"
    ]
    return titles[0] if len(titles) == 1 else ""


def _read_tokens(tokens: Sequence[Token], draft: Draft) -> None:
    level = lists = 0
    rows: list[list[Cell]] = []
    in_table = heads = False
    pieces: list[str] = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            level = int(token.tag[1])
        elif token.type == "heading_close":
            level = 0
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            lists += 1
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            lists -= 1
        elif token.type == "table_open":
            in_table, rows = True, []
        elif token.type == "table_close":
            in_table = False
            draft.table(rows)
        elif token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            heads = token.type == "th_open"
        elif token.type == "inline":
            words = _plain(token.children or [])
            for child in token.children or []:
                if child.type == "link_open":
                    draft.link(str(child.attrs.get("href", "")))
            if in_table:
                rows[-1].append(Cell(words, heads))
            elif level:
                draft.heading(level, words)
            elif lists:
                draft.item(words)
            else:
                draft.paragraph(words)
        elif token.type in ("fence", "code_block"):
            draft.paragraph(token.content)
        elif token.type == "html_block":
            pieces.append(token.content)
            if (
                number + 1 == len(tokens) or tokens[number + 1].type != "html_block"
            ):  # a blank line divides a table, too
                read_fragment("\n".join(pieces), draft)
                pieces.clear()


def _plain(tokens: Sequence[Token]) -> str:
    """The text of inline tokens; of an image, its description."""
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type == "softbreak":
            parts.append(" ")
        elif token.type == "hardbreak":
            parts.append("\n")
        elif token.type == "html_inline":
            parts.append(instead_of_tag(token.content))
        elif token.type == "image":
            parts.append(_plain(token.children or []))
    return "".join(parts)
