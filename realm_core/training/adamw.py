"""AdamW (Loshchilov and Hutter 2019), bit for bit as `torch.optim.AdamW(…, fused=True)` computes it.

To make one of torch's optimisers loads torch's compiler, which takes several times as long as torch itself: of every
training that starts or goes on, and there is nothing to compile.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

_BETAS = (0.9, 0.999)  # of the means of gradients and of their squares


class AdamW:
    """Moves parameters against their gradients.

    groups: `params`, all of one type and on one device, with their `lr` (which may change between steps) and
    `weight_decay`. state: of each parameter that was moved, `step`, `exp_avg` and `exp_avg_sq`, on its device.
    """

    def __init__(self, groups: list[dict[str, Any]], *, epsilon: float) -> None:
        self.groups, self._epsilon = groups, epsilon
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @torch.no_grad()
    def step(self) -> None:
        """One step of every parameter that has a gradient."""
        for group in self.groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moved:
                continue
            states = [self._state(parameter) for parameter in moved]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                moved,
                [parameter.grad for parameter in moved],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=_BETAS[0],
                beta2=_BETAS[1],
                weight_decay=group["weight_decay"],
                eps=self._epsilon,
                amsgrad=False,
                maximize=False,
            )

    def forget_gradients(self) -> None:
        for group in self.groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            for mean in ("exp_avg", "exp_avg_sq"):
                state[mean] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return state
