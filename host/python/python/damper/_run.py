"""The result of a run."""

from __future__ import annotations

import csv
import json
import math
import os
import pathlib
import shutil
import tempfile
from typing import Any

import numpy as np

from . import _damper, _peft
from ._damper import Error
from ._metadata import METADATA
from ._plain import plain
from ._predict import Evaluation, evaluate, predict, without_loss


class Run:
    """A training run, identified by its output folder.

    `damper.fit` returns it. `damper.Run(path)` opens a run, finished or not.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        #: Output folder: `model.onnx`, `report.html`, `report.json`, `statement.json`, `events.json`, `metrics.csv`,
        #: and the private folder `checkpoint`.
        self.path = pathlib.Path(path).absolute()
        file = self.path / "report.json"
        self._report: dict[str, Any] | None = json.loads(file.read_text()) if file.is_file() else None
        #: Warnings about rows of the data, such as samples without a finite gradient, a text each. Epsilon does not
        #: cover them, so no warning, event or public file contains them. Empty for a run that was opened by its folder.
        self.data_warnings: list[str] = []
        self._known = self._report if self._report is not None else _unfinished(self.path)
        # A private search releases one model, and the comparison's folder has its report.
        self._is_released = self._report is None and self._known.get("search") is not None and (self.path / "model.onnx").is_file()
        if self._is_released:
            self._known["finished"] = True

    @property
    def finished(self) -> bool:
        """False for a stopped run, which `damper.resume` continues."""
        return self._report is not None or self._is_released

    @property
    def epsilon(self) -> float:
        """ε of the whole run, rounded up. For an unfinished run, ε of the steps charged so far. Infinite if the run is
        not private."""
        return math.inf if self.not_private else float(self._known["epsilon"])

    @property
    def delta(self) -> float | None:
        """δ. None if the run is not private."""
        return None if self.not_private else float(self._known["delta"])

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over the clip. Under a noise schedule, that of the step with the least noise.
        0 if the run is not private."""
        return 0.0 if self.not_private else float(self._known["noise_multiplier"])

    @property
    def steps(self) -> int:
        """Number of steps charged, or taken if the run is not private."""
        return int(self._known["steps"])

    @property
    def steps_taken(self) -> int:
        """Number of steps that trained the model. It is below `steps`, the charged steps, if the run ended early
        (`stop_early=`)."""
        return int((self._known.get("early_stop") or {}).get("steps_taken", self.steps))

    @property
    def best_model(self) -> pathlib.Path | None:
        """File with the parameters of the best evaluation, if the run ended early (`stop_early=`). With exact held-out
        figures, ε does not cover this choice."""
        name = (self._known.get("early_stop") or {}).get("best_model")
        return self.path / name if name else None

    @property
    def epsilon_of_taken(self) -> float:
        """ε of a plan with only the steps taken. After an early stop the claim is `epsilon`, that of all planned steps.
        """
        return float((self._known.get("early_stop") or {}).get("epsilon_of_taken", self.epsilon))

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the held-out samples, 0 to 1. None without such samples, or if the loss has no classes."""
        value = (self._report or {}).get("test_accuracy")
        return None if value is None else float(value)

    @property
    def loss(self) -> float | None:
        """Mean loss on the held-out samples. None without such samples."""
        value = (self._report or {}).get("test_loss")
        return None if value is None else float(value)

    @property
    def non_finite(self) -> dict[str, Any] | None:
        """Number of training samples without a finite gradient, which add nothing (`release_non_finite=True`).

        `count` is an integer from 0 to `samples`, computed from the noisy `released`. Its noise has the standard
        deviation `noise_multiplier`. `epsilon` is that of this release alone, which is part of the run's. `count` and
        `released` are None if a crash lost them.

        None if the run did not request it, or is unfinished. ε covers it.
        """
        found = (self._report or {}).get("non_finite")
        return None if found is None else dict(found)

    @property
    def simulation(self) -> bool:
        """True if the user gave the seed. The noise can then be computed again, so nothing is private."""
        return self._known.get("run") == "simulation"

    @property
    def not_private(self) -> bool:
        """True for a baseline, trained by `not_private=True`. Without clipping and noise, the model may reveal any
        training sample."""
        return self._known.get("run") == "not private"

    @property
    def details(self) -> dict[str, Any]:
        """Content of `report.json` as a dict. For an unfinished run, the answer of `damper epsilon DIR --json`, or of
        `damper report DIR --json` if it is not private."""
        return dict(self._known)

    @property
    def history(self) -> list[dict[str, Any]]:
        """Rows of `metrics.csv`, one for each evaluation on held-out samples."""
        file = self.path / "metrics.csv"
        if not file.is_file():
            return []
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(lines)]

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The trained parameters, float32, by the names of the module's `named_parameters()`."""
        values, places, trained = self._values()
        return {name: values[name] for name, place in places.items() if place["tensor"] in trained}

    def predict(self, X: Any, *, kind: str = "output") -> Any:
        """Returns the model's outputs for the samples `X`, an array `[N, ...]`, or a dict of arrays if the model has several.

        `X` is read as the training data: an array, a tuple, a dict, a DataFrame with the columns by name, or a Dataset of
        inputs. The run's constants (`normalize`, `normalize_private`, `scale`) apply, so outputs are in the unit of the
        labels.

        With `kind="class"` it returns the most probable class of each sample, by its public name if the run has `classes`,
        and with `kind="probability"` the probabilities. Use them with losses on logits.

        The model is released, so predictions on public rows need no privacy. A prediction on a private row depends on
        that row, and epsilon does not cover it.
        """
        self._model()
        return predict(self.path, X, kind)

    def evaluate(self, X: Any, y: Any = None) -> Evaluation:
        """Returns `(loss, accuracy, samples)` of the model on the samples `X` with the labels `y`.

        Both may also be one argument, as the data of `damper.fit`, or the path of a file that the command reads. The figures are those of `run.loss` and
        `run.accuracy`, computed by the same code. They are exact functions of these rows, so epsilon does not cover them.
        """
        self._model()
        return evaluate(self.path, X if y is None else (X, y))

    def load_into(self, module: Any) -> Any:
        """Copies the trained parameters into `module`, bit for bit, and returns it.

        For adapters (`lora=`) it copies the merged weights. Adapters of the package `peft` are parameters like any
        others. Frozen parameters and buffers that the outputs depend on get their values in the run. `module` must have
        exactly the parameters of the trained module.

        Raises `damper.Error` if a parameter is missing, or has another shape. Then nothing is copied.
        """
        import torch

        values, _, _ = self._values()
        inner = plain(module)
        _peft.check_unmerged(inner)
        parameters = dict(inner.named_parameters())
        tensors = {**parameters, **dict(inner.named_buffers())}
        expected = set(self._metadata()["parameters"])
        for name in [name for name in parameters if name not in expected]:
            raise Error(f"'{name}' is no parameter of the module that was trained; give a module of the same class and settings")
        for name in [name for name in expected if name not in parameters]:
            raise Error(f"the module has no parameter '{name}', which the trained one has; give one of the same class and settings")
        for name, value in values.items():
            if name not in tensors:
                raise Error(f"the module has no buffer '{name}', which the trained one has")
            if tuple(tensors[name].shape) != value.shape:
                raise Error(f"'{name}' has the shape {tuple(tensors[name].shape)} where the trained one has {value.shape}")
        with torch.no_grad():
            for name, value in values.items():
                tensors[name].copy_(torch.from_numpy(value))
        return module

    def report(self, path: str | os.PathLike[str] | None = None) -> pathlib.Path:
        """Copies the report to `path`, a page (`.html`) or `.json`, and returns its location. Without a path, returns
        its location in the folder."""
        suffix = pathlib.Path(path).suffix if path is not None else ".html"
        source = self.path / ("report.json" if suffix == ".json" else "report.html")
        if not source.is_file() and self._is_released:
            raise Error(f"{self.path}: the model is of a search, whose report is compare.html of the comparison's folder")
        if not source.is_file():
            raise Error(f"{self.path}: the run is unfinished and has no report; go on with damper.resume({str(self.path)!r})")
        return source if path is None else pathlib.Path(shutil.copyfile(source, path))

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Copies the trained model to `path`, an .onnx file for any ONNX runtime, and returns it. If the loss was a function,
        the copy lacks it and its input with the labels."""
        stripped = without_loss(self._model())
        if stripped is None:
            return pathlib.Path(shutil.copyfile(self._model(), path))
        pathlib.Path(path).write_bytes(stripped)
        return pathlib.Path(path)

    def __repr__(self) -> str:
        state = "" if self.finished else ", unfinished"
        state += ", simulation: not private" if self.simulation else ""
        shown = ["NOT PRIVATE"] if self.not_private else [f"epsilon={upward(self.epsilon)}", f"delta={self.delta:g}"]
        shown += [f"accuracy={self.accuracy:.4f}"] if self.accuracy is not None else []
        shown += [f"loss={self.loss:.4g}"] if self.loss is not None else []
        return f"<damper.Run {', '.join(shown)}, steps={self.steps}{state}, path={str(self.path)!r}>"

    def _model(self) -> pathlib.Path:
        file = self.path / "model.onnx"
        if not file.is_file():
            raise Error(f"{self.path}: has no model.onnx: the run was killed; go on with damper.resume({str(self.path)!r})")
        return file

    def _metadata(self) -> dict[str, Any]:
        _, metadata = _damper.read_model(self._model())
        if METADATA not in metadata:
            raise Error(f"{self.path}: the model is not of damper.fit, so its tensors have no names of a module")
        return json.loads(metadata[METADATA])

    def _still(self) -> tuple[list[str], list[str]]:
        """Returns the names of the trained parameters, and of those with the same bits as before the run."""
        known = self._metadata()
        before, _ = _damper.read_model(self.path / "checkpoint" / "module.onnx")
        before = {tensor: before[tensor] for tensor in known["trained"]}
        after, _ = _damper.read_model(self._model())
        still = {tensor for tensor, value in before.items() if after[tensor] == value}
        trained = [name for name, place in known["places"].items() if place["tensor"] in before]
        return trained, [name for name in trained if known["places"][name]["tensor"] in still]

    def _values(self) -> tuple[dict[str, np.ndarray], dict[str, Any], set[str]]:
        """Returns values by the names of the module, their positions in the file, and the trained initializers."""
        tensors, metadata = _damper.read_model(self._model())
        known = self._metadata()
        values = {}
        for name, place in known["places"].items():
            shape, data = tensors[place["tensor"]]
            value = np.frombuffer(data, np.float32).reshape(shape)
            values[name] = np.array(value.T if place["transposed"] else value, order="C").reshape(place["shape"])
        return values, known["places"], set(known["trained"])


def _unfinished(path: pathlib.Path) -> dict[str, Any]:
    """Returns the known facts about a stopped run."""
    plan = path / "checkpoint" / "plan.json"
    if plan.is_file() and json.loads(plan.read_text())["plan"]["run"] == "not private":
        with tempfile.TemporaryDirectory() as pages:
            answer, _ = _damper.call("report", [str(path)], {"json": True, "out": pages}, lambda _: None)
    else:
        answer, _ = _damper.call("epsilon", [str(path)], {"json": True}, lambda _: None)
    return json.loads(answer)


def _number(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return text or None


def upward(epsilon: float) -> str:
    """Formats ε with four decimals, rounded up."""
    return f"{math.ceil(epsilon * 1e4) / 1e4:.4f}"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run after a step. Charged steps count. `run` is the run so far."""

    def __init__(self, run: Run) -> None:
        state = "NOT PRIVATE" if run.not_private else f"at epsilon {upward(run.epsilon)}, which counts"
        is_kept = (run.path / "checkpoint" / "module.onnx").is_file()
        rest = f"go on with damper.resume({str(run.path)!r})" if is_kept else "it cannot be resumed"
        super().__init__(f"stopped after step {run.steps}, {state}; {rest}")
        self.run = run
