"""Writes ONNX models of any size, without the onnx package, for measurements."""

import array
import random


def _number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number, value):
    """A field of a protobuf message: a number, a text, or bytes."""
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    value = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(value)) + value


FLOAT, INT64 = 1, 7


def _tensor(name, shape, kind, raw):
    return b"".join([*(_field(1, extent) for extent in shape), _field(2, kind), _field(8, name), _field(9, raw)])


def _value(name, shape, kind=FLOAT):
    dims = b"".join(_field(1, _field(2, dim) if isinstance(dim, str) else _field(1, dim)) for dim in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, dims)))


def _node(kind, inputs, outputs, **numbers):
    # An integer attribute: its name, its value, and its type, INT.
    attributes = [_field(5, _field(1, name) + _field(3, value) + _field(20, 2)) for name, value in numbers.items()]
    return b"".join([*(_field(1, name) for name in inputs), *(_field(2, name) for name in outputs), _field(4, kind), *attributes])


def _write(path, inputs, outputs, nodes, tensors):
    graph = [*(_field(1, node) for node in nodes), _field(2, "measured"), *(_field(5, tensor) for tensor in tensors),
             *(_field(11, value) for value in inputs), *(_field(12, value) for value in outputs)]
    # IR version 8, opset 17.
    parts = [_field(1, 8), _field(7, b"".join(graph)), _field(8, _field(1, "") + _field(2, 17))]
    with open(path, "wb") as file:
        file.writelines(parts)


def _uniform(count, bound, seed):
    """Values below `bound` in magnitude. A pattern of 65,537 repeats."""
    chance = random.Random(seed)
    pattern = array.array("f", (chance.uniform(-bound, bound) for _ in range(min(count, 65537))))
    raw = pattern.tobytes()
    return (raw * (count * 4 // len(raw) + 1))[: count * 4]


def mlp(path, widths):
    """Dense layers of these widths with ReLU between them."""
    nodes, tensors, last = [], [], "x"
    for index, (columns, rows) in enumerate(zip(widths, widths[1:])):
        weight, bias, out = f"w{index}", f"b{index}", f"y{index}"
        tensors.append(_tensor(weight, [columns, rows], FLOAT, _uniform(columns * rows, columns**-0.5, index)))
        tensors.append(_tensor(bias, [rows], FLOAT, bytes(4 * rows)))
        nodes.append(_node("Gemm", [last, weight, bias], [out]))
        last = out
        if index + 2 < len(widths):
            last = f"h{index}"
            nodes.append(_node("Relu", [out], [last]))
    _write(path, [_value("x", ["N", widths[0]])], [_value(last, ["N", widths[-1]])], nodes, tensors)
    return sum((columns + 1) * rows for columns, rows in zip(widths, widths[1:]))


def text(path, words, width, length, classes):
    """The mean of the embeddings of `length` words, and dense layers to the classes."""
    tensors = [
        _tensor("embedding", [words, width], FLOAT, _uniform(words * width, 1.0, 0)),
        _tensor("w0", [width, width], FLOAT, _uniform(width * width, width**-0.5, 1)),
        _tensor("b0", [width], FLOAT, bytes(4 * width)),
        _tensor("w1", [width, classes], FLOAT, _uniform(width * classes, width**-0.5, 2)),
        _tensor("b1", [classes], FLOAT, bytes(4 * classes)),
        _tensor("axis", [1], INT64, (1).to_bytes(8, "little")),
    ]
    nodes = [
        _node("Gather", ["embedding", "ids"], ["embedded"]),
        _node("ReduceSum", ["embedded", "axis"], ["summed"], keepdims=0),
        _node("Gemm", ["summed", "w0", "b0"], ["y0"]),
        _node("Relu", ["y0"], ["h0"]),
        _node("Gemm", ["h0", "w1", "b1"], ["logits"]),
    ]
    _write(path, [_value("ids", ["N", length], INT64)], [_value("logits", ["N", classes])], nodes, tensors)
    return words * width + (width + 1) * width + (width + 1) * classes
