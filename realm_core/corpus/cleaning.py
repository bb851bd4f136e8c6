"""Raw articles of a source → clean articles of a snapshot."""

from __future__ import annotations

from realm_core.corpus.prose import tidy, tidy_line, without_surrogates
from realm_core.corpus.records import Article, RawArticle, Section, Span
from realm_core.corpus.wikitext import to_prose

_MAX_URL_CHARACTERS = 2048


def article_of(raw: RawArticle) -> tuple[Article, tuple[Span, ...]] | None:
    """The clean article and the places of its links; None if nothing of its text is left, or its title is blank."""
    title = tidy_line(raw.title)
    sections: tuple[Section, ...] = ()
    links: tuple[Span, ...] = ()
    if raw.markup == "wikitext":
        text, sections, links = to_prose(raw.text, raw.language)
    else:
        text = tidy(raw.text)
    if not title or not text:
        return None
    # The address becomes a link on a page: nothing but the web's own schemes may stand there.
    url = tidy_line(raw.url, _MAX_URL_CHARACTERS) if raw.url.startswith(("https://", "http://")) else ""
    return Article(without_surrogates(raw.id), title, url, text, sections), links
