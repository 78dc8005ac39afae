"""Errors name parameters that are not trained: by the file before the run, and by the values after it."""

import copy
import pickle
import warnings
from pathlib import Path

import damper
import numpy as np
import pytest
import torch
from conftest import QUICK, mlp, separable
from damper._export import ATTEMPTS
from torch import nn

BASELINE = {"not_private": True, "epochs": 1, "batch_size": 64, "lr": 0.3, "progress": False}


def fit(module, data=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return damper.fit(module, data or separable(), **{**QUICK, **settings})


class Rounded(nn.Module):
    """A layer whose outputs are rounded: no gradient reaches it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.round(self.first(x)))


class Heads(nn.Module):
    """Two outputs, the first of which feeds the loss."""

    def __init__(self):
        super().__init__()
        self.net, self.other = mlp(), nn.Linear(12, 3)

    def forward(self, x):
        return self.net(x), self.other(x)


class Shifted(nn.Module):
    """Logits with an offset so large that small steps are below its precision."""

    def __init__(self):
        super().__init__()
        self.net, self.offset = mlp(), nn.Parameter(torch.full((3,), 2.0**20))

    def forward(self, x):
        return self.net(x) + self.offset


class Dead(nn.Module):
    """A ReLU that is 0 for each sample. With `whole` no other layer has parameters."""

    def __init__(self, whole=False):
        super().__init__()
        self.first, self.last = nn.Linear(12, 3), nn.Identity() if whole else nn.Linear(3, 3)
        nn.init.constant_(self.first.bias, -1000.0)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_no_gradient_is_an_error_before_the_run(exporter):
    cases = [(Rounded(), {"first.weight", "first.bias"}, {}), (Heads(), {"other.weight", "other.bias"}, {"output": "output"})]
    for module, lost, settings in cases:
        for private in (QUICK, BASELINE):
            with pytest.raises(damper.NotTrained, match="would not be trained .*requires_grad_") as raised:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    damper.fit(module, separable(), exporter=exporter, out="refused", **private, **settings)
            assert set(raised.value.parameters) == lost and raised.value.run is None
            assert all(f"'{name}'" in str(raised.value) for name in lost)
            assert not Path("refused").exists(), "something was charged"
        # No error if the user freezes them.
        for name in lost:
            module.get_parameter(name).requires_grad_(False)
        run = fit(module, exporter=exporter, **settings)
        assert lost.isdisjoint(run.params) and run.finished


def test_an_adapter_without_gradient_is_an_error():
    with pytest.raises(damper.NotTrained, match="leave them out of lora_target") as raised:
        fit(Rounded(), lora=2, lora_target="*.weight")
    assert {name.split(".lora")[0] for name in raised.value.parameters} == {"first.weight"}
    with pytest.raises(damper.NotTrained) as raised:
        fit(Rounded(), lora=2, lora_target="last.weight", train="first.b*")
    assert raised.value.parameters == ["first.bias"]
    assert set(fit(Rounded(), lora=2, lora_target="last.weight", train="last.bias").params) == {"last.weight", "last.bias"}


def test_folded_parameters_are_an_error(monkeypatch):
    """A product that the exporter computes from two parameters is neither of them."""

    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Parameter(torch.randn(12, 4)), nn.Parameter(torch.randn(4, 3))

        def forward(self, x):
            return x @ (self.left @ self.right)

    with monkeypatch.context() as patch:
        patch.setitem(ATTEMPTS, "dynamo", [("dynamo", True)])
        with pytest.raises(damper.Error, match="'left' is not one tensor of the file"):
            fit(Product(), exporter="dynamo")
    assert not Path("damper-runs").exists()
    # Without folding both exist.
    assert set(fit(Product(), exporter="dynamo").params) == {"left", "right"}


def test_values_that_stay_are_an_error():
    module = Shifted()
    with pytest.raises(damper.NotTrained, match="'offset': not trained: after 7 steps .*epsilon .* is charged") as raised:
        fit(module, lr=1e-3)
    error = raised.value
    assert error.parameters == ["offset"] and isinstance(error, damper.Error)
    assert error.run.finished and error.run.epsilon > 0 and str(error.run.path) in str(error)
    assert damper.epsilon(error.run.path) == pytest.approx(error.run.epsilon)
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error) and back.parameters == ["offset"] and back.run.path == error.run.path
    with pytest.raises(damper.NotTrained) as raised:
        fit(mlp(), lr=1e-30)
    assert raised.value.parameters == ["0.weight", "0.bias", "2.weight", "2.bias"]
    module.offset.requires_grad_(False)
    assert "offset" not in fit(module, lr=1e-3).params


def test_a_fault_of_the_export_is_found_after_the_run(monkeypatch):
    """The values reveal a parameter that the check of the file missed."""
    monkeypatch.setattr(damper._fit, "check_reached", lambda *_: None)
    with pytest.raises(damper.NotTrained) as raised:
        fit(Rounded())
    assert set(raised.value.parameters) == {"first.weight", "first.bias"} and raised.value.run is not None


def test_resumed_runs_are_checked(monkeypatch):
    x, y = separable(4000)

    def interrupt(self, event):
        raise KeyboardInterrupt

    monkeypatch.setattr(damper._fit._Bar, "_step", interrupt)
    with pytest.raises(damper.Interrupted) as raised:
        fit(Shifted(), (x, y), lr=1e-3, checkpoint_every=0, progress=True)
    monkeypatch.undo()
    with pytest.raises(damper.NotTrained) as error:
        damper.resume(raised.value.run.path, (x, y), progress=False)
    assert error.value.parameters == ["offset"] and error.value.run.finished


def test_noise_moves_what_has_no_gradient():
    """A dead unit is trained, because its gradient may come back. Noise changes each of its coordinates."""
    module = Dead()
    run = fit(module)
    for name, parameter in module.named_parameters():
        assert (run.params[name] != parameter.detach().numpy()).any(), name


def test_a_baseline_warns_of_what_stays():
    module = Dead()
    with pytest.warns(damper.PrivacyWarning, match="'first.weight', 'first.bias', 'last.weight': the gradient was exactly 0 in 7 steps"):
        run = damper.fit(module, separable(), **BASELINE)
    assert (run.params["last.bias"] != module.last.bias.detach().numpy()).any()
    with pytest.raises(damper.NotTrained, match="their gradient was exactly 0") as raised:
        fit(Dead(whole=True), **BASELINE, noise_multiplier=None, delta=None)
    assert raised.value.parameters == ["first.weight", "first.bias"] and "epsilon" not in str(raised.value)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        damper.fit(mlp(), separable(), **BASELINE)
    assert not any("exactly 0" in str(one.message) for one in said)


def test_frozen_parameters_stay():
    """Also parameters that other layers share, or that are frozen in part of a layer."""
    module = nn.Sequential(*mlp(), nn.Linear(3, 3))
    for name in ("0.weight", "2.bias"):
        module.get_parameter(name).requires_grad_(False)
    before = copy.deepcopy(module)
    run = fit(module)
    run.load_into(module)
    frozen = {"0.weight", "2.bias"}
    assert set(run.params) == {name for name, _ in module.named_parameters()} - frozen
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, before.get_parameter(name)) == (name in frozen)
        assert parameter.requires_grad == (name not in frozen)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(damper.Error, match="no parameter with requires_grad"):
        fit(module)
    assert np.isfinite(run.epsilon)
