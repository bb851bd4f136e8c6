"""Where long work rests, and for how long: between the pieces of what it reads and copies."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from realm_core import computing, pace
from realm_core.files import sha256_of_file
from realm_core.pace import Rests, low_priority, may_rest
from realm_core.tensors import copied, fill

MIB = 1 << 20


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that rested, in order: at every place where they may."""
    rested = list[int]()
    monkeypatch.setattr(Rests, "rest", lambda self: rested.append(threading.get_ident()))
    return rested


def test_only_the_thread_that_said_so_rests(rests: list[int]) -> None:
    may_rest()
    with low_priority():
        with low_priority():
            may_rest()
        may_rest()
        other = threading.Thread(target=may_rest)
        other.start()
        other.join()
    may_rest()
    assert rests == [threading.get_ident()] * 2


def test_a_file_is_read_with_rests_between_its_pieces(tmp_path: Path, rests: list[int]) -> None:
    content = bytes(range(256)) * (20 * MIB // 256)
    path = tmp_path / "file"
    path.write_bytes(content)
    with low_priority():
        assert sha256_of_file(path) == hashlib.sha256(content).hexdigest()
    assert len(rests) >= 20  # no piece is longer than a mebibyte, which is hashed within a millisecond or two


def test_what_found_pauses_rests_longer_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as long as it has worked, in all; how long at once is whatever of it was not yet needed."""
    now, most, quiet_after_s = 0.0, list[float](), iter((0.02, 0.02, math.inf, math.inf))

    def wait(most_s: float) -> None:
        nonlocal now
        most.append(most_s)
        now += min(most_s, next(quiet_after_s))

    monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(pace, "_wait_for_quiet", wait)
    monkeypatch.setattr(pace, "_RESTS", 10)
    working = Rests()
    for _ in range(4):
        now += 0.01
        working.rest()
    assert most == pytest.approx([0.1, 0.18, 0.26, 0.1])
    assert now == pytest.approx(0.04 * 11)
    now += 0.001
    working.rest()
    assert len(most) == 4  # it has only just begun to work again


def test_the_computing_module_sets_how_long_others_rest() -> None:
    assert pace._wait_for_quiet is computing.wait_for_quiet


def test_without_anybody_who_computes_nothing_rests() -> None:
    """In a process that never loads torch, as one of a worker."""
    code = (
        "import sys, time; from realm_core.pace import may_rest, low_priority\n"
        "with low_priority():\n"
        "    began = time.perf_counter()\n"
        "    while time.perf_counter() < began + 0.05:\n"
        "        may_rest()\n"
        "    assert time.perf_counter() < began + 0.5\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3000, 1100), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
def test_a_copy_in_pieces_is_what_torch_makes_at_once(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    tensor = torch.randint(-128, 128, shape).to(dtype)
    for wanted in (torch.float32, torch.bfloat16):
        copy = copied(tensor, wanted)
        assert copy.dtype == wanted and torch.equal(copy, tensor.to(wanted))
        assert copy.data_ptr() != tensor.data_ptr() or copy.numel() == 0


def test_values_of_another_shape_are_refused() -> None:
    with pytest.raises((RuntimeError, ValueError)):
        fill(torch.zeros(5), torch.zeros(6))
