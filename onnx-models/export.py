"""Writes the .onnx files of this folder that hold weights, and vectors of per-sample gradients. large.py writes the
other files.

    pip install -r requirements.txt && python3 export.py

Everything is seeded. README.md describes the files. Each file is checked. With random values in its initializers,
onnxruntime's forward pass equals PyTorch's, which proves the map from PyTorch's parameters to ONNX names and layouts.
The vectors come from torch.func in f32 and are checked against the same gradients in f64.
"""

import copy
import logging
import pathlib
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from sklearn.datasets import load_digits

import networks

HERE = pathlib.Path(__file__).parent
OPSET = 18
IMAGE = (1, 8, 8)


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    for folder in ("exports", "vectors"):
        (HERE / folder).mkdir(exist_ok=True)

    digits_linear = seeded(networks.digits_linear)
    digits_mlp = seeded(networks.digits_mlp)
    digits_cnn = seeded(networks.digits_cnn)
    groupnorm = seeded(networks.digits_cnn_groupnorm)
    mnist_cnn = seeded(networks.mnist_cnn)

    # The shipped models. Without constant folding the parameters of GroupNorm keep their names and shapes.
    shipped = {
        "digits-linear": (digits_linear, (64,), {}),
        "digits-mlp": (digits_mlp, (64,), {}),
        "digits-cnn": (digits_cnn, IMAGE, {}),
        "digits-cnn-groupnorm": (groupnorm, IMAGE, {"fold": False}),
        "mnist-cnn": (mnist_cnn, (1, 28, 28), {}),
    }
    for name, (net, shape, options) in shipped.items():
        names = write(f"{name}.onnx", net, shape, **options)
        # The export of a user who passes no option except a dynamic batch, from either exporter.
        if options:
            write(f"exports/{name}.torchscript.onnx", net, shape)
        write(f"exports/{name}.dynamo.onnx", net, shape, dynamo=True)
        x = digit_samples(shape) if name != "mnist-cnn" else upscaled_digit_samples()
        vectors(name, "softmax-cross-entropy", net, names, x)
        if name == "digits-mlp":
            vectors(name, "mse", net, names, x)
            vectors(name, "bce-with-logits", net, names, x)

    sensor_cnn = seeded(networks.sensor_cnn)
    names = write("sensor-cnn.onnx", sensor_cnn, (3, 64))
    x = np.random.default_rng(5).standard_normal((4, 3, 64)).astype(np.float32)
    vectors("sensor-cnn", "softmax-cross-entropy", sensor_cnn, names, x, classes=4)

    # Further files that tests read. Their exports' names and layouts differ, so vectors are in PyTorch's.
    reshaped = seeded(networks.Reshaped)
    for name, net in {
        "reshaped": reshaped,
        "operators": seeded(networks.Operators),
        "instancenorm": seeded(networks.instancenorm),
        "merged-norms": seeded(networks.merged_norms),
        "recurrences": seeded(networks.Recurrences),
    }.items():
        names = {torch_name: (torch_name, False, value.shape) for torch_name, value in net.named_parameters()}
        vectors(name, "softmax-cross-entropy", net, names, digit_samples(IMAGE))
    for dynamo in (False, True):
        exporter = "dynamo" if dynamo else "torchscript"

        def test(name, net, shape=IMAGE, **options):
            write(f"exports/{name}.{exporter}.onnx", net, shape, dynamo=dynamo, **options)

        test("fixed-batch", reshaped, batch=1, dynamic=())
        test("fixed-batch-4", reshaped, batch=4, dynamic=())
        test("reshaped", reshaped)
        test("operators", seeded(networks.Operators))
        test("instancenorm", seeded(networks.instancenorm))
        test("merged-norms", seeded(networks.merged_norms))
        test("batchnorm", seeded(networks.batchnorm))
        test("dynamic-axis", seeded(networks.dynamic_axis), dynamic=(0, 2, 3))
        test("no-parameters", networks.no_parameters())
        test("digits-cnn.opset21" if dynamo else "digits-cnn.opset20", digits_cnn, opset=21 if dynamo else 20)
        test("groupnorm.opset21" if dynamo else "groupnorm.opset13", groupnorm, opset=21 if dynamo else 13)
    write("exports/digits-cnn.opset13.torchscript.onnx", digits_cnn, IMAGE, opset=13)
    write("exports/merged-norms.unfolded.onnx", seeded(networks.merged_norms), IMAGE, fold=False)
    write("exports/recurrences.unfolded.onnx", seeded(networks.Recurrences), IMAGE, fold=False)


def seeded(make):
    """A network with the default initialisation under a fixed seed, for inference."""
    torch.manual_seed(20240817)
    return make().eval()


# ---- exporting


