#!/usr/bin/env python3
"""Compares the gradients of compiled networks with those of torch.func.

    torch_gradients.py FOLDER...

Each folder has `model.onnx`, `loss`, `parameters` and `gradient.f32`. The tests write them if `DAMPER_COMPILED_MODELS` is set. Prints each
error above 1e-5 and the largest error. Fails if an error is above 1e-5, or if there are fewer than 30 networks.

The script interprets ONNX in PyTorch, in float64, without code of damper. The error of a network is the largest absolute error of a
gradient entry. It is relative to the largest absolute entry of the gradient, or to 1 if that entry is smaller.
"""

import pathlib
import sys

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch_operators import OPS, split

BOUND = 1e-5


def value(shape, dtype):
    """Returns the sample of the networks' own tests: floats depend on their index, integers are 0."""
    count = int(np.prod(shape))
    if dtype != onnx.TensorProto.FLOAT:
        return torch.zeros(shape, dtype=torch.int64)
    return torch.tensor([(at * 37 % 101) / np.float32(101) for at in range(count)], dtype=torch.float32).double().reshape(shape)


def tensor(proto):
    """Converts a tensor to PyTorch. Floats become float64, integers int64."""
    array = torch.from_numpy(numpy_helper.to_array(proto).copy())
    return array.double() if array.is_floating_point() else array.long() if array.dtype != torch.bool else array


def attributes(node):
    plain = {}
    for attribute in node.attribute:
        got = onnx.helper.get_attribute_value(attribute)
        plain[attribute.name] = got.decode() if isinstance(got, bytes) else list(got) if isinstance(got, (list, tuple)) or "Repeated" in type(got).__name__ else got
    return plain


def output(graph, params, sample, wanted):
    """Returns the value of `wanted`.

    The name of a parameter is that of an initializer, of a node's output, or of an initializer in one node (`NAME::NODE`).
    """
    values = {proto.name: tensor(proto) for proto in graph.initializer} | sample | params
    for at, node in enumerate(graph.node):
        title = node.name or f"{node.op_type}_{at}"
        given = [None if not name else params.get(f"{name}::{title}", values[name]) for name in node.input]
        plain = attributes(node)
        if node.op_type == "Constant":
            got = plain.get("value")
            made = [tensor(got) if got is not None else torch.tensor(next(iter(plain.values())), dtype=torch.float64)]
            if got is None and ("value_int" in plain or "value_ints" in plain):
                made = [made[0].long()]
        elif node.op_type == "Split":
            made = split(plain, *given, count=len(node.output))
        else:
            made = [OPS[node.op_type](plain, *given)]
        for name, one in zip(node.output, made):
            values[name] = params.get(name, one)
    return values[wanted]


def loss(kind, z):
    """Returns the loss of the outputs `z`, with the labels of the networks' tests."""
    if kind == "softmax-cross-entropy":
        return -z.log_softmax(-1)[..., 0].mean()
    target = value(tuple(z.shape), onnx.TensorProto.FLOAT)
    if kind == "mse":
        return ((z - target) ** 2).mean()
    return F.binary_cross_entropy_with_logits(z, target)


def distance(folder):
    model = onnx.load(folder / "model.onnx")
    kind, wanted = (folder / "loss").read_text().split()
    graph = model.graph
    stored = {proto.name for proto in graph.initializer}
    sample = {}
    for info in graph.input:
        if info.name not in stored:
            of = info.type.tensor_type
            shape = [1] + [dim.dim_value for dim in of.shape.dim][1:]
            sample[info.name] = value(shape, of.elem_type)
    recorded = torch.from_numpy(np.fromfile(folder / "gradient.f32", "<f4")).double()
    initial = torch.from_numpy(np.fromfile(folder / "params.f32", "<f4")).double()
    params, start = {}, 0
    for line in (folder / "parameters").read_text().splitlines():
        name, *shape = line.split("\t")
        shape = [int(d) for d in shape]
        count = int(np.prod(shape)) if shape else 1
        params[name] = initial[start : start + count].reshape(shape)
        start += count
    assert start == len(initial) == len(recorded), folder
    run = lambda params: loss(kind, output(graph, params, sample, wanted))
    grads = torch.func.grad(run)(params)
    grads = torch.cat([grads[name].reshape(-1) for name in params])
    return float((grads - recorded).abs().max() / grads.abs().max().clamp(min=1.0))


def main():
    torch.set_num_threads(1)
    far, all_of_them = [], []
    for folder in map(pathlib.Path, sys.argv[1:]):
        name = (folder / "name").read_text()
        try:
            got = distance(folder)
        except Exception as error:
            got = float("inf")
            print(f"{name}: {type(error).__name__}: {error}")
        all_of_them.append(got)
        if not got <= BOUND:
            far.append(name)
            print(f"{name}: {got:.2e}")
    print(f"{len(all_of_them)} networks, the farthest {max(all_of_them):.2e} from torch.func")
    sys.exit(bool(far) or len(all_of_them) < 30)


main()
