"""CPU time of the inference-only part of an emitted gradient graph beside the original model's.

    python3 benches/peers/forward.py [--damper target/release/damper] [--rounds 15] [NETWORK...]

A network is one of `onnx-models`. Its gradient graph (`damper derive`) is cut down to the model's own outputs, as evaluation does,
and runs 16 samples on one thread in onnxruntime, interleaved with the model as it is and with the model whose weights are inputs:
those of a gradient graph are, since training moves them, and onnxruntime folds and reorders only weights that stay.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = 16
NETWORKS = ["digits-cnn", "mnist-cnn", "cifar-cnn", "wrn-16-4-groupnorm", "vit-tiny", "bert-tiny", "gpt-small"]


def replace(field, values):
    copies = [type(value).FromString(value.SerializeToString()) for value in values]
    del field[:]
    field.extend(copies)


def cut(model, outputs):
    """The nodes, inputs and initializers that these outputs need."""
    needed, kept = set(outputs), []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    replace(model.graph.node, reversed(kept))
    for field in (model.graph.input, model.graph.initializer):
        replace(field, [value for value in field if value.name in needed])
    replace(model.graph.output, [value for value in model.graph.output if value.name in outputs])
    return model


def fed(model, names):
    """The model with these initializers as inputs."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in names]
    inputs = [onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in tensors]
    replace(model.graph.initializer, [tensor for tensor in model.graph.initializer if tensor.name not in names])
    model.graph.input.extend(inputs)
    return model


def session(model, weights):
    for value in [*model.graph.input, *model.graph.output]:
        for axis, extent in enumerate(value.type.tensor_type.shape.dim):
            if extent.dim_param and axis == 0:
                extent.dim_value = SAMPLES
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    draw = numpy.random.default_rng(1)

    def data(spec):
        if spec.name in weights:
            return weights[spec.name]
        if "int64" in spec.type:
            return draw.integers(0, 2, spec.shape)
        return draw.standard_normal(spec.shape).astype("float32")

    feed = {spec.name: data(spec) for spec in made.get_inputs()}
    return lambda: made.run(None, feed)


def candidates(network, damper, folder):
    model = ROOT / "onnx-models" / f"{network}.onnx"
    drawn = folder / "model.onnx"
    if subprocess.run([damper, "init", model, "-o", drawn], capture_output=True).returncode == 0:
        model = drawn
    grad = folder / "grad.onnx"
    subprocess.run([damper, "derive", model, "-o", grad], check=True, capture_output=True)
    model, grad = onnx.load(model), onnx.load(grad)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    emitted = cut(grad, [output.name for output in model.graph.output])
    trained = {value.name for value in emitted.graph.input}.intersection(weights)
    return [session(one, weights) for one in (model, fed(model, trained), emitted)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--damper", default=ROOT / "target/release/damper")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    print(f"{'network':20s} {'original':>10s} {'fed':>10s} {'emitted':>10s}   emitted / fed")
    for network in arguments.networks:
        with tempfile.TemporaryDirectory() as folder:
            runs = candidates(network, arguments.damper, pathlib.Path(folder))
        times = [[] for _ in runs]
        for _ in range(arguments.rounds + 1):
            for run, taken in zip(runs, times):
                start, turns = time.process_time(), 0
                while turns == 0 or time.process_time() - start < 0.05:
                    run()
                    turns += 1
                taken.append((time.process_time() - start) / turns * 1e3)
        original, fed_, emitted = (statistics.median(taken[1:]) for taken in times)
        print(f"{network:20s} {original:8.3f}ms {fed_:8.3f}ms {emitted:8.3f}ms   {emitted / fed_:.3f}")


if __name__ == "__main__":
    main()
