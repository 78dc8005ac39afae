"""Exports a module as .onnx, with a name for every parameter that identifies it in the module."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import io
import json
import re
from typing import Any

import numpy as np

from . import _peft
from ._alone import alone, silence
from ._bags import fixed_bags
from ._called import OUTPUT, Call, check_names, wrapped
from ._damper import Error
from ._metadata import METADATA

OPSET = 18
# Number of rows of the example for the trace, and of the examples for the comparison with the file. A loss function is also
# compared on the last.
ROWS, OTHER_ROWS, MORE_ROWS = 2, 3, 17
# Attempts of each choice of an exporter: the exporter, and True to fold constants. Folding by the dynamo exporter gives
# smaller files, but may split parameters.
ATTEMPTS = {
    "auto": [("torchscript", False), ("dynamo", True), ("dynamo", False)],
    "torchscript": [("torchscript", False)],
    "dynamo": [("dynamo", True), ("dynamo", False)],
}
# Tolerance of an output of the file, relative to the module's largest output.
CLOSE = 1e-3


@dataclasses.dataclass
class Exported:
    """An exported module."""

    #: Content of the .onnx file.
    model: bytes
    #: Initializers to train.
    parameters: list[str]
    #: Notes for the user.
    notes: list[str]
    #: Names of these initializers in the module.
    names: dict[str, str]
    #: Names of the outputs.
    outputs: list[str]


def export(
    module: Any,
    example: dict[str, np.ndarray],
    call: Call,
    exporter: str,
    has_labels: bool = True,
    whole: bool = False,
    known: dict[str, Any] | None = None,
) -> Exported:
    """Exports `module` for inputs like `example`, `{name: array [N, ...]}`. Only shapes and types of `example` are
    used.

    With `whole`, all parameters are to be trained, including those without `requires_grad`. The exporter gets a copy of
    the network with random and distinct parameters, so that no exporter merges two of them. Each parameter is then
    found by its values, at any position in the file, and gets the module's own values. The file's metadata also contain
    `known`.

    Only one thread exports at a time. The module and the process are not changed.
    """
    with alone():
        return _export(module, example, call, exporter, has_labels, whole, known or {})


def takes(module: Any, like: dict[str, np.ndarray], by_name: bool) -> bool:
    """Returns true if `module` takes inputs like `like`."""
    import torch

    try:
        _try(torch, _randomised(module), {name: example(torch, array, ROWS) for name, array in like.items()}, Call(by_name))
    except Error:
        return False
    return True


def _export(
    module: Any, examples: dict[str, np.ndarray], call: Call, exporter: str, has_labels: bool, whole: bool, more: dict[str, Any]
) -> Exported:
    import torch

    if exporter not in ATTEMPTS:
        raise Error(f"exporter '{exporter}': give auto, torchscript or dynamo")
    _peft.check(module)
    notes = _refuse_or_note(module)
    twin = _randomised(module)
    inputs = {name: example(torch, array, ROWS) for name, array in examples.items()}
    outputs = list(_try(torch, twin, inputs, call))
    unused = _unused(torch, twin, inputs, call)
    named = dict(module.named_parameters())
    used = [name for name in named if name not in unused]
    trained_names = [name for name in used if whole or named[name].requires_grad]
    if not trained_names:
        hint = "; adapters of peft are frozen unless they are loaded with is_trainable=True" if _peft.has_adapters(module) else ""
        raise Error(f"the module has no parameter with requires_grad that its output depends on; unfreeze some{hint}")
    spare = [name for name in unused if not whole and named[name].requires_grad]
    if spare:
        notes.append(f"{_list(spare)}: not trained, for no output depends on it")

    problems = []
    for kind, folds in ATTEMPTS[exporter]:
        try:
            model, places = _attempt(torch, module, twin, inputs, call, used, kind, folds)
        except _Unfit as problem:
            problems.append(f"{kind}: {problem}")
            continue
        trained = sorted({places[name]["tensor"] for name in trained_names})
        known = {"places": places, "trained": trained, "parameters": list(named), "inputs": [name for name in examples if name != call.target], "labels": has_labels}
        if call.loss is not None:
            known |= {"target": call.target, "loss_output": call.output}
        known |= more
        model.metadata_props.add(key=METADATA, value=json.dumps(known))
        names = {places[name]["tensor"]: name for name in reversed(used)}
        return Exported(model.SerializeToString(deterministic=True), trained, notes, names, outputs)
    raise Error(f"PyTorch does not export the module ({'; '.join(dict.fromkeys(problems))}); docs/models.md lists what helps")


def with_trained(file: bytes, trained: list[str]) -> bytes:
    """Returns the exported `file`, with `trained` as its trained initializers."""
    import onnx

    model = onnx.load_from_string(file)
    (entry,) = [entry for entry in model.metadata_props if entry.key == METADATA]
    entry.value = json.dumps({**json.loads(entry.value), "trained": trained})
    return model.SerializeToString(deterministic=True)


class _Unfit(Exception):
    """Reason why an exporter's result, or its failure, cannot be trained."""


