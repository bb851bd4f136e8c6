"""Texts that do harm where they are taken for something else than text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.nightly import NIGHTLY

_MEGABYTE: Final = 1 << 20

TEXTS: Final = {
    "markup": '<h1 onmouseover="alert(1)">Big</h1><img src=x onerror=alert(1)>',
    "script": "</title></textarea></script><script>alert(1)</script>",
    "attribute": "\" autofocus onfocus='alert(1)' x=`",
    "entities": "&lt;script&gt;alert(1)&lt;/script&gt; &amp;#60;",
    "template": "{{ 7*7 }}{% debug %}{{ settings.SECRET_KEY }}${7*7}#{7*7}",
    "format": "%s%n%(asctime)s {0.__class__} {message} $(id) `id`",
    "SQL": "'; DROP TABLE webapp_askedanswer; --",
    "SQL condition": "' OR '1'='1' UNION SELECT password FROM auth_user /*",
    "wildcards": "%_%\\_[^a]*?",
    "right to left": "\u202egnp.\u202cexe \u2066abc \u05d0\u05d1\u05d2",
    "zero width": "a\u200bb\u200dc\u2060d\ufeffe\u00adf",
    "NUL": "before\x00after",
    "controls": "\x1b[31mred\x1b[0m\x07\x08\x7f\x85\u2028",
    "half a surrogate pair": "a\ud800b\udfffc",
    "noncharacters": "\uffff\ufffe\U0010ffff",
    "line breaks": "x\r\nSet-Cookie: sessionid=stolen\r\n\r\n<p>2026-01-01 00:00:00 ERROR root: forged\n",
    "path": "../../../../../../etc/passwd",
    "encoded path": "..%2f..%2f..%c0%af..\\..\\windows\\win.ini",
    "address": "javascript:alert(document.domain)",
    "address of a machine": "http://169.254.169.254/latest/meta-data/",
    "number": "9" * 4400,
    "megabyte": "x" * (_MEGABYTE - 4096),
    "combining marks": "e" + "\u0301" * 100_000,
}
# What a form sends, as a browser would: UTF-8 has no halves of surrogate pairs.
TYPED: Final = {name: text for name, text in TEXTS.items() if name != "half a surrogate pair"}
# What fits into an address.
SHORT: Final = {name: text for name, text in TYPED.items() if len(text) < 5000}

_TURNS: Final = 12


def some(texts: Mapping[str, str], turn: int) -> list[tuple[str, str]]:
    """Every twelfth of the texts with its name, from number `turn` on; all of them at night."""
    return list(texts.items()) if NIGHTLY else list(texts.items())[turn % _TURNS :: _TURNS]


def in_turn(texts: Mapping[str, str], turn: int) -> list[Any]:
    """Parameters of a test: every twelfth of the texts, from number `turn` on; the others are nightly.

    Tests with different turns share the texts among them, so each text is tried somewhere every time.
    """
    return [
        pytest.param(text, id=name, marks=() if number % _TURNS == turn % _TURNS else pytest.mark.nightly)
        for number, (name, text) in enumerate(texts.items())
    ]
