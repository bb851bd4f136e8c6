"""The check of the machine."""

from __future__ import annotations

from realm_core.index.tasks import DEVICE
from realm_core.task import Task, runtime


class SelfCheck(Task):
    """Check of this machine's arithmetic and speed."""

    activity = "selfcheck"
    summary = "check this machine's arithmetic and measure its speed"
    code = "realm_core.selfcheck.command"

    device: str = runtime("auto", help=DEVICE)
    base: str | None = runtime(None, help="package or folder of BERT weights to check with (default: the models' own)")
    seconds: float = runtime(2.0, help="of each measurement", unit="seconds")
    as_json: bool = runtime(False, help="print JSON", flag="--json")
