"""Tags of the frame around every page: navigation and attribution."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from django import template
from django.db import DatabaseError
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from realm_core.text.masked import MASK, between_masks
from webapp.serving.pdf_places import page_of

register = template.Library()

_ARCHIVED = re.compile(r"https?://web\.archive\.org/web/\w+/(?P<original>https?://[^/]+/.*)")
_FACTBOOK = "cia.gov/the-world-factbook/"
_LICENCE_PAGES = {
    "CC BY-SA 4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "CC-BY-SA-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "CC BY-SA 3.0": "https://creativecommons.org/licenses/by-sa/3.0/",
    "CC-BY-SA-3.0": "https://creativecommons.org/licenses/by-sa/3.0/",
}


@register.simple_tag(takes_context=True)
def nav_link(context: dict[str, Any], name: str, label: str) -> SafeString:
    """A link, marked on its page and on those below it; answers, which asking leads to, are below Ask."""
    address, path = reverse(name), context["request"].path
    here = path == address or path.startswith("/answers/" if name == "ask" else address)
    return format_html('<a href="{}"{}>{}</a>', address, mark_safe(' aria-current="page"') if here else "", label)


@register.inclusion_tag("_attribution.html")
def corpus_attribution() -> dict[str, Any]:
    """The attribution of the corpus that is being served."""
    from webapp.models import CorpusSnapshot

    # No order, and the columns that are shown: all that a deployment joins would take Django three times as long.
    served = CorpusSnapshot.every.filter(indexes__deployments__is_active=True).order_by()
    try:
        found = list(served.values("name", "licence", "attribution")[:1])
    except DatabaseError:  # the page is useful without it
        found = []
    return {"corpus": found[0] if found else None}


@register.filter
def licence_page(licence: str) -> str:
    """Address of a licence's text, empty for an unknown one."""
    return _LICENCE_PAGES.get(licence.strip(), "")


@register.filter
def web_address(address: str) -> str:
    """The address if its scheme is http or https, empty otherwise: a corpus is data and may say `javascript:`."""
    try:
        return address if urlsplit(address).scheme in {"http", "https"} else ""
    except ValueError:  # such as an unclosed bracket
        return ""


@register.filter
def site(address: str) -> str:
    """What readers know the source at a `web_address` by: its host without "www.", or its name; empty if there is none.

    Of a copy in an archive it is that of the original.
    """
    if (copy := _ARCHIVED.match(address)) and (original := site(copy["original"])):
        return f"{original} (archived)"
    parts = urlsplit(web_address(address))
    host = (parts.hostname or "").removeprefix("www.")
    return "The World Factbook" if f"{host}{parts.path}".startswith(_FACTBOOK) else host


@register.filter
def pdf_page(address: str, section: str) -> str:
    """The address of the page of a PDF that a section's name ends with; empty where it is no such one.

    Viewers open `#page=3` at the third page (RFC 8118, section 3).
    """
    page = page_of(section)
    web = web_address(address)
    if page is None or not web or "pdf" not in urlsplit(web).path.lower():
        return ""
    return f"{web.partition('#')[0]}#page={page}"


@register.filter
def with_code(text: str) -> SafeString:
    """The text with parts between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick
        return format_html("{}", text)
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if i % 2 else part,) for i, part in enumerate(parts))
    )


@register.filter
def is_wikipedia(address: str) -> bool:
    """Whether a `web_address` is a page of Wikipedia, in any language."""
    host = urlsplit(address).hostname or ""
    return host == "wikipedia.org" or host.endswith(".wikipedia.org")


@register.filter
def contributors(address: str) -> str:
    """The page on Wikipedia that names an article's authors."""
    return f"{address.partition('#')[0]}?action=history"


@register.filter
def with_gaps(sentence: str) -> SafeString:
    """A masked sentence with its masks shown as gaps."""
    gap = format_html('<span class="gap">{}</span>', MASK)
    return format_html_join(gap, "{}", ((text,) for text in between_masks(sentence)))


@register.filter
def wordpiece(text: str) -> str:
    """A wordpiece for display: "##mat" → "…mat"."""
    return f"…{text.removeprefix('##')}" if text.startswith("##") else text
