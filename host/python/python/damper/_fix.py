"""Replaces layers that cannot be trained privately."""

from __future__ import annotations

import copy
from typing import Any

from ._damper import Error


def fix(module: Any, groups: int | None = None) -> Any:
    """Returns a copy of `module` with GroupNorm instead of each BatchNorm, with its weights, as `damper fix` does.

    BatchNorm mixes the samples of a batch, so no sample has its own gradient. The outputs change, so train the copy
    afterwards. Without `groups`, a layer of C channels gets the largest divisor of C up to 32 that leaves two channels
    in a group.
    """
    import torch

    fixed = copy.deepcopy(module)

    def replaced(layer: Any) -> Any:
        if not isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            return layer
        channels = layer.num_features
        if groups is not None and channels % groups:
            raise Error(f"groups {groups}: does not divide the {channels} channels of a BatchNorm")
        norm = torch.nn.GroupNorm(groups or _groups(channels), channels, eps=layer.eps, affine=layer.affine)
        if layer.affine:
            norm.weight, norm.bias = layer.weight, layer.bias
        return norm.train(layer.training).to(next(iter(layer.parameters()), torch.empty(0)).device)

    for parent in fixed.modules():
        for name, child in list(parent.named_children()):
            new = replaced(child)
            if new is not child:
                setattr(parent, name, new)
    return replaced(fixed)


def _groups(channels: int) -> int:
    fitting = [groups for groups in range(1, min(32, channels // 2) + 1) if channels % groups == 0]
    return max(fitting, default=1)
