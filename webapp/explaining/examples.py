"""Examples of explanations, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

from webapp.asking.examples import ANSWER

WHY: Final[dict[str, Any]] = {
    "cause": "outweighed",
    "detail": "Block 2 (Arthur C. Clarke) says “Arthur C. Clarke”, which has 19.0\N{NO-BREAK SPACE}% over all blocks; "
    "“Stanley Kubrick” outweighs it with 52.0\N{NO-BREAK SPACE}%, most of it from block 1 (2001: A Space Odyssey).",
    "chosen": {
        "text": "Stanley Kubrick",
        "probability": 0.52,
        "block_id": ANSWER["evidence"][0]["block_id"],
        "title": "2001: A Space Odyssey",
    },
    "right": {
        "text": "Arthur C. Clarke",
        "probability": 0.19,
        "block_id": "2f1e0d9c8b7a69584736251403f2e1d0",
        "title": "Arthur C. Clarke",
    },
    "no_answer_probability": None,
    "rank": None,
    "looked_at": None,
}
