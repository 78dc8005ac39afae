"""Comparisons and searches: `damper compare` on a module and arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import tempfile
import tomllib
import warnings
from typing import Any, Iterator, Mapping, Sequence, Unpack

import numpy as np

from . import _damper
from ._command import use_onnxruntime
from ._damper import Error
from ._data import Samples
from ._fit import PrivacyWarning, _folder, charged, prepared
from ._predict import RECORD
from ._run import Run
from ._settings import Settings

#: Row of the only method of a search.
METHOD = "tuned"
#: Settings with temporary files.
FILES = ("model", "data", "test")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Result of `compare`: a table of methods by budget."""

    #: Folder with `compare.html`, `compare.md`, `compare.json`, and a folder for each run in `ledgers`.
    path: pathlib.Path
    #: Content of `compare.json`.
    details: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each method at each budget: `method`, `budget`, the number of runs `n`, `mean` and `std` of the accuracy (or of the
        loss), and `epsilon` of one run."""
        return [
            {"method": row["label"], "settings": row["settings"], **cell} for row in self.details["methods"] for cell in row["cells"]
        ]

    @property
    def notes(self) -> list[str]:
        """Statements on what ε covers."""
        return list(self.details["notes"])

    def __str__(self) -> str:
        return (self.path / "compare.md").read_text()


@dataclasses.dataclass(frozen=True)
class Tuned:
    """Result of `tune`."""

    comparison: Comparison
    #: The run of the released model: `load_into`, `predict`, `save`.
    run: Run
    #: The chosen settings.
    settings: dict[str, Any]
    #: ε of the whole search, which covers the choice.
    epsilon: float
    #: Noisy score of the released model, which ε covers.
    score: float


def compare(
    module: Any,
    data: Any,
    methods: Mapping[str, Mapping[str, Any]],
    *,
    epsilon: float | Sequence[float],
    test: Any,
    seeds: int | Sequence[int] = 1,
    loss: Any = None,
    label: str | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    budget: str | os.PathLike[str] | None = None,
    **given: Any,
) -> Comparison:
    """Trains `module` by each of the `methods` at each `epsilon`, `seeds` times, and returns the table.

    ``damper.compare(module, (X, y), {"plain": {}, "momentum": {"optimizer": "momentum"}}, epsilon=[1, 3], delta=1e-5, test=0.2, epochs=5,
    batch_size=256)``

    `methods` has the settings of each row, and the other settings are shared. A list of values is tuned on a part of the
    training rows. `test` is as in `damper.fit`. A number of `seeds` takes keys from the operating system, and a list of
    seeds makes simulations, which are not private.

    **Each run is charged by itself.** All runs on the same rows, those that tune included, cost more than any one of
    them. `budget=` charges them to one file and refuses those above its limit. The accuracies are exact functions of
    the held-out rows, which epsilon does not cover, and neither is a choice by them.
    """
    own = {"epsilon": _listed(epsilon), "seeds": seeds, "method": {name: dict(one) for name, one in methods.items()}}
    return _compared(module, data, own, loss, test, label, out, budget, dict(given))


def tune(
    module: Any,
    data: Any,
    search: Mapping[str, Sequence[Any]],
    *,
    epsilon: float,
    test: Any,
    private: bool = True,
    candidates: str = "geometric:0.2",
    loss: Any = None,
    label: str | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    budget: str | os.PathLike[str] | None = None,
    **given: Unpack[Settings],
) -> Tuned:
    """Trains `module` with settings from the lists of `search`, and returns the best run.

    ``damper.tune(module, (X, y), {"lr": [0.5, 1, 2]}, epsilon=3, test=0.2, epochs=5).run.load_into(module)``

    With `private=True`, `epsilon` is that of the whole search. It covers the choice, which follows from noisy scores on a
    fifth of the training rows. The number of candidates is drawn from `candidates`, and only the best model is
    released. The whole search is charged before its first candidate trains. The time that it takes is not covered.

    There is no search without privacy here: `damper.compare` shows exact figures, and a choice by them is not covered.

    The lists are public. The figures on `test` are exact, and epsilon does not cover them.
    """
    if not any(isinstance(values, (list, tuple)) and len(values) > 1 for values in search.values()):
        raise Error("search: give lists of two values or more by setting, such as {'lr': [0.5, 1]}")
    if not private:
        raise Error("private=False: no epsilon covers a choice by exact figures; use damper.compare, and then damper.fit with the settings")
    own = {
        "epsilon": epsilon,
        "seeds": 1,
        "method": {METHOD: {name: list(values) if isinstance(values, (list, tuple)) else values for name, values in search.items()}},
        "tune_private": candidates,
    }
    settings = dict(given)
    found = _compared(module, data, own, loss, test, label, out, budget, settings)
    (last,) = found.details["runs"]
    released = last["search"]
    folder = found.path / released["folder"]
    chosen = {name.replace("-", "_"): value for name, value in tomllib.loads("\n".join(released["settings"])).items()}
    # `predict` and `evaluate` read these settings.
    (folder / RECORD).write_text("".join(_toml({**{name: one for name, one in settings.items() if name not in FILES}, **chosen})))
    return Tuned(found, Run(folder), chosen, float(last["epsilon"]), float(released["score"]))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _compared(
    module: Any, data: Any, own: dict[str, Any], loss: Any, test: Any, label: Any, out: Any, budget: Any, settings: dict[str, Any]
) -> Comparison:
    for row in own["method"].values():
        row.setdefault("method", settings.get("method") or "dp-sgd")
    settings.pop("method", None)
    made = prepared(module, data, loss, test, label, "auto", settings)
    for note in made.notes:
        warnings.warn(note, PrivacyWarning, stacklevel=3)
    if budget is not None:
        own["budget"] = os.path.abspath(budget)
        count = charged(settings, test, made.train)
        if settings.get("samples") is None and count is not None:
            settings["samples"] = count
    use_onnxruntime()
    # The folder is readable by its owner alone, and the samples are removed with it.
    with _folder(out) as folder, tempfile.TemporaryDirectory() as temporary:
        file = pathlib.Path(temporary) / "module.onnx"
        settings |= {"model": str(file), "data": _written(made.train, temporary, "train")}
        settings["test"] = test if made.test is None else _written(made.test, temporary, "test")
        text = pathlib.Path(temporary) / "compare.toml"
        try:
            made.write_model(file)
            text.write_text("".join(_toml({**settings, **own})))
            answer, interrupted = _damper.call("compare", [str(text)], {"json": True, "quiet": True, "out": str(folder)}, _warn)
        except Error as error:
            raise Error(str(error).replace(str(file), "the exported module").replace(f"{text}: ", "")) from None
        if interrupted:
            raise KeyboardInterrupt
        return Comparison(folder, json.loads(answer))


def _warn(text: str) -> None:
    event = json.loads(text)
    if event["event"] == "warning":
        warnings.warn(event["text"], PrivacyWarning, stacklevel=4)


def _written(samples: Samples, folder: str, name: str) -> str:
    """Writes samples as a file for the command and returns its name with the kind."""
    file = pathlib.Path(folder) / f"{name}.npz"
    arrays = dict(samples.inputs)
    if samples.labels is not None:
        arrays["y" if "y" not in arrays else "labels"] = samples.labels
    np.savez(file, **arrays)
    return f"npz:{file}"


def _toml(table: Mapping[str, Any], head: str = "") -> Iterator[str]:
    """Yields the lines of `table`. None and empty values are left out."""
    if head:
        yield f"\n[{head}]\n"
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    for name, value in table.items():
        if value is not None and name not in inner:
            yield f"{name.replace('_', '-')} = {_literal(value)}\n"
    for name, value in inner.items():
        if name == "method":
            for row, settings in value.items():
                yield from _toml(settings, f"method.{json.dumps(str(row))}")


def _literal(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    with contextlib.suppress(AttributeError):
        value = value.item()
    return json.dumps(value if isinstance(value, (bool, int, float)) else str(value))
