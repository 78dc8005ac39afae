"""Writes vectors.tsv: gradients from PyTorch's autograd, in float32, at zeros, infinities, NaN, huge and tiny values.

A line has an ONNX operator, its attributes and the inputs of one sample, each a list. The gradient of each input follows, for output
gradients of 1 and of 0. Run it with PyTorch 2.15.
"""

import pathlib

import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")
UNARY = [0.0, -0.0, INF, -INF, NAN, 1e38, -1e38, 1e20, -1e20, 1e-37, -1e-37, 100.0, -100.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 20.5]
PAIRS = [0.0, -0.0, INF, -INF, NAN, 1e38, -1e20, 1e-37, 1.0, -2.0]
ROWS = [
    [1.0, -INF, 2.0],
    [-INF, -INF, -INF],
    [-INF, -INF, 0.5],
    [INF, 1.0, 2.0],
    [INF, INF, 1.0],
    [INF, -INF, 1.0],
    [0.0, 0.0, 0.0],
    [0.0, -0.0, 2.0],
    [NAN, 1.0, 2.0],
    [1e20, -1e20, 3.0],
    [1e-37, 1e-37, 0.0],
    [-1e38, 1.0, -1e38],
    [2.0, 2.0, -1.0],
]

UNARIES = {
    "Abs": torch.abs,
    "Celu alpha=0.5": lambda x: F.celu(x, 0.5),
    "Cos": torch.cos,
    "Elu alpha=1.5": lambda x: F.elu(x, 1.5),
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Gelu": F.gelu,
    "Gelu approximate=tanh": lambda x: F.gelu(x, approximate="tanh"),
    "HardSigmoid alpha=0.16666667": F.hardsigmoid,
    "HardSwish": F.hardswish,
    "LeakyRelu alpha=0.01": F.leaky_relu,
    "Log": torch.log,
    "Mish": F.mish,
    "Neg": torch.neg,
    "Reciprocal": torch.reciprocal,
    "Relu": F.relu,
    "Selu": F.selu,
    "Sigmoid": torch.sigmoid,
    "Sin": torch.sin,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Tanh": torch.tanh,
    "ThresholdedRelu alpha=1.0": lambda x: F.threshold(x, 1.0, 0.0),
}
CLIPS = {"Clip": [(-1.0, 1.0), (-INF, 1.0), (0.0, INF)]}
POWERS = [0.0, 1.0, 2.0, 3.0, 4.0, 0.5, 1.5, -1.0, -2.0, -0.5]
BINARIES = {
    "Add": torch.add,
    "Div": torch.div,
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Mul": torch.mul,
    "PRelu": lambda x, s: torch.where(x > 0, x, s * x),
    "Pow": torch.pow,
    "Sub": torch.sub,
}
REDUCTIONS = {
    "LogSoftmax": lambda x: F.log_softmax(x, -1)[..., 0],
    "ReduceL1": lambda x: torch.linalg.vector_norm(x, 1, dim=-1),
    "ReduceL2": lambda x: torch.linalg.vector_norm(x, 2, dim=-1),
    "ReduceLogSum": lambda x: torch.log(x.sum(-1)),
    "ReduceLogSumExp": lambda x: torch.logsumexp(x, -1),
    "ReduceMax": lambda x: torch.amax(x, -1),
    "ReduceMean": lambda x: x.mean(-1),
    "ReduceMin": lambda x: torch.amin(x, -1),
    "ReduceProd": lambda x: x.prod(-1),
    "ReduceSum": lambda x: x.sum(-1),
    "ReduceSumSquare": lambda x: (x * x).sum(-1),
    "Softmax": lambda x: F.softmax(x, -1)[..., 0],
}


def gradients(function, inputs, of_output):
    tensors = [torch.tensor(values, requires_grad=True) for values in inputs]
    outputs = function(*tensors)
    outputs.backward(torch.full_like(outputs, of_output))
    return [tensor.grad.tolist() for tensor in tensors]


def main():
    torch.set_num_threads(1)
    lines = []

    def add(op, function, inputs, constants=()):
        parts = [op, *inputs, *constants, "=", *gradients(function, inputs, 1.0), "=", *gradients(function, inputs, 0.0)]
        lines.append("\t".join(p if isinstance(p, str) else " ".join(f"{v:.9g}" for v in p) for p in parts))

    for op, function in UNARIES.items():
        add(op, function, [UNARY])
    for low, high in CLIPS["Clip"]:
        add("Clip", lambda x: torch.clamp(x, low, high), [UNARY], [[low], [high]])
    for power in POWERS:
        add("Pow", lambda x: torch.pow(x, power), [UNARY], [[power]])
    left = [a for a in PAIRS for _ in PAIRS]
    right = [b for _ in PAIRS for b in PAIRS]
    for op, function in BINARIES.items():
        add(op, function, [left, right])
    for op, function in REDUCTIONS.items():
        for row in ROWS:
            add(op, function, [row])
    path = pathlib.Path(__file__).with_name("vectors.tsv")
    path.write_text("\n".join(lines) + "\n")


main()
