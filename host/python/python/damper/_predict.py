"""Outputs and figures of a run's model, for other samples. Both read samples as the run has read its own."""

from __future__ import annotations

import json
import pathlib
import tomllib
from typing import Any, NamedTuple

import numpy as np

from . import _damper, _frames, _network
from ._command import use_onnxruntime
from ._damper import Error
from ._inputs import read_again
from ._metadata import METADATA

#: Number of samples that are computed at once.
ROWS = 256
KINDS = ("output", "class", "probability")
#: Losses of labels that are numbers.
OF_NUMBERS = ("mse", "l1", "huber", "bce-with-logits")
#: Name of the settings of a run in its folder.
RECORD = "config.toml"


class Evaluation(NamedTuple):
    """Figures of a model on samples. They are exact functions of these rows, which epsilon does not cover."""

    #: Mean loss, in the unit of the labels.
    loss: float
    #: Accuracy, 0 to 1. None if the loss has no classes.
    accuracy: float | None
    #: Number of samples.
    samples: int


def evaluate(folder: pathlib.Path, data: Any) -> Evaluation:
    """Returns the figures of the run's model on `data`, as `damper evaluate` computes them."""
    use_onnxruntime()
    if isinstance(data, (str, pathlib.Path)):
        of_file, arrays = str(data), None
    else:
        of_file, arrays = "memory:train", (read_again(_facts(folder / "model.onnx"), data, "data").split(), None)
    answer, _ = _damper.call("evaluate", [str(folder), of_file], {"json": True}, lambda _: None, arrays)
    found = json.loads(answer)
    return Evaluation(found["loss"], found["accuracy"], found["samples"])


def predict(folder: pathlib.Path, data: Any, kind: str) -> Any:
    """Returns the outputs of the run's model for `data`, or the classes or probabilities that follow from them."""
    if kind not in KINDS:
        raise Error(f"kind: {kind!r}; give {', '.join(map(repr, KINDS))}")
    if isinstance(data, (str, pathlib.Path)):
        raise Error(f"X: {data} is a path; read it first, such as by pandas.read_csv")
    file = folder / "model.onnx"
    settings = _record(folder)
    known = _facts(file)
    label = known.get("label")
    if _frames.is_frame(data) and label is not None:
        data = data.drop(columns=[one for one in data.columns if str(one) in ([label] if isinstance(label, str) else label)])
    # Texts without labels, as `damper.tokenized` returns them.
    if isinstance(data, tuple) and len(data) == 2 and data[1] is None:
        data = data[0]
    if isinstance(data, tuple) and len(data) > 1:
        if len(data) > len(known["inputs"]):
            raise Error(f"X: gives {len(data)} arrays where the model takes {', '.join(known['inputs'])}")
        data = dict(zip(known["inputs"], data))
    read = read_again(known, data, "X", wants_labels=False, drops=False)
    for input_name, value in read.inputs.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise Error(f"X, input '{input_name}': has missing values, or numbers that are not finite; leave such rows out")
    outputs = _computed(file, _prepared(read.inputs, file, settings))
    if kind == "output":
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))
    name = settings.get("output")
    if name is None and len(outputs) > 1:
        raise Error(f"kind: {kind!r} needs one output, and the model has {', '.join(outputs)}; use kind='output'")
    output = outputs[name] if name is not None else next(iter(outputs.values()))
    return _chosen(output, settings, kind, known.get("classes"))


