"""Checks this machine's arithmetic and measures its speed: `python -m realm_core selfcheck`

Compares the device's results (vectors, words, spans, gradients, search) with float64 on the CPU, then measures speeds.
It needs neither a corpus nor a model nor the web application, only torch and transformers. Exit status 1 if a check
failed.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import math
import platform
from typing import Any

import torch

from realm_core.model.device import pick_device
from realm_core.runs.activity import Activity
from realm_core.selfcheck.checks import DeviceCheck, run_checks
from realm_core.selfcheck.networks import Networks, default_networks, draw_sample
from realm_core.selfcheck.speed import K, Speed, measure_speed
from realm_core.selfcheck.tasks import SelfCheck

EXIT_FAILED = 1


def main(task: SelfCheck, activity: Activity) -> None:
    """Check, measure, print; `SystemExit` with status 1 if a check failed."""
    device = pick_device(task.device)
    networks = default_networks(task.base)
    machine = _machine(device)
    if not task.as_json:
        print(f"{machine['device']}; torch {machine['torch']}, transformers {machine['transformers']}; {networks.name}")
    sample = draw_sample(networks.config, sentences=2, k=3, query=(8, 40), body=(16, 200), masks=3)
    checks = []
    for check in run_checks(networks, sample, device):
        activity.check()
        checks.append(check)
        if not task.as_json:
            print(_line(check), flush=True)
    passed = all(check.passed for check in checks)
    speed = measure_speed(networks, device, task.seconds)
    report = {
        "format": 1,
        "machine": machine,
        "passed": passed,
        "checks": [
            {
                **dataclasses.asdict(check),
                "error": check.error if math.isfinite(check.error) else None,  # JSON has neither NaN nor infinity
                "passed": check.passed,
            }
            for check in checks
        ],
        "speed": {"weights": networks.name, **dataclasses.asdict(speed)},
    }
    activity.result(report)
    print(json.dumps(report, indent=1) if task.as_json else _speed_lines(speed, networks))
    if not passed:
        raise SystemExit(EXIT_FAILED)


def _machine(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "device": f"{device.type} ({name})",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
    }


def _line(check: DeviceCheck) -> str:
    verdict = "ok  " if check.passed else "FAIL"
    line = f"{verdict}  {check.what:<24} {check.way:<36} {check.error:8.1e}  (limit {check.limit:.1e})  {check.raised}"
    return line.rstrip()


def _speed_lines(speed: Speed, networks: Networks) -> str:
    config = networks.config
    return "\n".join(
        [
            f"{networks.name}: {config.num_hidden_layers} layers, width {config.hidden_size}, {speed.dtype}",
            f"  matrix peak    {speed.peak_flops / 1e12:10.3f} TFLOP/s",
            f"  embedding      {speed.blocks_per_s:10.1f} blocks/s, {speed.embedding_share:.0%} of the peak",
            f"  pre-training   {speed.sequences_per_s:10.2f} sequences/s with {K} blocks each, "
            f"{speed.training_share:.0%} of the peak",
            f"  memory         {speed.memory_bytes / 2**30:10.2f} GiB at most",
        ]
    )