def export(net, shape, *, dynamo=False, batch=2, dynamic=(0,), opset=OPSET, fold=True):
    """The ONNX model of `net` for inputs `[batch, *shape]` with the axes `dynamic` symbolic."""
    x = torch.zeros(batch, *shape)
    axes = {axis: "batch" if axis == 0 else f"axis{axis}" for axis in dynamic}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        common = {"input_names": ["x"], "output_names": ["logits"], "opset_version": opset}
        if dynamo:
            symbols = {axis: torch.export.Dim(symbol, min=1 if axis == 0 else 4) for axis, symbol in axes.items()}
            torch.onnx.export(
                net, (x,), path, dynamo=True, external_data=False, verbose=False, optimize=fold,
                dynamic_shapes=(symbols,) if symbols else None, **common,
            )
        else:
            outputs = {axis: symbol for axis, symbol in axes.items() if axis == 0}
            torch.onnx.export(
                net, (x,), path, dynamo=False, do_constant_folding=fold,
                dynamic_axes={"x": axes, "logits": outputs} if axes else None, **common,
            )
        model = onnx.load(path)
    strip(model)
    onnx.checker.check_model(model, full_check=True)
    return model


# The keys of the dynamo exporter's record.
RECORD = {
    "pkg.torch.export.ExportedProgram.graph_signature",
    "pkg.torch.export.graph_signature.InputSpec.kind",
    "pkg.onnxscript.optimizer.folded_from",
    "pkg.torch.onnx.fx_node",
}


def strip(message):
    """Clears fields that name the exporting machine's files, in place and recursively: doc strings and traces of
    calls."""
    for field, value in message.ListFields():
        if field.name == "doc_string":
            message.ClearField(field.name)
        elif field.name == "metadata_props":
            kept = [entry for entry in value if entry.key in RECORD]
            message.ClearField(field.name)
            message.metadata_props.extend(kept)
        elif field.type == field.TYPE_MESSAGE:
            for part in value if hasattr(value, "add") else [value]:
                strip(part)


def write(name, net, shape, **options):
    """Exports `net` to the file `name`, checks it, and returns its map of parameters."""
    model = export(net, shape, **options)
    names = parameter_map(net, shape, options)
    check_forward(name, model, net, shape, names, options)
    data = model.SerializeToString(deterministic=True)
    for trace in (b"/home/", b"/tmp/", b"/usr/", b"site-packages", b".py"):
        assert trace not in data, f"{name}: names a file of this machine ({trace.decode()})"
    (HERE / name).write_bytes(data)
    print(f"{name}: {len(data)} bytes")
    return names


# ---- from PyTorch's parameters to ONNX's


def parameter_map(net, shape, options):
    """`{onnx name: (torch name, transposed, onnx shape)}`, from an export of the same network with random values. No
    two parameters are equal there, so none are merged and each is found by its values."""
    twin = randomised(net)
    initializers = {i.name: numpy_helper.to_array(i) for i in export(twin, shape, **options).graph.initializer}
    names = {}
    for torch_name, parameter in twin.named_parameters():
        value = parameter.detach().numpy()
        for onnx_name, array in initializers.items():
            if array.dtype != np.float32 or array.size != value.size:
                continue
            straight = np.array_equal(array.ravel(), value.ravel())
            if straight or (value.ndim == 2 and np.array_equal(array, value.T)):
                names[onnx_name] = (torch_name, not straight, array.shape)
    return names


def randomised(net):
    twin = copy.deepcopy(net)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator) + 0.1)
    return twin


def to_onnx_layout(array, transposed, shape):
    """A gradient `[N, *torch shape]` as `[N, *onnx shape]`."""
    array = array.swapaxes(1, 2) if transposed else array
    return np.ascontiguousarray(array).reshape(array.shape[0], *shape)


def check_forward(name, model, net, shape, names, options):
    """Checks that onnxruntime's outputs equal PyTorch's, at the initial values and at random values set through
    `names`. The latter is left out if the exporter merged parameters or has operators of other layouts (GRU), because
    the map is then partial."""
    rows = options.get("batch", 2) if not options.get("dynamic", (0,)) else 3
    x = torch.randn(rows, *shape, generator=torch.Generator().manual_seed(2))
    initializers = {i.name: i for i in model.graph.initializer}
    cases = [(model, net)]
    if all(n in initializers for n in names) and len(names) == len(list(net.parameters())):
        moved, twin = copy.deepcopy(model), randomised(net)
        values = dict(twin.named_parameters())
        for initializer in moved.graph.initializer:
            if initializer.name in names:
                torch_name, transposed, onnx_shape = names[initializer.name]
                value = values[torch_name].detach().numpy()[None]
                value = to_onnx_layout(value, transposed, onnx_shape)[0]
                initializer.CopyFrom(numpy_helper.from_array(value, initializer.name))
        cases.append((moved, twin))
    for case, torch_net in cases:
        session = onnxruntime.InferenceSession(case.SerializeToString(), providers=["CPUExecutionProvider"])
        (actual,) = session.run(None, {"x": x.numpy()})
        expected = torch_net(x).detach().numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6, err_msg=name)


