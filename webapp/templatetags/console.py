"""Tags of the console."""

from __future__ import annotations

import json
from typing import Final

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from realm_core.settings import printable
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion, QuestionSet, SpanSet

register = template.Library()

_PAGES: Final[dict[type, str]] = {
    CorpusSnapshot: "manage-corpus",
    IndexGeneration: "manage-index",
    ModelVersion: "manage-model",
    QuestionSet: "manage-question-set",
    SpanSet: "manage-spans",
}


@register.simple_tag
def record_link(record: object) -> SafeString:
    """A record's name, as a link to its page where it has one."""
    page = _PAGES.get(type(record))
    if page is None:
        return format_html('<span class="muted">{}</span>', record)
    return format_html('<a href="{}">{}</a>', reverse(page, args=[record.pk]), record)  # type: ignore[attr-defined]


@register.filter
def as_json(value: object) -> str:
    """Details of the audit trail, readable."""
    return printable(json.dumps(value, ensure_ascii=False, indent=1, default=str))


@register.filter
def difference_points(share: float) -> str:
    """A difference of shares in percentage points, with its sign: -0.021 → "−2.1"."""
    rounded = f"{abs(100 * share):.1f}"
    sign = "±" if float(rounded) == 0 else "+" if share > 0 else "\N{MINUS SIGN}"
    return sign + rounded


@register.filter
def minus(first: float, second: float) -> float:
    """first − second."""
    return first - second
