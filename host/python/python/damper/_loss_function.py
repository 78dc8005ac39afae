"""Losses that are functions of (output, target), one number a sample."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

import numpy as np

from ._called import Call, names
from ._damper import Error
from ._data import Samples

# Numbers of samples in the batches that are compared.
ROWS, FEWER, MORE = 4, 2, 17
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

    def draw(like: dict[str, Any], rows: int, change: Callable[[Any], Any]) -> dict[str, Any]:
        drawn = {one: example(torch, value, rows, generator, call.classes if one == call.target else 2) for one, value in like.items()}
        target = drawn[call.target]
        return drawn | {call.target: change(target) if target.is_floating_point() else target}

    first = draw(inputs, ROWS, lambda value: value)
    with torch.no_grad():
        call.classes = _classes(_losses(call, module, first, name)[0])
        _check_reads(call, module, first, name)
    decided = 0
    # Labels may have to be positive, or between 0 and 1.
    changes = (lambda value: value, lambda value: value.abs(), lambda value: value.sigmoid())
    for change in changes[: 3 if first[call.target].is_floating_point() else 1] * DRAWS:
        drawn = draw(inputs, ROWS, change)
        others = (draw(drawn, rows - 1, change) for rows in (ROWS, MORE))
        batches = [{one: torch.cat([value[:1], other[one]]) for one, value in drawn.items()} for other in others]
        batches.append({one: value[:FEWER] for one, value in drawn.items()})
        with torch.no_grad():
            first, *changed = (_losses(call, module, batch, name) for batch in (drawn, *batches))
        decided += all(bool(one[1][0].isfinite()) for one in (first, *changed))
        if any(_differ(first, other) for other in changed):
            raise Error(
                f"loss: {name} mixes samples: the loss of a sample depends on others in its batch, so no sample has a gradient of its own; "
                "compute it from the sample's own output and target, without means, sums or normalisation over axis 0"
            )
    if decided == 0:
        raise Error(
            f"loss: {name} is not finite for synthetic outputs and targets, so the check that it mixes no samples cannot decide; make it "
            "finite, as by clamp before log and division"
        )


def _classes(outputs: dict[str, Any]) -> int:
    """Returns the number of values that integer labels of these outputs have at least, on whichever axis the classes are."""
    return max(2, min((extent for value in outputs.values() for extent in value.shape[1:] if extent > 1), default=2))


def _check_reads(call: Call, module: Any, inputs: dict[str, Any], name: str) -> None:
    """Fails if the loss of the call branches on values, or depends on a parameter that is not in `output`. The exported graph
    would have the branch, or the parameter's first value, as a constant."""
    import torch
    from torch.overrides import TorchFunctionMode

    of_values = {torch.equal, torch.allclose, torch.is_nonzero}
    of_values |= {
        getattr(torch.Tensor, one)
        for one in ("__bool__", "__int__", "__float__", "__index__", "__contains__", "__array__", "item", "tolist", "numpy", "equal", "allclose")
    }

    class Watch(TorchFunctionMode):
        """Follows the tensors that are computed from `known`."""

        def __init__(self, known: list[Any]) -> None:
            super().__init__()
            # With the tensors, so that no other gets the id of one.
            self.known = {id(one): one for one in known}

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            depends = any(id(one) in self.known for one in _tensors((args, kwargs or {})))
            if depends and function in of_values and not _is_of_torch():
                raise Error(
                    f"loss: {name} branches on values of output or target, or takes them out as Python numbers (if, bool, item), and the "
                    "exported graph would keep those of its example; use torch.where, and leave checks out"
                )
            result = function(*args, **(kwargs or {}))
            if depends:
                changed = args[:1] if function is torch.Tensor.__setitem__ else ()
                self.known.update((id(one), one) for one in _tensors((result, changed)))
            return result

    own = {one: value for one, value in inputs.items() if one != call.target}
    returned = module(**own) if call.by_name else module(*own.values())
    with torch.enable_grad(), Watch([*names(returned).values(), inputs[call.target]]):
        losses = call.loss(returned, inputs[call.target])  # type: ignore[misc]
    if losses.requires_grad:
        raise Error(
            f"loss: {name} depends on a tensor with requires_grad that is not output or target, such as a parameter of the module, and it "
            "would stay constant; return what the loss needs of it from forward, or detach() a constant"
        )


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [one for part in value for one in _tensors(part)]
    return [value] if hasattr(value, "is_floating_point") else []


def _is_of_torch() -> bool:
    """Returns true if a function of PyTorch reads the values. Its own branches only check arguments."""
    import torch

    folder = os.path.dirname(torch.__file__) + os.sep
    passed = [__file__, *(folder + one for one in ("_tensor.py", "overrides.py"))]
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in passed:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(folder)


def _differ(one: tuple[dict[str, Any], Any], other: tuple[dict[str, Any], Any]) -> bool:
    """Returns true if the first sample's loss differs between two batches, and its outputs do not. Outputs of a module
    that mixes samples have an error of their own."""
    (outputs, losses), (other_outputs, other_losses) = one, other
    close = CLOSE * max(1.0, float(losses[losses.isfinite()].abs().max())) if losses.isfinite().any() else CLOSE
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