# ---- vectors


def digit_samples(shape):
    """Three real digits with pixels as in the IDX files, over 255, and two samples of seeded noise."""
    images = (load_digits().images[[3, 140, 1009]].astype(np.int64) * 510 + 16) // 32
    real = (images / 255.0).astype(np.float32).reshape(3, *shape)
    noise = np.random.default_rng(3).standard_normal((2, *shape)).astype(np.float32)
    return np.concatenate([real, noise])


def upscaled_digit_samples():
    """Two digits, each pixel a 3 by 3 block with a margin of 2, and one sample of seeded noise: `[3, 1, 28, 28]`."""
    digits = np.kron(digit_samples(IMAGE)[:2], np.ones((1, 1, 3, 3), np.float32))
    digits = np.pad(digits, ((0, 0), (0, 0), (2, 2), (2, 2)))
    noise = np.random.default_rng(4).standard_normal((1, 1, 28, 28)).astype(np.float32)
    return np.concatenate([digits, noise])


def loss_of_one(loss, logits, label):
    """The loss of one sample from its outputs `[10]`, by its name in design documents and `--loss`."""
    f = torch.nn.functional
    if loss == "softmax-cross-entropy":
        return f.cross_entropy(logits[None], label[None])
    if loss == "mse":
        return f.mse_loss(logits, label)
    return f.binary_cross_entropy_with_logits(logits, label)


def labels_for(loss, n):
    rng = np.random.default_rng(5)
    if loss == "softmax-cross-entropy":
        return rng.integers(0, 10, n)
    if loss == "mse":
        return rng.standard_normal((n, 10)).astype(np.float32)
    return (rng.random((n, 10)) < 0.3).astype(np.float32)


def per_sample(net, loss, x, labels, dtype):
    """Losses `[N]` and, per parameter, gradients `[N, *shape]`, by `grad` of each sample in the given precision."""
    net = copy.deepcopy(net).to(dtype)
    params = {name: value.detach() for name, value in net.named_parameters()}
    x, labels = torch.from_numpy(x).to(dtype), torch.from_numpy(labels)
    labels = labels.to(dtype) if labels.is_floating_point() else labels

    def one(params, sample, label):
        return loss_of_one(loss, torch.func.functional_call(net, params, (sample[None],))[0], label)

    # One by one, because recurrent layers have no rule for vmap.
    each = [torch.func.grad_and_value(one)(params, sample, label) for sample, label in zip(x, labels)]
    grads = {name: np.stack([grads[name].numpy() for grads, _ in each]) for name in params}
    return np.stack([loss.numpy() for _, loss in each]), grads


def vectors(name, loss, net, names, x, classes=10):
    """Writes `vectors/NAME.npz`, or `vectors/NAME.LOSS.npz` for another loss than softmax-cross-entropy."""
    labels = labels_for(loss, len(x))
    if loss == "softmax-cross-entropy":
        labels = labels % classes
    losses, grads = per_sample(net, loss, x, labels, torch.float32)
    losses64, grads64 = per_sample(net, loss, x, labels, torch.float64)
    arrays = {"x": x, "labels": labels, "loss": losses, "loss64": losses64}
    worst = 0.0
    # A gradient may vanish (of a bias before a normalisation), so small entries are compared relative to the whole
    # gradient.
    whole = np.sqrt(sum(np.square(exact.reshape(len(x), -1)).sum(axis=1) for exact in grads64.values()))
    for onnx_name, (torch_name, transposed, shape) in names.items():
        grad, exact = grads[torch_name], grads64[torch_name]
        norms = np.maximum(np.linalg.norm(exact.reshape(len(x), -1), axis=1), 0.1 * whole)
        errors = np.linalg.norm((grad - exact).reshape(len(x), -1), axis=1)
        worst = max(worst, float((errors / norms).max()))
        arrays[f"grad.{onnx_name}"] = to_onnx_layout(grad, transposed, shape)
        arrays[f"grad64.{onnx_name}"] = to_onnx_layout(exact, transposed, shape).astype(np.float32)
    assert worst < 2e-6 and len(names) == len(grads), (name, loss, worst)
    suffix = "" if loss == "softmax-cross-entropy" else f".{loss}"
    np.savez_compressed(HERE / "vectors" / f"{name}{suffix}.npz", **arrays)
    print(f"vectors of {name}, {loss}: f32 within {worst:.1e} of f64")


if __name__ == "__main__":
    main()
