"""Our AdamW is torch's, bit for bit, and loads no compiler."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from realm_core.training.adamw import AdamW
from tests.core.processes import TOP

EPSILON = 1e-6


def module() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(7, 5), nn.LayerNorm(5), nn.Linear(5, 3))


def groups(of: nn.Module) -> list[dict[str, Any]]:
    """Matrices decay; vectors learn more slowly; the last module learns in every other step alone."""
    parameters = list(of.parameters())
    return [
        {"params": [one for one in parameters if one.dim() > 1], "lr": 0.1, "weight_decay": 0.01},
        {"params": [one for one in parameters if one.dim() == 1], "lr": 0.01, "weight_decay": 0.0},
    ]


def test_it_moves_what_torchs_would_to_the_same_bits() -> None:
    ours, theirs = module(), module()
    own = AdamW(groups(ours), epsilon=EPSILON)
    wanted = torch.optim.AdamW(groups(theirs), eps=EPSILON, fused=True)
    for step in range(5):
        for group in (*own.groups, *wanted.param_groups):
            group["lr"] *= 0.9
        for one in (ours, theirs):
            hidden = one[:2](torch.full((4, 7), 0.5 + step))
            (one[2](hidden) if step % 2 else hidden).pow(2).sum().backward()
        own.step()
        wanted.step()
        own.forget_gradients()
        wanted.zero_grad()
        assert all(one.grad is None for one in ours.parameters())
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)
            state, others = own.state[one], wanted.state[other]
            assert state.keys() == others.keys()
            assert all(torch.equal(state[name], others[name]) for name in state)


@pytest.mark.nightly
def test_a_training_loads_no_compiler() -> None:
    program = """
import sys, torch
from realm_core.training.adamw import AdamW
one = torch.nn.Linear(2, 2)
one(torch.ones(1, 2)).sum().backward()
torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0)
AdamW([{"params": list(one.parameters()), "lr": 0.1, "weight_decay": 0.0}], epsilon=1e-6).step()
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
