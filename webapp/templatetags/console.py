"""Tags of the console."""

from __future__ import annotations

import json
from typing import Any, Final

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from realm_core.errors import printable
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion, QuestionSet, Schedule, SpanSet
from webapp.templatetags.numbers import signed

register = template.Library()

_PAGES: Final[dict[type, str]] = {
    CorpusSnapshot: "manage-corpus",
    IndexGeneration: "manage-index",
    ModelVersion: "manage-model",
    QuestionSet: "manage-question-set",
    Schedule: "manage-schedule",
    SpanSet: "manage-spans",
}


_FOR_CURATORS: Final = {QuestionSet}


@register.simple_tag(takes_context=True)
def record_link(context: dict[str, Any], record: object, label: str = "") -> SafeString:
    """A record's name, as a link to its page if it has one that the viewer may open."""
    page = _PAGES.get(type(record))
    if page is None:
        return format_html('<span class="muted">{}</span>', label or record)
    if type(record) not in _FOR_CURATORS and not context["rights"].operate:
        return format_html("{}", label or record)
    return format_html('<a href="{}">{}</a>', reverse(page, args=[record.pk]), label or record)  # type: ignore[attr-defined]


@register.filter
def as_json(value: object) -> str:
    """Details of the audit trail, in readable form."""
    return printable(json.dumps(value, ensure_ascii=False, indent=1, default=str))


@register.filter
def difference_points(share: float) -> str:
    """A difference of shares in percentage points, with its sign: -0.021 → "−2.1"."""
    return signed(100 * share, 1)


@register.filter
def minus(first: float, second: float) -> float:
    return first - second
