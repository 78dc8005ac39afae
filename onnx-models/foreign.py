"""Writes exports/foreign/: networks of other packages by both exporters of PyTorch and by other exporters,
their named_parameters(), and per-sample gradients.

    pip install -r requirements.txt -r foreign_requirements.txt && python3 foreign.py [NAME...]

Everything is seeded. Each file is at the package's default initialisation, in which exporters merge and fold most.
"""

import copy
import logging
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

import foreign_networks as networks
from export import strip
from foreign_files import HERE, record

SAMPLES = 2
LENGTH, WIDTH, VOCABULARY, CLASSES = networks.LENGTH, networks.WIDTH, networks.VOCABULARY, networks.CLASSES

IDS, MASK = ("input_ids", torch.int64, (LENGTH,)), ("attention_mask", torch.int64, (LENGTH,))
IMAGE, SEQUENCE = ("x", torch.float32, (3, 8, 8)), ("x", torch.float32, (LENGTH, WIDTH))
LARGER = ("x", torch.float32, (3, 16, 16))


class Network:
    """`exports` are `(exporter, opset)`, or `(exporter, opset, change)` with a change of `export`'s arguments."""

    def __init__(self, make, inputs, exports, tokens=False):
        self.make, self.inputs, self.exports, self.tokens = make, inputs, exports, tokens


FIXED, FREE, PLAIN = {"batch": None}, {"length": "sequence"}, {"fold": False}
T, D = "torchscript", "dynamo"
NETWORKS = {
    "bert": Network(networks.bert_classifier, [IDS, MASK], [(T, 14), (D, 18), (D, 18, FREE)]),
    "bert-masked": Network(networks.bert_masked, [IDS, MASK], [(T, 17), (D, 18)], tokens=True),
    "roberta": Network(networks.roberta, [IDS, MASK], [(T, 14), (D, 18)]),
    "distilbert": Network(networks.distilbert, [IDS, MASK], [(T, 16), (D, 20), (D, 20, FIXED)]),
    "sentence-embedding": Network(networks.SentenceEmbedding, [IDS, MASK], [(T, 17), (D, 19)]),
    "gpt2": Network(networks.gpt2, [IDS], [(T, 15), (D, 21)], tokens=True),
    "llama": Network(networks.llama, [IDS], [(D, 18)], tokens=True),
    "t5-encoder": Network(networks.T5Classifier, [IDS, MASK], [(T, 17)]),
    "vit": Network(networks.vit, [IMAGE], [(T, 17), (D, 20)]),
    "torchvision-resnet18": Network(networks.resnet18, [LARGER], [(T, 13), (D, 18), (D, 21)]),
    "torchvision-vit": Network(networks.vision_transformer, [IMAGE], [(T, 17), (D, 18), (T, 17, FIXED)]),
    "torchvision-convnext": Network(networks.convnext, [LARGER], [(T, 17), (D, 19)]),
    "torchvision-mobilenet-v2": Network(networks.mobilenet_v2, [LARGER], [(T, 14), (D, 18)]),
    "torchvision-efficientnet": Network(networks.efficientnet, [LARGER], [(T, 17), (D, 21)]),
    "timm-mixer": Network(networks.mixer, [IMAGE], [(T, 17), (D, 18)]),
    "timm-resnetv2": Network(networks.standardised_resnet, [LARGER], [(T, 17), (D, 18)]),
    "torch-encoder": Network(networks.Encoder, [IDS], [(T, 17), (D, 18)]),
    "torch-attention": Network(networks.Attention, [SEQUENCE], [(T, 17), (D, 18)]),
    "torch-gpt": Network(networks.Positions, [IDS], [(T, 17), (D, 18), (T, 17, PLAIN)], tokens=True),
    "torch-lstm": Network(networks.Recurrent, [SEQUENCE], [(T, 17), (D, 18)]),
}


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    HERE.mkdir(exist_ok=True)
    for name in [name for name in sys.argv[1:] if name in NETWORKS] if sys.argv[1:] else NETWORKS:
        network = NETWORKS[name]
        torch.manual_seed(20240817)
        net = network.make().eval()
        record(name, [(key, list(value.shape)) for key, value in net.named_parameters()])
        vectors(name, network, net)
        for exporter, opset, *change in network.exports:
            change = change[0] if change else {}
            suffix = {"batch": ".fixed", "length": ".free", "fold": ".unfolded"}
            title = f"{name}.opset{opset}{''.join(suffix[key] for key in change)}.{exporter}.onnx"
            write(title, network, net, dynamo=exporter == D, opset=opset, **change)
    if not sys.argv[1:] or "sklearn-mlp" in sys.argv[1:]:
        scikit_learn("sklearn-mlp", 17)