def _attempt(
    torch: Any, module: Any, twin: Any, inputs: dict[str, Any], call: Call, used: list[str], kind: str, folds: bool
) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Returns the exported model with the module's values, and the positions of the module's tensors in it, including
    all `used` parameters."""
    import onnx

    with torch.no_grad():
        outputs = list(call(twin, inputs))
        is_plain = call.is_plain(twin, inputs)
    net, prefix = (twin, "") if is_plain else (wrapped(torch, twin, list(inputs), call), "module.")
    try:
        model = _export_with(torch, net, inputs, [OUTPUT] if is_plain else outputs, kind, folds)
    except Exception as error:  # noqa: BLE001: exporters raise what they like.
        raise _Unfit(_first_line(error)) from error
    places = _places(twin, model.graph, prefix)
    lost = [name for name in used if name not in places]
    if lost:
        raise _Unfit(f"'{lost[0]}' is not one tensor of the file, so its trained values would not lead back")
    _rename(model.graph, places)
    # Also with other random values: a constant that the exporter computed from a parameter would keep the first values.
    for values in (_randomised(module, seed=2), module):
        _set_values(onnx, values, model.graph, places)
        _check(torch, values, model.SerializeToString(), inputs, call)
    return model, places


def _refuse_or_note(module: Any) -> list[str]:
    """Returns notes on layers that behave differently in training. Fails for layers that mix samples."""
    import torch

    dropped, padded, notes = [], [], []
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            raise Error(
                f"'{name}' is a {type(layer).__name__}, which mixes the samples of a batch, so none has a gradient of its own; "
                "train damper.fix(module), which has GroupNorm in its place"
            )
        if isinstance(layer, torch.nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats:
            raise Error(f"'{name}' tracks statistics of batches; use track_running_stats=False")
        if isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and (layer.max_norm is not None or layer.scale_grad_by_freq):
            raise Error(f"'{name}': max_norm and scale_grad_by_freq count the ids of a batch; leave them out")
        if isinstance(layer, torch.nn.Embedding) and layer.padding_idx is not None and layer.weight.requires_grad:
            padded.append(name or type(layer).__name__)
        rate = getattr(layer, "p", None) if isinstance(layer, torch.nn.modules.dropout._DropoutNd) else None
        rate = layer.dropout if isinstance(layer, (torch.nn.RNNBase, torch.nn.MultiheadAttention)) else rate
        if rate:
            dropped.append(name or type(layer).__name__)
    if dropped:
        notes.append(f"dropout of {_list(dropped)}: off while training, as in module.eval(); the noise regularises")
    if padded:
        notes.append(f"padding_idx of {_list(padded)}: its row is trained as the others, which PyTorch leaves as it is; mask it in forward")
    return notes


def _list(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _tensors(module: Any) -> dict[str, Any]:
    """Returns parameters and buffers by name. A tied parameter has only its first name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _randomised(module: Any, seed: int = 1) -> Any:
    """Returns a copy in evaluation mode, on the CPU, in float32, with random parameters."""
    import torch

    try:
        twin = copy.deepcopy(module)
    except RuntimeError as error:
        raise Error(f"the module cannot be copied ({error}); use torch.nn.utils.parametrizations in the place of old hooks")
    twin = _prepared(twin)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in twin.parameters():
            if parameter.is_floating_point():
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator) + 0.05)
    return twin


