"""Losses that are functions of (output, target), one number a sample."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._called import Call
from ._damper import Error
from ._data import Samples

# Numbers of samples in the batches that are compared.
ROWS, FEWER = 4, 2
#: Number of comparisons. A threshold may hide a difference in one.
DRAWS = 4
#: Largest difference of a sample's loss in two batches, relative to the losses. Sums in another order differ less.
CLOSE = 1e-4


def call_with(function: Callable[[Any, Any], Any], train: Samples, test: Samples | None) -> Call:
    """Returns the call of a module with the loss `function`, and makes the labels of `train` and `test` an input."""
    taken = set(train.inputs)
    call = Call(train.by_name, function, _free("target", taken), _free("loss", taken))
    for split in (train, test):
        if split is not None:
            split.inputs[call.target], split.labels = split.labels, None
    return call


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def name_of(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def check_function(call: Call, module: Any, inputs: dict[str, np.ndarray], settings: dict[str, Any]) -> None:
    """Fails if the loss of the call does not give one number a sample, or if a sample's number depends on others.

    This compares a sample's loss in batches with other neighbours, on synthetic samples, for an error that names the
    function. The command then checks each operator of the exported graph, and refuses any that mixes samples. That
    check does not depend on values.
    """
    import torch

    from ._export import _randomised, example

    name = name_of(call.loss)
    if isinstance(call.loss, torch.nn.Module) and any(True for _ in call.loss.parameters()):
        raise Error(f"loss: {name} has parameters, which would not be trained; make them parameters of the module")
    is_scaled = settings.get("normalize") is not None or settings.get("normalize_private") is not None
    if is_scaled and inputs[call.target].dtype.kind == "f":
        raise Error("loss: with a function, normalize would scale the labels too; scale X instead, and leave normalize out")
    generator = torch.Generator().manual_seed(3)
    module = _randomised(module)
    for _ in range(DRAWS):
        drawn = {one: example(torch, value, ROWS, generator) for one, value in inputs.items()}
        others = {one: torch.cat([value[:1], example(torch, value, ROWS - 1, generator)]) for one, value in drawn.items()}
        fewer = {one: value[:FEWER] for one, value in drawn.items()}
        with torch.no_grad():
            first, *changed = (_losses(call, module, batch, name) for batch in (drawn, others, fewer))
        if any(_differ(first, other) for other in changed):
            raise Error(
                f"loss: {name} mixes samples: the loss of a sample depends on others in its batch, so no sample has a gradient of its own; "
                "compute it from the sample's own output and target, without means, sums or normalisation over axis 0"
            )


def _differ(one: tuple[dict[str, Any], Any], other: tuple[dict[str, Any], Any]) -> bool:
    """Returns true if the first sample's loss differs between two batches, and its outputs do not. Outputs of a module
    that mixes samples have an error of their own."""
    (outputs, losses), (other_outputs, other_losses) = one, other
    close = CLOSE * max(1.0, float(losses.abs().max()))
    pairs = [(value[0], other_outputs[name][0]) for name, value in outputs.items() if value.is_floating_point() and value.shape[:1]]
    return not any((a - b).abs().max() > close for a, b in pairs) and bool((losses[0] - other_losses[0]).abs() > close)


def _losses(call: Call, module: Any, inputs: dict[str, Any], name: str) -> tuple[dict[str, Any], Any]:
    import torch

    target = inputs[call.target]
    count, form = len(target), f"{str(target.dtype)[6:]} {list(target.shape)}"
    plain = Call(call.by_name)
    outputs = plain(module, {one: value for one, value in inputs.items() if one != call.target})
    shown = ", ".join(f"{one} {list(value.shape)}" for one, value in outputs.items())
    try:
        losses = call(module, inputs)[call.output]
    except Exception as error:  # noqa: BLE001: the function raises what it likes.
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Error(f"loss: {name} does not take {shown} and the target {form} ({first}); correct the function or the labels") from error
    if not isinstance(losses, torch.Tensor) or not losses.is_floating_point():
        raise Error(f"loss: {name} gives a {type(losses).__name__}; return a float tensor [N], one number a sample")
    if losses.dim() == 0:
        raise Error(
            f"loss: {name} gives one number for the whole batch; return one number a sample, a tensor [N]: use reduction='none', and a mean "
            "over the axes after the first"
        )
    if tuple(losses.shape) != (count,):
        raise Error(f"loss: {name} gives the shape {list(losses.shape)} for {count} samples; return [N], one number a sample: flatten(1).mean(1)")
    return outputs, losses
