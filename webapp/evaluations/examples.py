"""Examples of evaluated questions, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

PREDICTION: Final[dict[str, Any]] = {
    "number": 3,
    "outcome": "wrong",
    "question": "Who wrote the screenplay of 2001: A Space Odyssey?",
    "answers": ["Arthur C. Clarke", "Stanley Kubrick"],
    "prediction": "1968",
    "given": False,
    "probability": 0.12,
    "no_answer_probability": 0.61,
    "confidence": 0.08,
    "answer_rank": 1,
    "blocks": ["2001: A Space Odyssey", "HAL 9000"],
    "cause": "misread",
}
