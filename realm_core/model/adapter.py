"""Low-rank adapters (LoRA; Hu et al., 2022): a trained change of some matrices, stored beside a model's weights.

    y = W x + c + up (down x)        W and c stay as they are; down [R, I] and up [O, R] are trained

A pass of training then adds a file of a few megabytes to a model instead of another copy of its weights. A loaded model
has W + up · down in the place of W, so reading costs what it cost before.

Legend: O outputs, I inputs, R rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from realm_core.model.bert import Bert, TransformerLayer

DOWN, UP = ":down", ":up"


@dataclass(frozen=True)
class Adapter:
    """What a training added to the model in `folder`, by the names of the model's tensors.

    tensors:   NAME:down and NAME:up for a matrix with a low-rank change, NAME for a tensor that replaces the model's.
    continues: `tensors` are those of the model's own adapter in the same parts, trained further; otherwise they come on
               top of it. Its other parts stay in both cases.
    """

    folder: Path
    tensors: dict[str, Tensor]
    continues: bool = False


class LowRank(nn.Module):
    """A frozen linear layer with a trained change of low rank, which is zero at first."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Parameter(torch.empty(rank, linear.in_features, device=linear.weight.device))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank, device=linear.weight.device))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, rows: Tensor) -> Tensor:
        down, up = self.down.to(rows.dtype), self.up.to(rows.dtype)
        changed: Tensor = self.linear(rows) + F.linear(F.linear(rows, down), up)
        return changed


def adapt(bert: Bert, rank: int, first: int, own: Mapping[str, Tensor] = MappingProxyType({})) -> bool:
    """Freeze `bert`, and give each linear layer from layer `first` on a low-rank change to be trained.

    own: the adapter that was merged into `bert`, by the names in `bert`. It is trained further if its changes are of at
    most this rank, and in these layers alone; then the result is True.
    """
    bert.requires_grad_(False)
    changed: dict[str, LowRank] = {}
    names = {module: name for name, module in bert.named_modules()}
    for layer in bert.layers[first:]:
        for owner, name, linear in _linears(layer):
            changed[f"{names[linear]}.weight"] = low_rank = LowRank(linear, rank)
            setattr(owner, name, low_rank)
    merged = {key.removesuffix(DOWN): len(tensor) for key, tensor in own.items() if key.endswith(DOWN)}
    continues = bool(merged) and all(name in changed and earlier <= rank for name, earlier in merged.items())
    if continues:
        with torch.no_grad():
            for name, earlier in merged.items():
                low_rank = changed[name]
                low_rank.down[:earlier], low_rank.up[:, :earlier] = own[name + DOWN], own[name + UP]
                low_rank.linear.weight -= low_rank.up @ low_rank.down
    return continues


def merge(bert: Bert) -> dict[str, Tensor]:
    """Add the changes to their matrices, and return them by the matrices' names in `bert`, with `DOWN` and `UP`."""
    tensors: dict[str, Tensor] = {}
    for place, module in list(bert.named_modules()):
        for name, low_rank in list(module.named_children()):
            if isinstance(low_rank, LowRank):
                matrix = f"{place}.{name}.weight"
                tensors[matrix + DOWN], tensors[matrix + UP] = low_rank.down.detach(), low_rank.up.detach()
                with torch.no_grad():
                    low_rank.linear.weight += (low_rank.up @ low_rank.down).to(low_rank.linear.weight.dtype)
                setattr(module, name, low_rank.linear)
    return tensors


def bert_of(adapter: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The changes of an adapter to a part's BERT, by the names there."""
    prefix = f"{part}.bert."
    return {name.removeprefix(prefix): tensor for name, tensor in adapter.items() if name.startswith(prefix)}


def joined_adapters(earlier: Mapping[str, Tensor], later: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Two adapters as one: ranks add up; of tensors stored whole the later's is taken."""
    both = {**earlier, **later}
    for name in earlier.keys() & later.keys():
        if name.endswith((DOWN, UP)):
            both[name] = torch.cat([earlier[name], later[name]], dim=0 if name.endswith(DOWN) else 1)
    return both


def mean(adapters: Sequence[Mapping[str, Tensor]], shares: Sequence[float], rank: int | None) -> dict[str, Tensor]:
    """The mean of adapters of the same weights, each with its share; `shares` sum to one.

    rank: each change is replaced by the nearest one of this rank (its truncated singular value decomposition); None:
    ranks add up. A whole tensor that an adapter lacks is not in the result.
    """
    tensors: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for own in adapters for name in own):
        if name.endswith(DOWN):
            matrix = name.removesuffix(DOWN)
            having = [
                (own[matrix + UP] * share, own[name])
                for own, share in zip(adapters, shares, strict=True)
                if name in own
            ]
            up, down = torch.cat([one for one, _ in having], dim=1), torch.cat([other for _, other in having])
            if rank is not None and rank < len(down):
                up, down = _nearest(up, down, rank)
            tensors[name], tensors[matrix + UP] = down, up
        elif not name.endswith(UP) and all(name in own for own in adapters):
            tensors[name] = sum(
                (own[name] * share for own, share in zip(adapters, shares, strict=True)), torch.zeros(())
            )
    return tensors


def _nearest(up: Tensor, down: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The factors [O, rank], [rank, I] of the matrix of this rank that is nearest to up · down."""
    left, upper = torch.linalg.qr(up)
    right, lower = torch.linalg.qr(down.T)
    inner_left, values, inner_right = torch.linalg.svd(upper @ lower.T)
    root = values[:rank].sqrt()
    return left @ inner_left[:, :rank] * root, (root.unsqueeze(1) * inner_right[:rank]) @ right.T


def changes(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """up · down, float32, by the name of the matrix; ValueError unless both are there and fit."""
    found: dict[str, Tensor] = {}
    for key, down in tensors.items():
        if key.endswith(DOWN):
            name = key.removesuffix(DOWN)
            up = tensors.get(name + UP)
            if up is None or up.dim() != 2 or down.dim() != 2 or up.shape[1] != down.shape[0]:
                raise ValueError(name)
            found[name] = up.float() @ down.float()
        elif key.endswith(UP) and key.removesuffix(UP) + DOWN not in tensors:
            raise ValueError(key)
    return found


def _linears(layer: TransformerLayer) -> list[tuple[nn.Module, str, nn.Linear]]:
    """The linear layers of a Transformer layer, each with the module that holds it and its name there."""
    return [
        (owner, name, linear)
        for owner in layer.modules()
        for name, linear in owner.named_children()
        if isinstance(linear, nn.Linear)
    ]
