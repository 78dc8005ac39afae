"""Callbacks: their events, their privacy, and a run that a callback ends."""

import math
import warnings

import damper
import pytest
import torch
from conftest import QUICK, mlp, separable

DATA = separable(400)
TEST = separable(100, seed=0)
SETTINGS = {**QUICK, "epochs": 4, "eval_every": 1, "test": TEST}


def fit(*callbacks, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return damper.fit(mlp(), DATA, callbacks=list(callbacks), **{**SETTINGS, **settings})


class Kept(damper.Callback):
    """Keeps its events."""

    def __init__(self):
        self.steps, self.evaluations, self.runs = [], [], []

    def on_step(self, event):
        self.steps.append(event)

    def on_evaluate(self, event):
        self.evaluations.append(event)

    def on_end(self, run):
        self.runs.append(run)


def of_history(run):
    return [(row["step"], row["epoch"], row["epsilon"], row["test_loss"], row["test_accuracy"], row["test_metrics"]) for row in run.history]


def of_events(events):
    return [(one.step, pytest.approx(one.epoch), one.epsilon, one.loss, one.accuracy, one.test_metrics) for one in events]


@pytest.mark.parametrize("metrics", ["exact", "private"])
def test_events_are_those_of_the_run(metrics):
    kept = Kept()
    run = fit(kept, test_metrics=metrics)
    assert len(run.history) == 5 and of_history(run) == of_events(kept.evaluations)
    assert {one.test_metrics for one in kept.evaluations} == {metrics}
    assert kept.steps[-1].step == kept.steps[-1].steps == run.steps
    assert kept.steps[-1].by_step == run.steps and kept.steps[-1].epsilon <= run.epsilon * (1 + 1e-9)
    # The first steps at or after each twentieth of the plan, whatever the time of a step.
    assert [one.step for one in kept.steps] == sorted({math.ceil(part * run.steps / 20) for part in range(1, 21)})
    assert {one.kind for one in kept.steps + kept.evaluations} == {"private"}
    assert [one.path for one in kept.runs] == [run.path] and kept.runs[0].finished


def test_values_are_released_or_public(monkeypatch):
    # The command's events with the fields that callbacks get, and no other.
    assert set(damper.StepEvent.__annotations__) == {"step", "steps", "epsilon", "by_step", "kind"}
    assert set(damper.EvaluateEvent.__annotations__) == {"step", "epoch", "epsilon", "loss", "accuracy", "test_metrics", "kind"}
    texts = []

    class Dump:
        def on_step(self, event):
            texts.append(repr(event))

        def on_end(self, run):
            texts.append(repr(vars(run)))

    # Labels of one class alone give a warning about rows.
    run = fit(Dump(), test=None, eval_every=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = damper.fit(mlp(), (DATA[0], DATA[1] * 0), callbacks=[Dump()], **QUICK)
    assert run.data_warnings and not any("every training row" in text for text in texts)


def test_steps_are_charged_before_callbacks_hear_of_them():
    found = []

    class Charged:
        def on_step(self, event):
            ledger = damper.Run("run")
            found.append((event.step, ledger.steps, ledger.epsilon))

    run = fit(Charged(), out="run")
    assert found and all(step <= charged for step, charged, _ in found)
    assert [epsilon for *_, epsilon in found] == sorted(epsilon for *_, epsilon in found) and found[-1][2] <= run.epsilon


class Failing(Kept):
    def on_step(self, event):
        super().on_step(event)
        if event.step >= 5:
            raise RuntimeError("the logger is down")


def test_a_failing_callback_ends_the_run_which_goes_on():
    whole = fit(seed=3)
    failing, other = Failing(), Kept()
    with pytest.raises(RuntimeError, match="the logger is down") as raised:
        fit(failing, other, seed=3, out="run", checkpoint_every=0)
    run = damper.Run("run")
    assert not run.finished and run.steps < whole.steps
    (note,) = raised.value.__notes__
    assert f"after step {run.steps}: epsilon" in note and "damper.resume(" in note
    # Nothing is passed on after the failure.
    assert failing.steps[-1].step == other.steps[-1].step + 1 if other.steps else True
    assert len(failing.steps) == 1 + len(other.steps) and failing.runs == other.runs == []
    kept = Kept()
    resumed = damper.resume("run", DATA, TEST, callbacks=[kept], progress=False)
    assert resumed.details["params_digest"] == whole.details["params_digest"]
    # Its bounds on epsilon are composed in other parts.
    assert [one.path for one in kept.runs] == [resumed.path] and [(step, *rest) for step, _, _, *rest in of_history(resumed)] == [(step, *rest) for step, _, _, *rest in of_history(whole)]
    assert of_events(other.evaluations + kept.evaluations) == of_history(resumed)
    assert {one.kind for one in failing.steps + kept.steps + kept.evaluations} == {"simulation"}


def test_interrupts_end_with_the_run():
    class Stop(Kept):
        def on_step(self, event):
            raise KeyboardInterrupt

    kept = Kept()
    with pytest.raises(damper.Interrupted) as raised:
        fit(kept, Stop(), out="run")
    (run,) = kept.runs
    assert run.path == raised.value.run.path and not run.finished and run.steps >= kept.steps[-1].step


def test_baselines_have_no_epsilon():
    kept = Kept()
    settings = {"not_private": True, "epochs": 1, "batch_size": 64, "lr": 0.3, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        damper.fit(mlp(), DATA, test=TEST, callbacks=[kept], **settings)
    assert {one.epsilon for one in kept.steps} == {one.epsilon for one in kept.evaluations} == {None}
    assert {one.kind for one in kept.steps + kept.evaluations} == {"not private"}


def test_other_objects_are_refused():
    for given, match in [("x", "list of objects"), ([Kept], r"Kept\(\)"), ([print], "without on_step"), ([{}], "without on_step")]:
        with pytest.raises(damper.Error, match=match):
            damper.fit(mlp(), DATA, callbacks=given, **QUICK)


def test_methods_of_another_form_are_errors_before_the_run(tmp_path):
    class Trainers:
        def on_evaluate(self, args, state, control, **others):
            raise AssertionError

    with pytest.raises(damper.Error, match="callbacks: on_evaluate of Trainers is called with one value"):
        damper.fit(mlp(), separable(60), **QUICK, callbacks=[Trainers()], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
