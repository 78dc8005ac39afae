"""Modules are exported to ONNX and trained, and every parameter returns to its position."""

import copy
import warnings

import damper
import networks
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from damper._data import samples
from damper._called import Call
from damper._export import ATTEMPTS, export
from damper._fit import input_names
from onnx import numpy_helper

EXPORTERS = ["torchscript", "dynamo"]
# The other exporter takes seconds for a network, so it has only some of them.
BY_DYNAMO = ["cnn", "resnet", "vit", "encoder", "lstm", "gru", "bag-mean", "bag-sum", "frozen", "adapted", "shared", "two-by-name", "buffered"]
# Output of the dynamo exporter without folding: much arithmetic of shapes, and CastLike.
UNFOLDED = ["encoder", "depthwise", "bag-padded"]
CASES = [(name, "torchscript") for name in networks.CASES] + [(name, "dynamo") for name in BY_DYNAMO]
CASES += [(name, "unfolded") for name in UNFOLDED]


def data_of(name):
    _, inputs, labels, loss = networks.CASES[name]
    return (inputs, labels) if labels is not None else (inputs,), loss


def made(name):
    module = networks.CASES[name][0]()
    args, kwargs = networks.tensors(networks.CASES[name][1])
    with torch.no_grad():
        module.eval()(*args, **kwargs)  # Lazy layers get their shape.
    return module


def fit(module, name, **options):
    data, loss = data_of(name)
    settings = dict(noise_multiplier=1.0, delta=1e-3, epochs=2, batch_size=8, lr=0.3, loss=loss, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return damper.fit(module, data, **{**settings, **options})


@pytest.mark.parametrize("name, exporter", CASES)
def test_there_and_back(name, exporter, monkeypatch):
    """The module with the loaded weights computes the same as the trained file, with the bits of its weights."""
    monkeypatch.setitem(ATTEMPTS, "unfolded", [("dynamo", False)])
    module = made(name)
    before = copy.deepcopy(module.state_dict())
    run = fit(module, name, exporter=exporter)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items()), "fit changed the module"

    fresh = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.fill_(7.0)
    run.load_into(fresh)
    trained = dict(module.named_parameters())
    is_used = {key for key in trained if not (name == "unused" and key == "spare")}
    assert set(run.params) == {key for key in is_used if trained[key].requires_grad}
    for key, parameter in fresh.named_parameters():
        if key in run.params:
            assert parameter.detach().numpy().tobytes() == run.params[key].tobytes()
            assert not torch.equal(parameter, trained[key]), f"{key} was not trained"
        elif key in is_used:
            assert torch.equal(parameter, trained[key]), f"{key} is frozen and changed"

    args, kwargs = networks.tensors(networks.CASES[name][1])
    with torch.no_grad():
        expected = fresh.eval()(*args, **kwargs).numpy()
    if exporter == "unfolded":
        assert "CastLike" in {node.op_type for node in onnx.load(run.path / "model.onnx").graph.node}
    session = onnxruntime.InferenceSession(run.path / "model.onnx")
    given = dict(zip(input_names(module), args)) if args else kwargs
    (found, *_) = session.run(None, {key: value.numpy() for key, value in given.items()})
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def exported_of(module, name, exporter="torchscript"):
    data, _ = data_of(name)
    labelled = len(data) == 2
    taken = samples(data, input_names(module), wants_labels=labelled)
    return export(module, taken.inputs, Call(taken.by_name), exporter)


def per_sample_gradients(module, name, tmp_path):
    """Returns per-sample gradients from the graph that damper derives."""
    exported = exported_of(module, name)
    file, derived = tmp_path / "m.onnx", tmp_path / "g.onnx"
    file.write_bytes(exported.model)
    settings = {"out": str(derived), "parameter": exported.parameters}
    damper._damper.call("derive", [str(file)], settings, lambda _: None)
    session = onnxruntime.InferenceSession(derived)
    taken = {one.name for one in session.get_inputs()}
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(file).graph.initializer}
    _, inputs, labels, _ = networks.CASES[name]
    given = {key: value for key, value in weights.items() if key in taken}
    given.update({input_names(module)[0]: inputs, "dp.labels": labels})
    outputs = [one.name for one in session.get_outputs()]
    found = dict(zip(outputs, session.run(None, given)))
    return {key.removeprefix("dp.grad."): value for key, value in found.items() if key.startswith("dp.grad.")}


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn", "lstm-stacked", "gpt", "shared", "bag-mean", "bag-max", "bag-padded"])
def test_gradients_equal_torch(name, tmp_path):
    """For each sample, within 1e-5 of the largest entry of each parameter's gradient."""
    module = made(name)
    found = per_sample_gradients(module, name, tmp_path)
    args, _ = networks.tensors(networks.CASES[name][1])
    labels = torch.from_numpy(networks.CASES[name][2])
    params = {key: value.detach() for key, value in module.named_parameters()}

    def loss(params, x, label):
        logits = torch.func.functional_call(module, params, (x[None],))
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), label.reshape(-1))

    grads = [torch.func.grad(loss)(params, x, label) for x, label in zip(args[0], labels)]
    assert set(found) == set(params)
    for key in params:
        expected = np.stack([grad[key].numpy() for grad in grads])
        scale = np.abs(expected).reshape(len(expected), -1).max(1)
        error = np.abs(found[key] - expected).reshape(len(expected), -1).max(1)
        assert (error <= 1e-5 * scale + 1e-7).all(), (key, (error / (scale + 1e-30)).max())
