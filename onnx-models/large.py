"""Writes the models that are shipped without weights, and vectors of their per-sample gradients.

    cargo build --release && pip install -r requirements.txt && python3 large.py [NAME ...]

`damper init` takes the weights out and draws those of the vectors. The built command is taken
from target/release, or from the variable DAMPER. README.md describes the files.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch.nn.functional import cross_entropy

import networks
from export import HERE, OPSET, randomised, strip

DAMPER = os.environ.get("DAMPER", HERE.parent / "target" / "release" / "damper")

# Number of entries of a parameter's gradient in a vector. README.md has their indices.
ENTRIES = 32

# Weights of the vectors: seed 1. Norms are not 1 and biases not 0, because these values would hide faults.
SEED = 1
MOVED = {"*norm*.weight": "uniform(0.5, 1.5)", "*.bias": "normal(0, 0.1)"}


@dataclass
class Model:
    make: callable
    inputs: dict
    samples: int
    init: dict = field(default_factory=dict)
    moved: list = field(default_factory=lambda: list(MOVED))
    tokens: bool = False


def image(rng, n):
    """Bytes over 255, as a loader gives them."""
    return {"x": (rng.integers(0, 256, (n, 3, 32, 32)) / 255.0).astype(np.float32)}


def text(rng, n):
    """Token ids of texts of different lengths, padded with 0."""
    ids, mask = np.zeros((n, 64), np.int64), np.zeros((n, 64), np.int64)
    for row in range(n):
        length = [11, 64, 1][row % 3]
        ids[row, :length], mask[row, :length] = rng.integers(1, 4096, length), 1
    return {"input_ids": ids, "attention_mask": mask}


def characters(rng, n):
    return {"input_ids": rng.integers(3, 259, (n, 64))}


CONVOLUTIONS = {"*conv*.weight": "kaiming-normal(fan-out, relu)"}
TRANSFORMER = {"*.weight": "truncated-normal(0, 0.02)", "*.bias": "zeros", "*norm*.weight": "ones"}
GPT = TRANSFORMER | {
    "*.weight": "normal(0, 0.02)", "*norm*.weight": "ones", "positions": "normal(0, 0.02)",
    # Weights of the branches that are added: 0.02 / sqrt(2 * layers).
    "*.attention.out.weight": "normal(0, 0.00707)", "*.fc2.weight": "normal(0, 0.00707)",
}
MODELS = {
    "cifar-cnn": Model(networks.cifar_cnn, image, 2, moved=["*.bias"]),
    "cifar-cnn5": Model(networks.cifar_cnn5, image, 2),
    "resnet18-groupnorm": Model(networks.resnet18_groupnorm, image, 2, CONVOLUTIONS),
    "wrn-16-4-groupnorm": Model(networks.wrn_16_4_groupnorm, image, 2, CONVOLUTIONS),
    "vit-tiny": Model(networks.ViT, image, 2, TRANSFORMER | {"token": "zeros", "positions": "truncated-normal(0, 0.02)"}),
    "bert-tiny": Model(networks.Bert, text, 3, TRANSFORMER | {"positions": "truncated-normal(0, 0.02)"}),
    "gpt-small": Model(networks.Gpt, characters, 2, GPT, tokens=True),
}


def main(names):
    warnings.filterwarnings("ignore")
    onnxruntime.set_default_logger_severity(3)
    for name in names or MODELS:
        model = MODELS[name]
        torch.manual_seed(20240817)
        # Exporters merge parameters of equal values.
        net = randomised(model.make().eval())
        write(name, model, net)
        vectors(name, model, net)


def damper(*args):
    subprocess.run([DAMPER, "init", *args], check=True, stdout=subprocess.DEVNULL)


def overrides(init):
    return [part for pattern, spec in init.items() for part in ("--init", f"{pattern}={spec}")]


def write(name, model, net):
    """Exports `net` without constant folding, which keeps the names of parameters. Checks names and forward pass, and
    takes the weights out."""
    inputs = {key: torch.from_numpy(value) for key, value in model.inputs(np.random.default_rng(7), 2).items()}
    with tempfile.TemporaryDirectory() as folder:
        full = pathlib.Path(folder) / "full.onnx"
        torch.onnx.export(
            net, tuple(inputs.values()), full, dynamo=False, do_constant_folding=False, opset_version=OPSET,
            input_names=list(inputs), output_names=["logits"],
            dynamic_axes={key: {0: "batch"} for key in [*inputs, "logits"]},
        )
        exported = onnx.load(full)
        strip(exported)
        onnx.checker.check_model(exported, full_check=True)
        onnx.save(exported, full)
        initializers = {i.name: numpy_helper.to_array(i) for i in exported.graph.initializer}
        for parameter, value in net.named_parameters():
            assert np.array_equal(initializers[parameter], value.detach().numpy()), (name, parameter)
        feeds = {key: value.numpy() for key, value in inputs.items()}
        session = onnxruntime.InferenceSession(full, providers=["CPUExecutionProvider"])
        (actual,) = session.run(None, feeds)
        np.testing.assert_allclose(actual, net(*inputs.values()).detach().numpy(), rtol=1e-3, atol=1e-3, err_msg=name)
        constants = [key for key in initializers if key not in dict(net.named_parameters())]
        damper(full, "-o", HERE / f"{name}.onnx", "--skeleton", *overrides(model.init))
    size = (HERE / f"{name}.onnx").stat().st_size
    count = sum(value.numel() for value in net.parameters())
    print(f"{name}: {count:,} parameters, {size} bytes, constants {constants}")


def vectors(name, model, net):
    """Writes `vectors/NAME.npz`: losses, and the norm, the largest entry and some entries of each parameter's
    gradient."""
    rng = np.random.default_rng(11)
    inputs = model.inputs(rng, model.samples)
    if model.tokens:
        # The label is the next byte. The last position has none and is not counted.
        labels = np.concatenate([inputs["input_ids"][:, 1:], np.full((model.samples, 1), -100)], 1)
        labels[0, 40:] = -100
    else:
        labels = rng.integers(0, 2 if name == "bert-tiny" else 10, model.samples)
    with tempfile.TemporaryDirectory() as folder:
        drawn = pathlib.Path(folder) / "drawn.onnx"
        moved = {pattern: MOVED[pattern] for pattern in model.moved}
        damper(HERE / f"{name}.onnx", "-o", drawn, "--seed", str(SEED), *overrides(moved))
        weights = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in onnx.load(drawn).graph.initializer}
    with torch.no_grad():
        for parameter, value in net.named_parameters():
            value.copy_(weights[parameter])

    exact = per_sample(net, inputs, labels, torch.float64)
    single = per_sample(net, inputs, labels, torch.float32)
    names = sorted(exact[1])
    rows = {parameter: grad.reshape(model.samples, -1) for parameter, grad in exact[1].items()}
    # A gradient may vanish (of the bias of an attention's keys), so small entries are compared relative to the whole
    # gradient.
    whole = np.max([np.abs(grad).max(axis=1) for grad in rows.values()], axis=0)
    columns, worst = {"norms": [], "largest": [], "entries": []}, 0.0
    for parameter in names:
        grad = rows[parameter]
        largest = np.abs(grad).max(axis=1)
        errors = np.abs(single[1][parameter].reshape(grad.shape) - grad).max(axis=1)
        worst = max(worst, float((errors / (largest + 0.01 * whole)).max()))
        at = [(i * 2654435761 + 12345) % grad.shape[1] for i in range(min(ENTRIES, grad.shape[1]))]
        columns["norms"].append(np.linalg.norm(grad, axis=1)[:, None])
        columns["largest"].append(largest[:, None])
        columns["entries"].append(grad[:, at])
    assert worst < 5e-6, (name, worst)
    packed = {key: np.concatenate(parts, axis=1).astype(np.float32, order="C") for key, parts in columns.items()}
    listed = np.frombuffer("\n".join(names).encode(), np.uint8)
    np.savez_compressed(HERE / "vectors" / f"{name}.npz", **inputs, labels=labels, loss=exact[0], names=listed, **packed)
    size = (HERE / "vectors" / f"{name}.npz").stat().st_size
    print(f"vectors of {name}: {size} bytes, f32 within {worst:.1e} of f64")


def per_sample(net, inputs, labels, dtype):
    """Losses `[N]` and, per parameter, gradients `[N, *shape]` by torch.func, in the given precision."""
    params = {name: value.detach().to(dtype) for name, value in net.named_parameters()}
    buffers = {name: value.to(dtype) for name, value in net.named_buffers()}
    data = [torch.from_numpy(value) for value in inputs.values()]
    data = [value.to(dtype) if value.is_floating_point() else value for value in data]

    def one(params, label, *sample):
        logits = torch.func.functional_call(net, (params, buffers), tuple(value[None] for value in sample))
        return cross_entropy(logits.flatten(0, -2), label.reshape(-1))

    # One by one, because all at once would not fit into memory.
    grads, losses = {name: [] for name in params}, []
    for row, label in enumerate(torch.from_numpy(labels)):
        grad, loss = torch.func.grad_and_value(one)(params, label, *(value[row] for value in data))
        losses.append(loss.item())
        for name, value in grad.items():
            grads[name].append(value.double().numpy())
    return np.array(losses), {name: np.stack(value) for name, value in grads.items()}


if __name__ == "__main__":
    main(sys.argv[1:])
