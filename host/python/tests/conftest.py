"""Shared parts of the tests."""

import os
import warnings

import damper
import numpy as np
import pytest
import torch


def pytest_collection_modifyitems(items):
    """`fit` exports by dynamo only if TorchScript fails. Most networks go through dynamo in the long checks alone."""
    if "DAMPER_LONG" in os.environ:
        return
    skip = pytest.mark.skip(reason="a second exporter: .ci/long python, or DAMPER_LONG=1")
    for item in items:
        if item.path.name in ("test_modules.py", "test_peft.py") and "dynamo" in item.name:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Runs without `out` go to a temporary folder, and initial weights are the same in every run."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    torch.set_num_threads(1)


def separable(n=400, width=12, classes=3, seed=0):
    """Returns samples of `classes` clusters: `[n, width]` and `[n]`."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, width))
    y = rng.integers(0, classes, n)
    x = centres[y] + rng.standard_normal((n, width))
    return x.astype(np.float32), y.astype(np.int64)


def mlp(width=12, classes=3):
    return torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.Tanh(), torch.nn.Linear(16, classes))


QUICK = {"noise_multiplier": 1.0, "delta": 1e-5, "epochs": 1, "batch_size": 64, "lr": 0.5, "progress": False}


def full_step(module, data, loss=None, test=None, **settings):
    """Runs one step of plain SGD on the mean of all samples, without clipping and noise. Returns the run, and the
    gradient of each parameter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"epochs": 1, "batch_size": len(data[1]), "lr": 0.5, "progress": False, **settings}
        run = damper.fit(module, data, loss=loss, test=test, not_private=True, **settings)
    assert run.steps == 1
    before = dict(module.named_parameters())
    return run, {name: (before[name].detach().numpy() - value) / settings["lr"] for name, value in run.params.items()}


def assert_gradients_equal(found, module, loss):
    """Checks within 1e-5 of the largest entry of each parameter's gradient, plus the float32 precision of a parameter
    near 1."""
    module.zero_grad()
    loss.backward()
    expected = {name: one.grad.numpy() for name, one in module.named_parameters() if one.requires_grad and one.grad is not None}
    assert set(found) == set(expected)
    for name, grad in expected.items():
        assert np.abs(found[name] - grad).max() <= 1e-5 * np.abs(grad).max() + 5e-7, name
