"""Formatting and drawing of probabilities.

Bars are SVG whose widths are attributes, because a strict Content-Security-Policy forbids style attributes. The number
beside a bar says the same, so assistive technology skips the bar.
"""

from __future__ import annotations

import math

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_EXPONENT = 700.0  # exp of more overflows

# The words for a probability, each with its lower bound (from 0 to 1).
WORDS: tuple[tuple[float, str], ...] = (
    (0.95, "almost certain"),
    (0.80, "very likely"),
    (0.60, "likely"),
    (0.40, "as likely as not"),
    (0.20, "rather unlikely"),
    (0.05, "unlikely"),
    (0.0, "very unlikely"),
)


@register.filter
def in_words(probability: float) -> str:
    """The probability in words, by the scale `WORDS`."""
    return next(words for least, words in WORDS if probability >= least)


@register.filter
def percent(probability: float | None) -> str:
    """With one decimal: 0.8312 → "83.1 %". A positive value that would be rounded to zero is "< 0.1 %"."""
    if probability is None:
        return "–"
    if 0 < probability < 0.0005:
        return "< 0.1\N{NO-BREAK SPACE}%"
    return tenths(round(probability * 1000))


@register.filter
def fine_percent(probability: float) -> str:
    """As `percent`, but with two significant digits if small: 0.00037 → "0.037 %", 1.1e-14 → "1.1 × 10⁻¹² %"."""
    if probability == 0 or probability >= 0.001:
        return percent(probability)
    digits = scientific(100 * probability) if probability < 0.000005 else f"{100 * probability:.2g}"
    return f"{digits}\N{NO-BREAK SPACE}%"


def scientific(value: float) -> str:
    """Two digits and a power of ten: 0.00021 → "2.1 × 10⁻⁴"."""
    digits, _, power = f"{value:.1e}".partition("e")
    space = "\N{NO-BREAK SPACE}"
    return f"{digits}{space}×{space}10{str(int(power)).translate(_RAISED)}"


@register.filter
def tenths(value: int) -> str:
    """Tenths of a percent, already rounded: 831 → "83.1 %"."""
    return f"{value / 10:.1f}\N{NO-BREAK SPACE}%"


@register.filter
def whole_percent(probability: float) -> str:
    """Without decimals: 0.95 → "95 %". What is not certain is not written as if it were: 0.997 → "> 99 %"."""
    number = round(100 * probability)
    if number == 100 and probability < 1:
        return "> 99\N{NO-BREAK SPACE}%"
    if number == 0 and probability > 0:
        return "< 1\N{NO-BREAK SPACE}%"
    return f"{number}\N{NO-BREAK SPACE}%"


@register.filter
def signed(value: float, decimals: int = 2) -> str:
    """With two decimals and always with its sign: 3.555 → "+3.56"."""
    rounded = f"{abs(value):.{decimals}f}"
    sign = "±" if float(rounded) == 0 else "+" if value > 0 else "\N{MINUS SIGN}"
    return sign + rounded


@register.filter
def times(utility: float) -> str:
    """A difference of logarithms in words: log 35 → "35 times as likely as", −log 4 → "4.0 times less likely than"."""
    if abs(utility) < 0.05:
        return "about as likely as"
    if abs(utility) > math.log(10_000):
        factor = scientific(math.exp(min(abs(utility), _MOST_EXPONENT)))
    else:
        factor = f"{math.exp(abs(utility)):,.{1 if abs(utility) < math.log(9.95) else 0}f}"
    return f"{factor} times {'as likely as' if utility > 0 else 'less likely than'}"


@register.filter
def points(value: int) -> str:
    """A difference in tenths of a percentage point, always with its sign: -52 → "−5.2"."""
    return signed(value / 10, 1)


@register.simple_tag
def bar(identity: str, kind: str, value: float) -> SafeString:
    """A bar from 0 to 1. `identity` is unique in the page: a bar that htmx replaces is animated from its old width."""
    return format_html(
        '<svg class="bar bar--{}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="bar__track" width="100" height="6"/>'
        '<rect class="bar__value" id="{}" width="{}" height="6"/></svg>',
        kind,
        identity,
        f"{100 * min(max(value, 0.0), 1.0):.2f}",
    )


@register.simple_tag
def diverging_bar(identity: str, value: float) -> SafeString:
    """A bar from −1 to 1 that grows to the left or right of its middle."""
    size = 100 * min(abs(value), 1.0)
    return format_html(
        '<svg class="bar bar--support {}" viewBox="-100 0 200 6" preserveAspectRatio="none" aria-hidden="true" '
        'focusable="false"><rect class="bar__track" x="-100" width="200" height="6"/>'
        '<rect class="bar__value" id="{}" x="{}" width="{}" height="6"/>'
        '<rect class="bar__middle" x="-0.6" width="1.2" height="6"/></svg>',
        "bar--against" if value < 0 else "bar--for",
        identity,
        f"{-size if value < 0 else 0.0:.2f}",
        f"{size:.2f}",
    )


@register.simple_tag
def figure(value: float, rounded: int | None = None, decimals: int = 1) -> SafeString:
    """A probability with its exact value in an attribute.

    rounded: if it is part of a sum: in tenths of a percent, or in units of 10^−decimals percent. A positive value that
    was rounded to zero is "< 0.1 %", as `percent` has it.
    """
    if rounded is None:
        shown = percent(value)
    elif rounded == 0 and value > 0:
        shown = f"< {10**-decimals:.{decimals}f}\N{NO-BREAK SPACE}%"
    else:
        shown = f"{rounded / 10**decimals:.{decimals}f}\N{NO-BREAK SPACE}%"
    return format_html('<data class="num" value="{}">{}</data>', repr(float(value)), shown)


@register.simple_tag
def whole_figure(value: float) -> SafeString:
    """As `figure`, without decimals: for values that were measured on only a few hundred questions."""
    return format_html('<data class="num" value="{}">{}</data>', repr(float(value)), whole_percent(value))


@register.simple_tag
def fine_figure(value: float) -> SafeString:
    """As `figure`, written by `fine_percent`."""
    return format_html('<data class="num" value="{}">{}</data>', repr(float(value)), fine_percent(value))


@register.simple_tag
def signed_figure(value: float) -> SafeString:
    """A number with its exact value in an attribute, written by `signed`."""
    return format_html('<data class="num" value="{}">{}</data>', repr(float(value)), signed(value))


@register.simple_tag
def points_figure(value: float, rounded: int) -> SafeString:
    """A difference of probabilities, as `figure`."""
    return format_html('<data class="num" value="{}">{}</data>', repr(float(value)), points(rounded))


@register.filter
def seconds(milliseconds: float) -> str:
    """A duration in readable form: 312.4 → "0.31 s", 4.2 → "4 ms"."""
    if milliseconds < 100:
        return f"{milliseconds:.0f}\N{NO-BREAK SPACE}ms"
    return f"{milliseconds / 1000:.2f}\N{NO-BREAK SPACE}s"
