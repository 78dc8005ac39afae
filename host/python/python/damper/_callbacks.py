"""Callbacks of a run: the user's functions that receive its progress."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Callable, Iterable

from ._damper import Error
from ._run import Run

HOOKS = ("on_step", "on_evaluate", "on_end")


@dataclasses.dataclass(frozen=True)
class StepEvent:
    """Steps of a run so far. All values are released or public."""

    #: Number of steps so far. Each was charged before its noise was added.
    step: int
    #: Number of planned steps.
    steps: int
    #: ε of the first `by_step` steps, an upper bound. None if the run is not private.
    epsilon: float | None
    #: Steps that `epsilon` covers, `step` or more.
    by_step: int
    #: "private", or "simulation" (`seed=`) or "not private" for a run whose figures no privacy protects.
    kind: str


@dataclasses.dataclass(frozen=True)
class EvaluateEvent:
    """An evaluation on the held-out samples, as a row of `run.history`."""

    step: int
    #: Passes over the data so far.
    epoch: float
    #: ε of the steps so far. None if the run is not private.
    epsilon: float | None
    #: Mean loss on the held-out samples.
    loss: float
    #: Accuracy on them, 0 to 1. None if the loss has no classes.
    accuracy: float | None
    #: "exact" figures are functions of the held-out rows, which epsilon does not cover. "private" figures have noise, and
    #: epsilon covers them.
    test_metrics: str
    #: As in `StepEvent`.
    kind: str


class Callback:
    """Receives the progress of a run. Override the methods that you need, and give objects by `callbacks=[...]`.

    Callbacks get released and public values only: no gradient, no sample, no loss of training rows, and no warning about
    rows. They run in the thread of `damper.fit`, between two steps.
    """

    def on_step(self, event: StepEvent) -> None:
        """Is called after each step that completes a twentieth of the plan, so also after the last. These steps do not depend on
        time, which epsilon does not cover."""

    def on_evaluate(self, event: EvaluateEvent) -> None:
        """Is called after each evaluation on the held-out samples."""

    def on_end(self, run: Run) -> None:
        """Is called once with the run: after its outputs are written, or after Ctrl-C ended it (`run.finished` is False). It is
        not called if `damper.fit` raises another error."""


class Callbacks:
    """The callbacks of one run, in their order."""

    def __init__(self, given: Iterable[Any] | None, test_metrics: str | None, kind: str) -> None:
        self.given = list(_checked(given))
        self.facts = {"test_metrics": test_metrics or "exact", "kind": kind}
        #: True after a callback failed. The run ends after its step, and no more events are passed on.
        self.failed = False

    def __call__(self, event: dict[str, Any]) -> None:
        """Passes an event of the command on, if it is one for callbacks."""
        is_step = event["event"] == "step"
        event = {**event, **self.facts}
        if is_step and _is_fixed(event["step"], event["steps"]):
            self._call("on_step", StepEvent(*(event[one.name] for one in dataclasses.fields(StepEvent))))
        elif event["event"] == "evaluation":
            self._call("on_evaluate", EvaluateEvent(*(event[one.name] for one in dataclasses.fields(EvaluateEvent))))

    def end(self, run: Run) -> None:
        # A run of its folder alone, without the warnings about rows.
        self._call("on_end", Run(run.path))

    def _call(self, hook: str, value: Any) -> None:
        for one in self.given:
            function: Callable[[Any], None] | None = getattr(one, hook, None)
            if function is not None and not self.failed:
                try:
                    function(value)
                except KeyboardInterrupt:
                    # It ends the run as Ctrl-C does.
                    raise
                except BaseException:
                    self.failed = True
                    raise


def _check_call(one: Any, hook: str) -> None:
    """Fails if the method of a callback does not take one value, before anything is charged."""
    try:
        inspect.signature(getattr(one, hook, None)).bind(None)
    except TypeError as error:
        if callable(getattr(one, hook, None)):
            raise Error(f"callbacks: {hook} of {type(one).__name__} is called with one value ({error}); a damper.Callback has the forms") from None
    except ValueError:
        # A builtin, whose form Python does not know.
        return


def _is_fixed(step: int, steps: int) -> bool:
    """Returns true for the steps that complete a twentieth of the plan. The command reports these in every run, and others by
    the time that draws take."""
    return step * 20 // steps > (step - 1) * 20 // steps


def kind_of(settings: dict[str, Any]) -> str:
    """Returns the kind of a run with these settings."""
    return "not private" if settings.get("not_private") else "private" if settings.get("seed") is None else "simulation"


def _checked(given: Iterable[Any] | None) -> Iterable[Any]:
    if given is not None and (isinstance(given, (str, dict)) or not hasattr(given, "__iter__")):
        raise Error(f"callbacks: a {type(given).__name__}; give a list of objects with {', '.join(HOOKS)}")
    for one in given or ():
        if isinstance(one, type):
            raise Error(f"callbacks: the class {one.__name__}; give an object of it, {one.__name__}()")
        if not any(callable(getattr(one, hook, None)) for hook in HOOKS):
            raise Error(f"callbacks: a {type(one).__name__} without {', '.join(HOOKS)}; give it one of these methods")
        for hook in HOOKS:
            _check_call(one, hook)
        yield one
