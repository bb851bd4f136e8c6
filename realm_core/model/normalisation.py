"""The ways in which a reader's span scores become probabilities; `marginal.py` has their formulas."""

from __future__ import annotations

from typing import Literal

Normalisation = Literal["joint", "block", "block+null"]
