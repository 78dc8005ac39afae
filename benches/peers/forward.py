"""CPU time of the forward part of an emitted gradient graph next to the original model's.

    python3 benches/peers/forward.py [--build target/release] [--rounds 15] [NETWORK...]

A network is one of `onnx-models`. Its gradient graph (`damper derive`) is reduced to the model's own outputs, as in
evaluation. It runs 16 samples on one thread in a session of the trainer's (`forward.rs`). Two models in plain
onnxruntime are interleaved with it. The first is the original model, for which onnxruntime folds and reorders the
weights in advance. The second has its weights as inputs, as a gradient graph has, because training updates them.
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


class Trainers:
    """Outputs in a session of the trainer's."""

    def __init__(self, model, file, build):
        onnx.save(model, file)
        command = [build / "damper-forward", file, str(SAMPLES)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def seconds(self, runs):
        print(runs, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


class Plain:
    """Outputs in plain onnxruntime."""

    def __init__(self, model, weights):
        for value in [*model.graph.input, *model.graph.output]:
            for axis, extent in enumerate(value.type.tensor_type.shape.dim):
                if extent.dim_param and axis == 0:
                    extent.dim_value = SAMPLES
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        draw = numpy.random.default_rng(1)

        def data(spec):
            if spec.name in weights:
                return weights[spec.name]
            if "int64" in spec.type:
                return draw.integers(0, 2, spec.shape)
            return draw.standard_normal(spec.shape).astype("float32")

        self.feed = {spec.name: data(spec) for spec in self.session.get_inputs()}

    def outputs(self):
        return self.session.run(None, self.feed)

    def seconds(self, runs):
        start = time.process_time()
        for _ in range(runs):
            self.outputs()
        return (time.process_time() - start) / runs


def candidates(network, build, folder):
    model = ROOT / "onnx-models" / f"{network}.onnx"
    drawn = folder / "model.onnx"
    if subprocess.run([build / "damper", "init", model, "-o", drawn], capture_output=True).returncode == 0:
        model = drawn
    grad = folder / "grad.onnx"
    subprocess.run([build / "damper", "derive", model, "-o", grad], check=True, capture_output=True)
    model, grad = onnx.load(model), onnx.load(grad)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    emitted = cut(grad, [output.name for output in model.graph.output])
    trained = {value.name for value in emitted.graph.input}.intersection(weights)
    plain = Plain(fed(model, trained), weights)
    for one in (model, emitted):
        for output, made in zip(one.graph.output, plain.outputs()):
            for extent, known in list(zip(output.type.tensor_type.shape.dim, made.shape))[1:]:
                extent.dim_value = known
    return [Trainers(model, folder / "original.onnx", build), plain, Trainers(emitted, folder / "emitted.onnx", build)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--build", default=ROOT / "target/release", type=pathlib.Path, help="where the programs are")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    print(f"{'network':20s} {'original':>10s} {'fed':>10s} {'emitted':>10s}   emitted / original")
    for network in arguments.networks:
        with tempfile.TemporaryDirectory() as folder:
            runs = candidates(network, arguments.build, pathlib.Path(folder))
        turns = [max(1, round(0.05 / run.seconds(2))) for run in runs]
        rounds = [[run.seconds(count) * 1e3 for run, count in zip(runs, turns)] for _ in range(arguments.rounds)]
        original, fed_, emitted = (statistics.median(taken) for taken in zip(*rounds))
        print(f"{network:20s} {original:8.3f}ms {fed_:8.3f}ms {emitted:8.3f}ms   {emitted / original:.3f}")


if __name__ == "__main__":
    main()
