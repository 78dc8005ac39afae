"""Checks that parameters are trained: by the file before a run, and by the values after it."""

from __future__ import annotations

import fnmatch
import functools
import json
import pathlib
from typing import Any

from . import _damper
from ._damper import Error
from ._run import Run, upward

# Settings that affect how a model is read.
OF_MODEL = ("loss", "output", "class_axis", "reduction", "class_weights", "label_smoothing", "focal_gamma", "parameter", "train", "lora")
OF_MODEL += ("lora_target", "lora_alpha", "shape", "input", "init_seed")
# Suffixes of the two matrices of an adapter of `lora=`, after the name of its weight.
ADAPTERS = (".lora_A", ".lora_B")


class NotTrained(Error):
    """Parameters that should be trained and are not: no gradient reaches them, or a run left them unchanged bit for
    bit."""

    #: Their names in `module.named_parameters()`.
    parameters: list[str] = []
    #: The run that left them unchanged. None if the error came before training. Then nothing was released or charged.
    run: Run | None = None


def _error(message: str, parameters: list[str], run: Run | None = None) -> NotTrained:
    error = NotTrained(message)
    error.parameters, error.run = parameters, run
    return error


def inspected(file: pathlib.Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the parameters of the exported `file`, as the command reads it."""
    asked = {name: settings.get(name) for name in OF_MODEL}
    answer, _ = _damper.call("inspect", [str(file)], {"json": True, **asked}, lambda _: None)
    return json.loads(answer)["parameters"]


def with_adapters(parameters: list[dict[str, Any]]) -> list[str]:
    """Returns the tensors that change: those with an adapter, and others that are trained."""
    trained = [one["name"] for one in parameters if one["trained"]]
    return sorted({functools.reduce(str.removesuffix, ADAPTERS, name) for name in trained})


def check_reached(parameters: list[dict[str, Any]], asked: list[str] | str | None, names: dict[str, str], adapts: bool) -> None:
    """Fails if no gradient reaches one of the tensors `asked`, or with `adapts` an adapter. Otherwise only noise would
    change it, or nothing.

    `asked` are names, or patterns with `adapts`. `names` maps tensors to names in the module.
    """
    patterns = [asked] if isinstance(asked, str) else asked or []

    def is_asked(name: str) -> bool:
        return adapts and name.endswith(ADAPTERS) or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    lost = {one["name"]: one["reason"] for one in parameters if not one["trained"] and is_asked(one["name"])}
    if not lost:
        return
    lost_names = list(dict.fromkeys(names.get(name, name) for name in lost))
    reason = next(iter(lost.values())).removeprefix("not trained: ")
    fix = "leave them out of lora_target and train" if adapts else "freeze them with requires_grad_(False), or correct forward"
    raise _error(f"{_list(lost_names)}: would not be trained ({reason}); {fix}", lost_names)


def check_moved(run: Run) -> str | None:
    """Fails if the run left a trained parameter unchanged bit for bit.

    Noise changes every trained parameter, so an unchanged parameter was not trained. In a baseline without noise a
    gradient may be exactly 0. If only some parameters stay unchanged there, returns the text of a warning.
    """
    trained, still = run._still()
    if not still or run.steps_taken == 0:
        return None
    steps = f"{run.steps_taken} step{'s' if run.steps_taken != 1 else ''}"
    if run.not_private and len(still) < len(trained):
        return f"{_list(still)}: the gradient was exactly 0 in {steps}, or below the precision of the values, so they are as they were"
    cause = "their gradient was exactly 0" if run.not_private else "though noise moves each parameter that is trained"
    charged = "" if run.not_private else f", and epsilon {upward(run.epsilon)} is charged"
    raise _error(
        f"{_list(still)}: not trained: after {steps} the values are bit for bit as they were, {cause}; raise lr if its steps are below the "
        f"precision of the values. The run is in {run.path}{charged}",
        still,
        run,
    )


def _list(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