def _prepared(copied: Any) -> Any:
    """Converts a copy to evaluation mode, to the CPU and float32, without the caches that models of `transformers`
    return next to their logits."""
    for part in copied.modules():
        config = getattr(part, "config", None)
        if getattr(config, "use_cache", None) is True:
            config.use_cache = False
    return copied.cpu().float().eval()


def example(torch: Any, like: Any, rows: int, generator: Any = None, classes: int = 2) -> Any:
    """Returns `rows` synthetic samples like those of an array or a tensor, so that no private data gets into the file.
    Integers are below `classes`."""
    shape = (rows, *like.shape[1:])
    if "int64" in str(like.dtype):
        if generator is None:
            return torch.zeros(shape, dtype=torch.int64)
        return torch.randint(0, classes, shape, generator=generator)
    return torch.zeros(shape) if generator is None else torch.randn(shape, generator=generator)


def _try(torch: Any, twin: Any, inputs: dict[str, Any], call: Call) -> dict[str, Any]:
    """Runs the network once and returns its outputs. Its own error is shorter than that of an exporter."""
    try:
        with torch.no_grad():
            found = call(twin, inputs)
    except Exception as error:  # noqa: BLE001: forward raises what it likes.
        shapes = ", ".join(f"'{name}' {str(value.dtype)[6:]} {['N', *value.shape[1:]]}" for name, value in inputs.items())
        shapes = shapes.replace("['N'", "[N")
        raise Error(f"the module does not take {shapes} ({_first_line(error)}); give data of its shapes and types") from error
    check_names(found, inputs)
    return found


def _first_line(error: Exception) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def _export_with(torch: Any, twin: Any, inputs: dict[str, Any], outputs: list[str], exporter: str, folds: bool) -> Any:
    import onnx

    file = io.BytesIO()
    common = {"input_names": list(inputs), "output_names": outputs, "opset_version": OPSET}
    args = tuple(inputs.values())
    with silence(), fixed_bags(), torch.no_grad():
        if exporter == "torchscript":
            # Without folding, parameters keep names, shapes and ties.
            axes = {name: {0: "batch"} for name in inputs}
            torch.onnx.export(twin, args, file, dynamo=False, do_constant_folding=False, dynamic_axes=axes, **common)
            return onnx.load_from_string(file.getvalue())
        batch = torch.export.Dim("batch", min=1)
        shapes = tuple({0: batch} for _ in args)
        if len(inspect.signature(twin.forward).parameters) == 1:
            variadic = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(twin.forward).parameters.values())
            shapes = (shapes,) if variadic else shapes
        program = torch.onnx.export(twin, args, dynamo=True, optimize=folds, dynamic_shapes=shapes, verbose=False, **common)
        return program.model_proto


def _places(twin: Any, graph: Any, prefix: str) -> dict[str, dict[str, Any]]:
    """Returns the position of each tensor of the module in the file, by its values."""
    import onnx

    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    floats = {name: array for name, array in arrays.items() if array.dtype == np.float32}
    by_size: dict[int, list[str]] = {}
    for name, array in floats.items():
        by_size.setdefault(array.size, []).append(name)
    # A tied parameter may be stored under any of its names.
    known: dict[int, list[str]] = {}
    for name, parameter in twin.named_parameters(remove_duplicate=False):
        known.setdefault(id(parameter), []).append(prefix + name)
    places = {}
    parameters = dict(twin.named_parameters())
    for name, tensor in _tensors(twin).items():
        if not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        value = tensor.detach().numpy()
        own = known.get(id(tensor), [prefix + name])
        # Buffers are not random, and others may have equal values.
        others = by_size.get(value.size, []) if name in parameters else []
        found = []
        for candidate in dict.fromkeys([*own, *others]):
            array = floats.get(candidate)
            if array is None or array.size != value.size:
                continue
            straight = np.array_equal(array.ravel(), value.ravel())
            transposed = not straight and value.ndim == 2 and array.shape == value.shape[::-1] and np.array_equal(array, value.T)
            if straight or transposed:
                found.append({"tensor": candidate, "transposed": transposed, "shape": list(value.shape)})
        # Folding may store a tied parameter again, as its transpose. Then only one of both would be trained.
        if len(found) == 1 or found and name not in parameters:
            places[name] = found[0]
    return places


