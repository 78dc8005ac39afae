"""Inputs of a module: their names, their types, and data of a run that are read again."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from . import _frames, _peft
from ._data import Samples, samples
from ._damper import Error
from ._export import takes


def input_names(module: Any) -> list[str]:
    """Returns the names of the inputs of `module.forward`, or `*` if it takes any."""
    if not hasattr(module, "named_parameters"):
        raise Error(f"module: a {type(module).__name__}; give a torch.nn.Module, or take damper.Classifier or damper.Regressor for a network by name")
    names = []
    for parameter in inspect.signature(_peft.called(module).forward).parameters.values():
        is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        names.append("*" if is_open else parameter.name)
    return names


def known_facts(train: Samples, reading: _frames.Reading) -> dict[str, Any]:
    """Returns the facts that the model's file has about its tables, all of them public."""
    if not train.tables and reading.classes is None:
        return {}
    columns = {name: dataclasses.asdict(one) for name, one in train.columns().items()}
    types = {name: str(train.inputs[name].dtype) for name in train.tables}
    label = reading.label if reading.label is None or isinstance(reading.label, str) else list(map(str, reading.label))
    return {"columns": columns, "types": types, "label": label, "classes": reading.classes, "scale": reading.scale} | (
        {} if train.labels is None else {"label_type": str(train.labels.dtype)}
    )


def choose_types(module: Any, train: Samples, test: Samples | None, are_normalized: bool) -> None:
    """Chooses the type that the module takes for inputs from tables: integers for ids, or floats."""
    for name, table in train.tables.items():
        kinds = [table.floats, table.integers]
        kinds = [kind for kind in (reversed(kinds) if table.only_integers else kinds) if kind is not None]
        train.inputs[name] = kinds[0]
        for kind in kinds if len(kinds) > 1 else []:
            if takes(module, {**train.inputs, name: kind}, train.by_name):
                train.inputs[name] = kind
                break
        for what, split in (("data", train), ("test", test)):
            rounded = split.tables[name].beyond_floats if split is not None and name in split.tables else None
            if rounded is not None and are_normalized and train.inputs[name] is table.floats:
                raise Error(
                    f"{what}, column '{rounded}': has integers that 64-bit floats do not hold, and normalize would scale them rounded; give "
                    f"scale={{'{rounded}': (mean, std)}}"
                )
        if test is not None and name in test.tables:
            other = test.tables[name]
            test.inputs[name] = _as_type(other, train.inputs[name].dtype, "test")


def _as_type(table: _frames.Table, kind: Any, what: str) -> Any:
    if str(kind).startswith("float"):
        return table.floats
    if table.integers is None:
        raise Error(f"{what}: has missing values or numbers that are no integers, and the module takes integers; leave such rows out")
    return table.integers


def read_again(known: dict[str, Any], data: Any, what: str, wants_labels: bool | None = None, drops: bool = True) -> Samples:
    """Reads `data` as the data of a run with the facts `known`: columns by name, with their public constants.

    With `drops`, invalid rows are for the command to drop or refuse."""
    reading = _frames.Reading(known.get("label"), classes=known.get("classes"), scale=known.get("scale") or {}, drops=drops)
    reading.known = {name: _frames.Columns(**one) for name, one in (known.get("columns") or {}).items()}
    loss = "mse" if str(known.get("label_type")).startswith("float") else None
    read = samples(data, known["inputs"], what, known["labels"] if wants_labels is None else wants_labels, reading, loss)
    for name, table in read.tables.items():
        read.inputs[name] = _as_type(table, known["types"].get(name, "float32"), what)
    if "target" in known and read.labels is not None:
        # The loss is a function in the model, which takes the labels as an input.
        read.inputs[known["target"]], read.labels = read.labels, None
    return read
