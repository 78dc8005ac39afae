"""The extension module: the command, called in this process."""

from os import PathLike
from typing import Any, Callable

import numpy as np

__version__: str

# Arrays of features with their names, and labels.
_Split = tuple[list[tuple[str, np.ndarray]], np.ndarray | None]

class Error(ValueError):
    """Error with the problem and the fix, in the words of the command, with arguments instead of flags."""

def call(
    name: str,
    args: list[str],
    settings: dict[str, Any],
    tell: Callable[[str], None],
    data: tuple[_Split, _Split | None] | None = None,
    tell_of_rows: Callable[[str], None] | None = None,
) -> tuple[str, bool]:
    """Runs the subcommand `name`. Returns its answer, and True if Ctrl-C ended it early.

    `settings` are flags without dashes: a bool is a switch, a list a repeated flag, None is omitted. `tell` receives a
    JSON object for each event, and `tell_of_rows` each warning that depends on rows of the data. `data` are the
    training rows, and held-out rows.
    """

def main(args: list[str]) -> int:
    """Runs the command line `args`, starting with the program's name. Returns the exit code."""

def use_library(path: str) -> None:
    """Sets onnxruntime's library if ORT_DYLIB_PATH does not. The first call wins."""

def read_model(path: str | PathLike[str]) -> tuple[dict[str, tuple[tuple[int, ...], bytes]], dict[str, str]]:
    """Returns the float32 initializers of an .onnx file, `{name: (shape, bytes)}`, and its metadata."""

def privacy_bounds(kind: str, event: tuple[Any, ...], neighbours: str, value: float) -> tuple[float | None, float]:
    """Returns the lower and the upper bound of the event, given as nested tuples. `kind` is epsilon, epsilon-rdp,
    epsilon-both, delta or delta-both. The lower bound is None if it is not asked for, or not known."""

def calibrate_event(
    make: Callable[[Any], tuple[Any, ...]],
    neighbours: str,
    budget: tuple[float, float],
    ends: tuple[float, float],
    is_count: bool,
) -> Any:
    """Returns the value between both ends whose event costs at most the budget, (ε, δ), and nearly as much."""
