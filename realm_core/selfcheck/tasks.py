"""Checking the machine."""

from __future__ import annotations

from realm_core.index.tasks import DEVICE
from realm_core.task import Task, runtime


class SelfCheck(Task):
    """This machine's arithmetic and speed."""

    activity = "selfcheck"
    summary = "is this machine's arithmetic right, and how fast is it?"
    code = "realm_core.selfcheck.command"

    device: str = runtime("auto", help=DEVICE)
    base: str | None = runtime(None, help="package or folder of BERT weights to check with (default: the models' own)")
    seconds: float = runtime(2.0, help="how long each speed is measured")
    cost: bool = runtime(
        False,
        help="measure speeds with a BERT-base of random weights, and say what the paper's pre-training would cost here",
    )
    as_json: bool = runtime(False, help="print JSON", flag="--json")
