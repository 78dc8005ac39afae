"""Comparisons and private searches on a module and arrays."""

import re
import warnings

import damper
import numpy as np
import pytest
import torch
from conftest import mlp, separable
from damper import _damper

X, Y = separable(300)
SETTINGS = {"test": (X[240:], Y[240:]), "delta": 1e-5, "epochs": 1, "batch_size": 64, "clip": 0.5}
DATA = (X[:240], Y[:240])


def quiet(call, *args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **{**SETTINGS, **settings})


def test_methods_are_compared():
    rows = {"plain": {"lr": 0.5}, "momentum": {"optimizer": "momentum", "lr": 0.2}}
    found = quiet(damper.compare, mlp(), DATA, rows, epsilon=[2, 8], seeds=1)
    assert [(row["method"], row["budget"], row["n"]) for row in found.rows] == [(name, e, 1) for name in rows for e in (2, 8)]
    assert all(row["epsilon"] <= row["budget"] for row in found.rows) and "momentum" in str(found)
    assert any("add up" in note for note in found.notes)
    # No samples are left in the folder.
    assert not list(found.path.rglob("*.npz"))


def test_a_private_search_is_charged_as_a_whole():
    module = mlp()
    found = quiet(damper.tune, module, DATA, {"lr": [0.2, 1.0], "optimizer": ["sgd", "momentum"]}, epsilon=4, candidates="geometric:0.5")
    assert 2 < found.epsilon <= 4 and damper.epsilon(found.run.path) == pytest.approx(found.epsilon, rel=1e-6)
    assert found.settings["lr"] in (0.2, 1.0) and found.settings["optimizer"] in ("sgd", "momentum")
    found.run.load_into(module)
    with torch.no_grad():
        expected = module(torch.from_numpy(X)).numpy()
    assert np.allclose(found.run.predict(X), expected, atol=1e-5)
    assert found.run.evaluate(*SETTINGS["test"]).accuracy == pytest.approx((expected[240:].argmax(1) == Y[240:]).mean())


def test_the_model_of_a_search_is_finished():
    found = quiet(damper.tune, mlp(), DATA, {"lr": [0.2, 1.0], "optimizer": "momentum"}, epsilon=4)
    assert found.run.finished and damper.Run(found.run.path).finished and found.run.details["finished"]
    assert "unfinished" not in repr(found.run) and found.settings["lr"] in (0.2, 1.0)
    assert "momentum" in str(found.comparison.details["methods"])
    with pytest.raises(damper.Error, match="of a search, whose report is compare.html"):
        found.run.report()


def test_wrong_searches_are_errors(tmp_path):
    with pytest.raises(damper.Error, match="search: give lists"):
        quiet(damper.tune, mlp(), DATA, {"lr": [1.0]}, epsilon=4)
    with pytest.raises(damper.Error, match="private=False: no epsilon"):
        quiet(damper.tune, mlp(), DATA, {"lr": [0.2, 1.0]}, epsilon=4, private=False)
    with pytest.raises(damper.Error, match="held-out"):
        quiet(damper.tune, mlp(), DATA, {"lr": [0.2, 1.0]}, epsilon=4, test=None)
    with pytest.raises(damper.Error, match="lr"):
        quiet(damper.compare, mlp(), DATA, {"plain": {"lr": -1}}, epsilon=4)
    assert list(tmp_path.iterdir()) == []


def charged(limit=100.0):
    _damper.call("budget", ["all.budget"], {"create": "rows", "epsilon": limit, "delta": 1e-4, "json": True}, lambda _: None)
    return "all.budget"


def test_budgets_are_charged_for_the_given_number_of_samples():
    budget = charged()
    fixed = {**SETTINGS, "noise_multiplier": 1.0, "lr": 0.5, "progress": False, "budget": budget, "test": 0.2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The command draws the held-out rows.
        with pytest.raises(damper.Error, match="samples"):
            damper.fit(mlp(), DATA, **fixed)
        with pytest.raises(damper.Error, match="training split has [0-9]+ samples") as raised:
            damper.fit(mlp(), DATA, **fixed, samples=240)
        count = int(re.search("has ([0-9]+) samples", str(raised.value))[1])
        assert damper.fit(mlp(), DATA, **fixed, samples=count).details["privacy"]["samples"] == count < 240
        run = damper.fit(mlp(), DATA, **{**fixed, "test": None}, dataset_size=300)
        expected = damper.epsilon(noise_multiplier=1.0, sampling_rate=64 / 300, steps=run.steps, delta=1e-5)
        assert run.epsilon == pytest.approx(expected, rel=1e-6)
    quiet(damper.compare, mlp(), DATA, {"plain": {"lr": 0.5}}, epsilon=2, budget=budget, test=0.2, samples=count)