def example(network, rows):
    """`rows` samples of every input: seeded ids, masks that end in zeros, noise."""
    generator = torch.Generator().manual_seed(7)
    values = []
    for name, dtype, shape in network.inputs:
        if name == "attention_mask":
            lengths = torch.arange(rows) % 3 + LENGTH - 3
            values.append((torch.arange(LENGTH)[None] <= lengths[:, None]).long())
        elif dtype == torch.int64:
            # 0 and 1 pad in these packages.
            values.append(torch.randint(2, VOCABULARY, (rows, *shape), generator=generator))
        else:
            values.append(torch.randn(rows, *shape, generator=generator))
    return values


# ---- exporting


def write(title, network, net, *, dynamo, opset, batch="batch", length=None, fold=True):
    values = example(network, 1 if batch is None else 2)
    names = [name for name, *_ in network.inputs]
    axes = {}
    if batch:
        axes[0] = batch
    if length:
        axes[1] = length
    common = {"input_names": names, "output_names": ["y"], "opset_version": opset}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        if dynamo:
            dims = {axis: torch.export.Dim(symbol, max=1024 if axis == 0 else 2 * LENGTH) for axis, symbol in axes.items()}
            shapes = tuple(dims for _ in names) if dims else None
            # One argument takes all of them.
            shapes = (shapes,) if shapes and isinstance(net, networks.Outputs) else shapes
            torch.onnx.export(
                net, tuple(values), path, dynamo=True, external_data=False, verbose=False, optimize=fold,
                dynamic_shapes=shapes, **common,
            )
        else:
            torch.onnx.export(
                net, tuple(values), path, dynamo=False, do_constant_folding=fold,
                dynamic_axes={name: axes for name in names} | {"y": {0: batch}} if axes else None, **common,
            )
        model = onnx.load(path)
    strip(model)
    model.graph.name = "main_graph"
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = example(network, 1 if batch is None else 3)
    (actual,) = session.run(None, {name: value.numpy() for name, value in zip(names, values)})
    with torch.no_grad():
        np.testing.assert_allclose(actual, net(*values).numpy(), rtol=1e-4, atol=1e-5, err_msg=title)
    data = model.SerializeToString(deterministic=True)
    for trace in (b"/home/", b"/tmp/", b"/usr/", b"site-packages", b".py"):
        assert trace not in data, f"{title}: names a file of this machine ({trace.decode()})"
    (HERE / title).write_bytes(data)
    print(f"{title}: {len(data)} bytes, opset {model.opset_import[0].version}")


# ---- vectors


def vectors(name, network, net):
    """Writes NAME.npz for a network of the list."""
    values = example(network, SAMPLES)
    classes = net(*values).shape[-1]
    shape = (SAMPLES, LENGTH) if network.tokens else (SAMPLES,)
    labels = torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(8))
    gradients(name, net, {spec[0]: value for spec, value in zip(network.inputs, values)}, labels)


def gradients(name, net, inputs, labels):
    """Writes NAME.npz: inputs, labels, losses and per-sample gradients, in f64 (the gradients then rounded to f32)."""
    arrays = {f"in.{key}": value.numpy() for key, value in inputs.items()} | {"labels": labels.numpy()}
    exact = copy.deepcopy(net).double()
    losses, grads = [], {}
    for sample in range(SAMPLES):
        one = [value[sample : sample + 1] for value in inputs.values()]
        one = [value.double() if value.is_floating_point() else value for value in one]
        exact.zero_grad()
        out = exact(*one)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), labels[sample].reshape(-1))
        loss.backward()
        losses.append(loss.item())
        for key, parameter in exact.named_parameters():
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            grads.setdefault(key, []).append(grad.float().numpy().copy())
    arrays["loss"] = np.array(losses)
    arrays |= {f"grad.{key}": np.stack(grad) for key, grad in grads.items()}
    np.savez_compressed(HERE / f"{name}.npz", **arrays)


def scikit_learn(name, opset):
    """An MLPRegressor of scikit-learn by skl2onnx, at its initial weights. Its outputs are used as logits."""
    import skl2onnx
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng(7)
    x = rng.standard_normal((SAMPLES, 6)).astype(np.float32)
    net = MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=1, random_state=1)
    net.fit(rng.standard_normal((20, 6)), rng.standard_normal((20, CLASSES)))
    floats = skl2onnx.common.data_types.FloatTensorType([None, 6])
    model = skl2onnx.to_onnx(net, initial_types=[("x", floats)], target_opset=opset)
    strip(model)
    (HERE / f"{name}.opset{opset}.skl2onnx.onnx").write_bytes(model.SerializeToString(deterministic=True))
    layers = [torch.nn.Linear(*weight.shape) for weight in net.coefs_]
    for layer, weight, bias in zip(layers, net.coefs_, net.intercepts_):
        layer.weight.data, layer.bias.data = torch.tensor(weight.T).float(), torch.tensor(bias).float()
    twin = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1])
    record(name, [(key, list(value.shape)) for key, value in twin.named_parameters()])
    gradients(name, twin, {"x": torch.from_numpy(x)}, torch.from_numpy(rng.integers(0, CLASSES, SAMPLES)))


if __name__ == "__main__":
    main()