def _record(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the settings of the run, as flags without their dashes."""
    file = folder / RECORD
    return tomllib.loads(file.read_text()) if file.is_file() else {}


def _facts(file: pathlib.Path) -> dict[str, Any]:
    """Returns the facts about the run's data: those of `damper.fit`, or of a run of the command."""
    _, metadata = _damper.read_model(file)
    if METADATA in metadata:
        return json.loads(metadata[METADATA])
    return _of_command(metadata, _record(file.parent), _session(file).get_inputs())


def _of_command(metadata: dict[str, str], settings: dict[str, Any], inputs: list[Any]) -> dict[str, Any]:
    """Returns the facts about the data of a run of the command, from its settings and the names in its model."""
    loss = settings.get("loss", "softmax-cross-entropy")
    reading = _frames.of_options({name: settings[name] for name in ("categories", "scale") if name in settings}, None)
    known = {
        "inputs": [one.name for one in inputs],
        "labels": not loss.startswith("output:"),
        "label_type": "float32" if loss in OF_NUMBERS else "int64",
        "classes": json.loads(metadata["damper.classes"]) if "damper.classes" in metadata else None,
        "scale": reading.scale,
        "types": {one.name: "float32" if "float" in one.type else "int64" for one in inputs},
    }
    table = json.loads(metadata.get("damper.columns", "null"))
    if table is None and not set(reading.scale) - {_frames.LABELS} and not reading.categories:
        return known
    if table is None:
        table = _by_number(settings, reading, inputs[0])
    names = [name for name in table["columns"] if name != table["label"]]
    categories = {name: values for name, values in reading.categories.items() if name in names}
    return known | {"label": table["label"], "columns": {inputs[0].name: {"names": names, "categories": categories}}}


def _by_number(settings: dict[str, Any], reading: _frames.Reading, taken: Any) -> dict[str, Any]:
    """Returns the columns of a file without names, which settings count from 0."""
    if reading.categories:
        raise Error("X: the run's file has categories and no names of columns; for such files there is `damper evaluate`")
    count = taken.shape[-1] + 1
    return {"columns": list(map(str, range(count))), "label": str(settings.get("label-column", count - 1))}


def without_loss(file: pathlib.Path) -> bytes | None:
    """Returns the model without its loss and the input with the labels, or None if it does not contain its loss."""
    _, metadata = _damper.read_model(file)
    known = json.loads(metadata.get(METADATA, "{}"))
    if "target" not in known:
        return None
    import onnx

    model = onnx.load(file)
    graph = model.graph
    for ones, name in ((graph.input, known["target"]), (graph.output, known["loss_output"])):
        ones.remove(next(one for one in ones if one.name == name))
    needed = {one.name for one in graph.output}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
            continue
        inner = [one.g for one in node.attribute if one.HasField("g")]
        needed.update([*node.input, *(name for part in inner for each in part.node for name in each.input)])
    for tensor in [one for one in graph.initializer if one.name not in needed]:
        graph.initializer.remove(tensor)
    return model.SerializeToString()


def _session(file: pathlib.Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise Error("predict: needs the package onnxruntime; pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(without_loss(file) or str(file), options, providers=["CPUExecutionProvider"])


def _prepared(inputs: dict[str, np.ndarray], file: pathlib.Path, settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Moves channels to the front and scales floats by the constants of the run, public or released, as in training."""
    if settings.get("layout") == "nhwc":
        inputs = {name: np.moveaxis(value, -1, 1) if value.ndim > 3 else value for name, value in inputs.items()}
    _, metadata = _damper.read_model(file)
    text = metadata.get("damper.normalize", settings.get("normalize"))
    if text is None:
        return inputs
    by = _network.constants(text)
    return {name: _network.scaled(value, by) if value.dtype.kind == "f" else value for name, value in inputs.items()}


def _computed(file: pathlib.Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the model's outputs by name."""
    session = _session(file)
    types = {one.name: np.float32 if "float" in one.type else np.int64 for one in session.get_inputs()}
    absent = [name for name in types if name not in inputs]
    if absent:
        raise Error(f"X: has no input '{absent[0]}'; the model takes {', '.join(types)}")
    given = {name: np.ascontiguousarray(inputs[name].astype(kind, copy=False)) for name, kind in types.items()}
    names = [one.name for one in session.get_outputs()]
    count = len(next(iter(inputs.values())))
    try:
        parts = [session.run(names, {name: value[at : at + ROWS] for name, value in given.items()}) for at in range(0, count, ROWS)]
    except Exception as error:  # noqa: BLE001: onnxruntime has its own classes.
        shapes = ", ".join(f"'{name}' [N{''.join(f', {one}' for one in value.shape[1:])}]" for name, value in given.items())
        raise Error(f"X: the model does not take {shapes}; give samples like those of the training ({str(error).splitlines()[0]})") from None
    return {name: np.concatenate(one) for name, one in zip(names, zip(*parts))}


def _chosen(output: np.ndarray, settings: dict[str, Any], kind: str, classes: list[Any] | None) -> np.ndarray:
    """Returns classes or probabilities from logits, by the run's loss."""
    loss = settings.get("loss", "softmax-cross-entropy")
    if loss == "bce-with-logits":
        # tanh does not overflow.
        return (output > 0).astype(np.int64) if kind == "class" else 0.5 * (1 + np.tanh(0.5 * output))
    if loss not in ("softmax-cross-entropy", "causal-lm"):
        raise Error(f"kind: the loss {loss} has no classes; use kind='output'")
    axis = settings.get("class-axis", -1)
    if kind == "probability":
        return softmax(output, axis)
    best = output.argmax(axis)
    return best if classes is None else np.array(classes)[best]


def softmax(logits: np.ndarray, axis: int) -> np.ndarray:
    """Returns the probability of each class along `axis`."""
    powers = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)
