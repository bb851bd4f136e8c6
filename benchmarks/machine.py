"""What was measured on: processors, versions, and how fast the machine multiplies matrices at most."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import torch

from realm_core.model.bert import Architecture
from realm_core.model.device import fast_dtype
from realm_core.selfcheck.speed import fastest_product_s

_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "faiss-cpu", "Django", "gunicorn")
_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "bf16", "sve")
_CPU = torch.device("cpu")


def describe() -> dict[str, Any]:
    """Processors, their capabilities, memory, versions. Nothing that names the machine or its owner."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _cpuinfo("model name"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "flags": [flag for flag in _FLAGS if flag in (_cpuinfo("flags") or _cpuinfo("Features")).split()],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "threads": torch.get_num_threads(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {package: version for package in _PACKAGES if (version := _version(package))},
    }


def now() -> str:
    """The present moment, as results tell when they were made."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpuinfo(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.split(":")[0].strip() == key), "")


# ── Matrix peak ─────────────────────────────────────────────────────────────────────────────────────────────────────


def layer_shapes(config: Architecture, rows: int) -> list[tuple[int, int, int, int]]:
    """Products of one BERT layer over `rows` wordpieces: (how many, m, k, n) of [m, k] × [k, n]."""
    width, inner = config.hidden_size, config.intermediate_size
    return [(4, rows, width, width), (1, rows, width, inner), (1, rows, inner, width)]


def matrix_rates(config: Architecture, *, rows: int, large: int, seconds: float) -> dict[str, dict[str, float]]:
    """GFLOP/s of torch.mm by dtype (float32, and bfloat16 where the processor multiplies it): `large` square matrices,
    and the encoder's own products taken together.

    rows: wordpieces of a batch; seconds: how long each shape is tried; the fastest try counts.
    """
    rates = {}
    for dtype in sorted({fast_dtype(_CPU), torch.float32}, key=str):
        flops = time_s = 0.0
        for count, m, k, n in layer_shapes(config, rows):
            flops += count * 2.0 * m * k * n
            time_s += count * fastest_product_s((m, k, n), dtype, _CPU, seconds)
        best_s = fastest_product_s((large, large, large), dtype, _CPU, seconds)
        rates[str(dtype).removeprefix("torch.")] = {
            "large_gflops": 2.0 * large**3 / best_s / 1e9,
            "encoder_shapes_gflops": flops / time_s / 1e9,
        }
    return rates
