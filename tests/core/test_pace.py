"""Where long work rests: between the pieces of what it reads and copies."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest
import torch

from realm_core.files import sha256_of_file
from realm_core.pace import may_rest, resting
from realm_core.tensors import copied, fill

MIB = 1 << 20


def test_only_the_thread_that_said_so_rests() -> None:
    rests = list[str]()
    may_rest()
    with resting(lambda: rests.append("outer")):
        with resting(lambda: rests.append("inner")):
            may_rest()
        may_rest()
        other = threading.Thread(target=may_rest)
        other.start()
        other.join()
    may_rest()
    assert rests == ["inner", "outer"]


def test_a_file_is_read_with_rests_between_its_pieces(tmp_path: Path) -> None:
    content = bytes(range(256)) * (20 * MIB // 256)
    path = tmp_path / "file"
    path.write_bytes(content)
    rests = list[None]()
    with resting(lambda: rests.append(None)):
        assert sha256_of_file(path) == hashlib.sha256(content).hexdigest()
    assert len(rests) >= 20  # no piece is longer than a mebibyte, which is hashed within a millisecond or two


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