def _rename(graph: Any, places: dict[str, dict[str, Any]]) -> None:
    """Renames initializers to the names of the module's tensors, which messages and patterns then use."""
    taken = {name for node in graph.node for name in [*node.input, *node.output]}
    taken.update(one.name for ones in (graph.initializer, graph.input, graph.output) for one in ones)
    new: dict[str, str] = {}
    for name, place in places.items():
        if place["tensor"] not in new and name not in taken:
            new[place["tensor"]] = name
        place["tensor"] = new.get(place["tensor"], place["tensor"])
    for tensor in graph.initializer:
        tensor.name = new.get(tensor.name, tensor.name)

    def rename(graph: Any) -> None:
        for node in graph.node:
            node.input[:] = [new.get(name, name) for name in node.input]
            for attribute in node.attribute:
                for inner in [attribute.g, *attribute.graphs]:
                    rename(inner)

    rename(graph)


def _unused(torch: Any, twin: Any, inputs: dict[str, Any], call: Call) -> list[str]:
    """Returns the parameters on which no output depends."""
    parameters = dict(twin.named_parameters())
    for parameter in parameters.values():
        parameter.requires_grad_(parameter.is_floating_point())
    with torch.enable_grad():
        total = sum(one.sum() for one in call(twin, inputs).values() if one.is_floating_point())
        if not getattr(total, "requires_grad", False):
            return list(parameters)
        grads = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    return [name for name, grad in zip(parameters, grads) if grad is None]


def _set_values(onnx: Any, module: Any, graph: Any, places: dict[str, dict[str, Any]]) -> None:
    """Writes the module's own values to the file."""
    tensors = _tensors(module)
    values = {}
    for name, place in places.items():
        value = tensors[name].detach().float().cpu().numpy()
        values[place["tensor"]] = value.T if place["transposed"] else value
    for tensor in graph.initializer:
        if tensor.name in values:
            value = np.ascontiguousarray(values[tensor.name]).reshape(tuple(tensor.dims))
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))


def _check(torch: Any, module: Any, model: bytes, inputs: dict[str, Any], call: Call) -> None:
    """Compares the file's outputs with the module's, for synthetic samples and another number of them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    generator = torch.Generator().manual_seed(2)
    original = _prepared(copy.deepcopy(module))
    # With mixed, positive and negative signs, to reveal a branch that the trace has not taken.
    changes = [(OTHER_ROWS, change) for change in (lambda value: value, lambda value: value.abs(), lambda value: -value.abs())]
    # Labels of a loss may have to be between 0 and 1.
    changes += [(MORE_ROWS, change) for change in (lambda value: value, lambda value: value.sigmoid())] if call.loss is not None else []
    for rows, change in changes:
        classes = {call.target: call.classes}
        drawn = {name: example(torch, value, rows, generator, classes.get(name, 2)) for name, value in inputs.items()}
        given = {name: change(value) if value.is_floating_point() else value for name, value in drawn.items()}
        with torch.no_grad():
            outputs = [one for one in call(original, given).values() if one.is_floating_point()]
        try:
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            taken = {one.name for one in session.get_inputs()}
            found = session.run(None, {name: value.numpy() for name, value in given.items() if name in taken})
        except Exception as error:  # noqa: BLE001
            raise _Unfit(
                f"the file does not run for {rows} samples ({_first_line(error)}); forward must not take the size of a batch "
                "for a constant"
            ) from error
        found = [one for one in found if one.dtype == np.float32]
        for expected, actual in zip(outputs, found):
            expected = expected.numpy()
            scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-6))
            same = expected.shape == actual.shape and np.allclose(expected, actual, rtol=0, atol=CLOSE * scale, equal_nan=True)
            if not same:
                raise _Unfit(
                    "the file computes other values than the module: does forward depend on the values or the number of its samples? "
                    "Use tensor operations in the place of Python's if and for"
                )
