"""The cache's serialiser: JSON instead of Django's pickle."""

from __future__ import annotations

import json
from typing import Any


class JSONSerializer:
    """Converts cache values to bytes and back; integers stay plain so that the server can increment them."""

    def dumps(self, value: Any) -> bytes | int:
        """`value` must be plain JSON: anything else is a `TypeError`."""
        if type(value) is int:
            return value
        return json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        """The inverse of `dumps`."""
        return json.loads(data)
