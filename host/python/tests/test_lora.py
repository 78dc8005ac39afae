"""Low-rank adapters: the trained parameters, and the merged weights in the module."""

import copy
import json
import warnings

import damper
import networks
import numpy as np
import onnx
import pytest
import torch
from conftest import QUICK, mlp, separable
from onnx import numpy_helper
from torch import nn


def fit(module, data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return damper.fit(module, data, **{**QUICK, **settings})


def changed(module, run):
    """Returns the parameters of a copy that `load_into` changes."""
    copied = copy.deepcopy(module)
    run.load_into(copied)
    after = dict(copied.named_parameters())
    return {name for name, value in module.named_parameters() if not torch.equal(value, after[name])}


def test_module_gets_the_merged_weights():
    x, y = separable(2500)
    train, (x_test, y_test) = (x[:2000], y[:2000]), (x[2000:], y[2000:])
    module = mlp()
    settings = dict(lora=2, lora_target="*weight", lora_alpha=4.0, train="*bias", test=(x_test, y_test), epochs=10, lr=1.0)
    run = fit(module, train, **settings)
    assert changed(module, run) == set(run.params) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    for name, before in module.named_parameters():
        if name.endswith("weight"):
            change = run.params[name].astype(np.float64) - before.detach().numpy()
            values = np.linalg.svd(change, compute_uv=False)
            assert values[1] > 1e-4 and (values[2:] < 1e-6 * values[0]).all(), "the change has another rank"
    run.load_into(module)
    for name, parameter in module.named_parameters():
        assert parameter.detach().numpy().tobytes() == run.params[name].tobytes()
    with torch.no_grad():
        right = (module(torch.from_numpy(x_test)).argmax(1).numpy() == y_test).mean()
    assert run.accuracy == pytest.approx(right, abs=1e-9) and right > 0.7
    lora = run.details["training"]["lora"]
    assert lora["rank"] == 2 and lora["alpha"] == 4.0


def test_only_adapters_are_trained():
    module = mlp()
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    run = fit(module, separable(), lora=2, lora_target=["0.weight"])
    assert changed(module, run) == set(run.params) == {"0.weight"}
    model = onnx.load(run.path / "model.onnx")
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert not any("lora" in name for name in values), "an adapter was not merged"
    assert (values["2.weight"] == module[2].weight.detach().numpy()).all()
    both = fit(module, separable(), lora=2, lora_target=["0.weight"], train=["2.*"])
    assert changed(module, both) == set(both.params) == {"0.weight", "2.weight", "2.bias"}


ADAPTED = [("vit", "*linear?.weight", 4), ("encoder", "*in_proj_weight", 2)]
ADAPTED = [(*case, exporter) for case in ADAPTED for exporter in ("torchscript", "dynamo")] + [("gpt", "qkv.*weight", 1, "torchscript")]


@pytest.mark.parametrize("name, target, adapted, exporter", ADAPTED)
def test_adapters_in_networks(name, target, adapted, exporter):
    """Layers that start with the values of other layers, as those of `nn.TransformerEncoder` do, each get their own
    adapter."""
    make, inputs, labels, loss = networks.CASES[name]
    module = make()
    run = fit(module, (inputs, labels), loss=loss, lora=2, lora_target=target, exporter=exporter, batch_size=8, delta=1e-3, epochs=2)
    assert len(run.params) == adapted and changed(module, run) == set(run.params)
    assert len({value.tobytes() for value in run.params.values()}) == adapted


def test_a_stopped_run_resumes_its_adapters(monkeypatch):
    x, y = separable(4000)
    settings = dict(epochs=3, seed=3, checkpoint_every=0, lora=2, lora_target="*weight", train="2.bias")
    module = mlp()
    whole = fit(module, (x, y), **settings)

    def interrupt(self, event):
        raise KeyboardInterrupt

    monkeypatch.setattr(damper._fit._Bar, "_step", interrupt)
    with pytest.raises(damper.Interrupted) as raised:
        fit(module, (x, y), out="stopped", progress=True, **settings)
    monkeypatch.undo()
    assert changed(module, raised.value.run) == {"0.weight", "2.weight", "2.bias"}
    run = damper.resume(raised.value.run.path, (x, y), progress=False)
    assert run.details["params_digest"] == whole.details["params_digest"]
    assert all((run.params[name] == whole.params[name]).all() for name in whole.params)


def test_a_baseline_with_adapters():
    module = mlp()
    settings = {"epochs": 2, "batch_size": 64, "lr": 0.3, "progress": False}
    with pytest.warns(damper.PrivacyWarning, match="not_private"):
        run = damper.fit(module, separable(), lora=2, lora_target="*.weight", not_private=True, **settings)
    assert run.not_private and changed(module, run) == {"0.weight", "2.weight"}
    assert json.loads(run.report("report.json").read_text())["training"]["lora"]["rank"] == 2


def test_errors_name_the_modules_weights():
    def refused(match, module=None, data=None, **settings):
        with pytest.raises(damper.Error, match=match) as raised:
            fit(module or mlp(), data or separable(), **settings)
        assert "--" not in str(raised.value), raised.value

    refused("lora_target", lora=2)
    refused("lora", lora_target="*")
    refused("lora", lora=0, lora_target="*")
    refused("'fc.*': matches no weight of the model; linear weights are '0.weight', '2.weight'", lora=2, lora_target="fc.*")
    refused("'0.bias' gets no adapter: it is no matrix", lora=2, lora_target="0.bias")
    refused("the exported module: train 'none': matches no", lora=2, lora_target="*weight", train="none")
    refused("lora_keep", lora=2, lora_target="*weight", lora_keep=True)
    refused("lora", lora=2, lora_target="*weight", only="*")
    make, ids, labels, _ = networks.CASES["gpt"]
    refused("'tokens.weight' gets no adapter: Gather", make(), (ids, labels), lora=2, lora_target="tokens.weight")
    x, y = separable()
    with pytest.raises(damper.Error, match="train '2.*parameter names all"):
        damper.fit(nn.Sequential(*mlp()), (x, y), train="2.*", **QUICK)
