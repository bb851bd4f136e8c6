"""Examples of blocks and articles, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

from webapp.asking.examples import ANSWER

_EVIDENCE: Final = ANSWER["evidence"][0]
_RIGHTS: Final = {"licence": "CC BY-SA 4.0", "attribution": "Wikipedia contributors"}
_PLACE: Final = {"section": _EVIDENCE["section"], "start": 0, "end": len(_EVIDENCE["text"])}

BLOCK: Final[dict[str, Any]] = {
    **{name: _EVIDENCE[name] for name in ("block_id", "title", "text", "url")},
    **_RIGHTS,
    "collection": _EVIDENCE["collection"],
    **_PLACE,
    "previous": None,
    "next": None,
    "corpus": ANSWER["corpus"],
}

ARTICLE: Final[dict[str, Any]] = {
    **{name: _EVIDENCE[name] for name in ("title", "text", "url")},
    **_RIGHTS,
    "blocks": [{"block_id": _EVIDENCE["block_id"], **_PLACE}],
    "corpus": ANSWER["corpus"],
}
