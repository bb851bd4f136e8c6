"""The article of a block, with the block highlighted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from realm_core.corpus.records import Article, Block, Section
from webapp.access.collections import access_of
from webapp.access.roles import Action
from webapp.articles import service as articles
from webapp.asking.history import readable_answers
from webapp.asking.shown import Passage
from webapp.models import AskedAnswer
from webapp.pages.guards import allowed
from webapp.serving import pdf_places

_PATH = " › "  # between a heading and its parents
_DEEPEST = 4  # levels of headings with a style of their own


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `inside` is the part of it that belongs to the block, with the answer marked."""

    before: str
    inside: Passage | None
    after: str
    first: bool  # the block starts here


@dataclass(frozen=True)
class ArticleSection:
    """A section of the article; the lead has no heading."""

    heading: str
    level: int
    paragraphs: tuple[Paragraph, ...]


@allowed(Action.READ)
@require_safe
def block(request: HttpRequest, block_id: str) -> HttpResponse:
    """The article of a block. `answer` is the answer that one comes from: its words are marked as well."""
    asked = _asked(request, request.GET.get("answer", ""))
    start, end = _span(asked, block_id)
    hidden = access_of(request.user).hidden
    source = articles.find(block_id, asked, hidden=hidden)
    if source is not None:
        parts = list(article_parts(source.article, source.block, start, end))
        here = {"block_id": block_id, "section": source.block.section, "start": start}
        original = pdf_places.of_evidence([here], hidden).get(block_id)
        shown = {"source": source, "parts": parts, "asked": asked, "original": original}
        return render(request, "article/article.html", shown)
    copy = articles.kept_copy(block_id, asked, readable_answers(request), hidden)
    if copy is None:
        raise Http404
    passage = Passage.cut(copy.text, start, end)
    return render(
        request,
        "article/copy.html",
        {"copy": copy, "passage": passage, "asked": asked, "rights": articles.rights_of_copy(copy)},
    )


def article_parts(article: Article, block: Block, start: int | None, end: int | None) -> Iterator[ArticleSection]:
    """Split an article at its sections and paragraphs, and these at the block and at the answer.

    start, end: the answer's characters within the block, None if there is no answer.
    """
    answer = (block.start + start, block.start + end) if start is not None and end is not None else None
    shown: dict[str, int] = {}
    starts = [Section("", 0), *article.sections]
    for number, section in enumerate(starts):
        path, first = section.heading, section.start
        last = starts[number + 1].start if number + 1 < len(starts) else len(article.text)
        if article.says_heading(section):  # it is shown as a heading, not once more as a paragraph
            start_of_text = article.text.find("\n", first, last) + 1 or first
            if first <= block.start < start_of_text:
                block = replace(block, start=start_of_text)
            first = start_of_text
        above, _, own = path.rpartition(_PATH)
        heading, level = (own, shown[above] + 1) if above in shown else (path, 2)
        if path:
            shown[path] = level
        paragraphs = tuple(_paragraphs(article.text, first, last, block, answer))
        if paragraphs:
            yield ArticleSection(heading, min(level, _DEEPEST), paragraphs)


def _paragraphs(text: str, first: int, last: int, block: Block, answer: tuple[int, int] | None) -> Iterator[Paragraph]:
    position = first
    for line in text[first:last].splitlines(keepends=True):
        start, end = position, position + len(line)
        position = end
        if not line.strip():
            continue
        block_start, block_end = max(start, block.start), min(end, block.end)
        if block_start >= block_end:
            yield Paragraph(line, None, "", False)
            continue
        inside = Passage(text[block_start:block_end], "", "")
        if answer is not None:
            answer_start, answer_end = max(block_start, answer[0]), min(block_end, answer[1])
            if answer_start < answer_end:
                inside = Passage.cut(text[block_start:block_end], answer_start - block_start, answer_end - block_start)
        yield Paragraph(text[start:block_start], inside, text[block_end:end], start <= block.start)


def _asked(request: HttpRequest, identity: str) -> AskedAnswer | None:
    try:
        answer_id = UUID(identity)
    except ValueError:
        return None
    return readable_answers(request).select_related("deployment__index__corpus").filter(pk=answer_id).first()


def _span(asked: AskedAnswer | None, block_id: str) -> tuple[int | None, int | None]:
    """The position of the answer of `asked` in the block."""
    for evidence in asked.payload["evidence"] if asked else ():
        if evidence["block_id"] == block_id:
            return evidence["start"], evidence["end"]
    return None, None
