#!/usr/bin/env python3
"""Writes vectors.txt: results of the kernels on random operands, computed in numpy float32 without code of damper.

    python3 vectors/generate.py > vectors/vectors.txt

The order of sums is that of src/sum.rs and the docs of each kernel. A line is
`name sizes... | operand bits... | ... | output bits...`. Bits are hexadecimal float32.
"""

import numpy as np

BLOCK = 64
rng = np.random.default_rng(20260)
f32 = np.float32


def ordered_sum(terms):
    """Sums the first axis. Adds the terms of a block of 64 one after another from +0, then the blocks' sums in the same way."""
    whole = np.zeros(terms.shape[1:], f32)
    for first in range(0, len(terms), BLOCK):
        block = np.zeros(terms.shape[1:], f32)
        for term in terms[first : first + BLOCK]:
            block = block + term
        whole = whole + block
    return whole


def numbers(*shape):
    """Returns random values of many magnitudes, with −0 and subnormals."""
    x = rng.standard_normal(shape).astype(f32) * (f32(2.0) ** rng.integers(-3, 4, shape).astype(f32))
    x[rng.random(shape) < 0.03] = f32(-0.0)
    x[rng.random(shape) < 0.02] = f32(1e-41)
    return x.astype(f32)


def taps(x, window):
    """Returns the image under each tap of each window, [c, i, j, y, x], with 0 outside, and a mask of the taps inside."""
    c, h, w, oh, ow, kh, kw, s, d, p = window
    rows = np.arange(oh)[None, :] * s + np.arange(kh)[:, None] * d - p
    columns = np.arange(ow)[None, :] * s + np.arange(kw)[:, None] * d - p
    inside = ((rows >= 0) & (rows < h))[:, None, :, None] & ((columns >= 0) & (columns < w))[None, :, None, :]
    picked = x[:, rows.clip(0, h - 1)[:, None, :, None], columns.clip(0, w - 1)[None, :, None, :]]
    return np.where(inside[None], picked, f32(0)), rows, columns, inside


def line(name, sizes, *arrays):
    fields = [" ".join([name, *map(str, sizes)])]
    fields += [" ".join(f"{bits:08x}" for bits in np.ascontiguousarray(a, f32).view(np.uint32).ravel()) for a in arrays]
    print(" | ".join(fields))


for rows, columns, terms in [(1, 10, 64), (3, 5, 7), (9, 17, 130), (5, 1, 200), (2, 33, 65), (4, 4, 1)]:
    a, b = numbers(rows, terms), numbers(terms, columns)
    line("product", [rows, columns, terms], a, b, ordered_sum(a.T[:, :, None] * b[:, None, :]))

# Channels, outputs, groups, height, width, kernel, stride, dilation, and padding at both ends.
for c, o, g, h, w, kh, kw, s, d, p in [
    (1, 4, 1, 7, 6, 3, 3, 1, 1, 1),
    (8, 6, 2, 5, 9, 3, 2, 2, 1, 0),
    (3, 3, 3, 8, 8, 3, 3, 1, 2, 2),
    (70, 5, 1, 4, 4, 3, 3, 1, 1, 1),
    (2, 70, 1, 9, 9, 4, 4, 2, 1, 1),
    (5, 2, 1, 1, 30, 1, 5, 3, 1, 0),
]:
    oh = (h + (2 * p if kh > 1 else 0) - (kh - 1) * d - 1) // s + 1
    ow = (w + 2 * p - (kw - 1) * d - 1) // s + 1
    x, kernel, dy = numbers(c, h, w), numbers(o, c // g, kh, kw), numbers(o, oh, ow)
    bias, dx_bias = numbers(o), numbers(c)
    picked, rows, columns, inside = taps(x, (c, h, w, oh, ow, kh, kw, s, d, p))
    cg, og = c // g, o // g
    out, dx, dk = np.zeros((o, oh, ow), f32), np.zeros((c, h, w), f32), np.zeros_like(kernel)
    for channel in range(o):
        group = picked[channel // og * cg : (channel // og + 1) * cg]
        terms = (kernel[channel][..., None, None] * group).reshape(-1, oh, ow)
        out[channel] = ordered_sum(terms) + bias[channel]
        over = group.reshape(cg, kh, kw, -1).transpose(3, 0, 1, 2)
        dk[channel] = ordered_sum(dy[channel].reshape(-1, 1, 1, 1) * over)
    for channel in range(c):
        first = channel // cg * og
        for i in range(kh):
            for j in range(kw):
                weights = kernel[first : first + og, channel % cg, i, j]
                sums = ordered_sum(weights[:, None, None] * dy[first : first + og])
                for y in range(oh):
                    for z in range(ow):
                        if inside[i, j, y, z]:
                            at = channel, rows[i, y], columns[j, z]
                            dx[at] = dx[at] + sums[y, z]
        dx[channel] = dx[channel] + dx_bias[channel]
    sizes = [c, o, g, h, w, oh, ow, kh, kw, s, d, p]
    line("forward", sizes, x, kernel, bias, out)
    line("transposed", sizes, dy, kernel, dx_bias, dx)
    line("kernel_grad", sizes, dy, x, dk)
    if c == o:
        # The mean of the taps inside.
        count = inside.reshape(kh * kw, oh, ow).sum(0).astype(f32)
        mean = np.zeros((c, oh, ow), f32)
        for y in range(oh):
            for z in range(ow):
                held = picked[:, inside[:, :, y, z]][..., y, z]
                mean[:, y, z] = ordered_sum(held.T) / count[y, z]
        most = np.where(inside[None], picked, f32(-np.inf)).max(axis=(1, 2))
        line("average_pool", sizes, x, mean)
        line("max_pool", sizes, x, most)

for shape in [(3, 70), (130, 5), (2, 3, 40), (65, 33)]:
    x = numbers(*shape)
    for axis in range(len(shape)):
        line("sum", [len(shape), *shape, axis], x, ordered_sum(np.moveaxis(x, axis, 0)))
x = numbers(4, 66)
line("sum", [2, 4, 66, 2], x, ordered_sum(x.ravel()))
x = numbers(50)
y = numbers(50)
for name, result in [("add", x + y), ("sub", x - y), ("mul", x * y), ("div", x / y)]:
    line(name, [50], x, y, result)
line("sqrt", [50], abs(x), np.sqrt(abs(x)))

# Weights as 8-bit integers: the integers, scales and zero points as floats, after the first operand of the float
# kernel.
for rows, columns, terms, channels in [(2, 5, 70, "rows"), (3, 4, 130, "one"), (1, 6, 64, "columns")]:
    count = {"rows": terms, "columns": columns, "one": 1}[channels]
    q, zero = rng.integers(-128, 128, (terms, columns)), rng.integers(-128, 128, count)
    scale = numbers(count)
    along = {"rows": (count, 1), "columns": (1, count), "one": (1, 1)}[channels]
    weight = (q - zero.reshape(along)).astype(f32) * scale.reshape(along)
    a = numbers(rows, terms)
    inner = {"rows": columns, "columns": 1, "one": terms * columns}[channels]
    output = ordered_sum(a.T[:, :, None] * weight[:, None, :])
    line("product_quantized", [rows, columns, terms, inner], a, q.astype(f32), scale, zero.astype(f32), output)
for c, o, g, h, w, kh, kw, s, d, p in [(3, 4, 1, 7, 6, 3, 3, 1, 1, 1), (12, 70, 2, 1, 20, 1, 5, 2, 1, 0)]:
    oh, ow = h if kh == 1 else h + 2 * p - (kh - 1) * d, (w + 2 * p - (kw - 1) * d - 1) // s + 1
    q, zero, scale = rng.integers(-128, 128, (o, c // g, kh, kw)), rng.integers(-128, 128, o), numbers(o)
    kernel = (q - zero.reshape(-1, 1, 1, 1)).astype(f32) * scale.reshape(-1, 1, 1, 1)
    x, dy, cg, og = numbers(c, h, w), numbers(o, oh, ow), c // g, o // g
    picked, rows, columns, inside = taps(x, (c, h, w, oh, ow, kh, kw, s, d, p))
    out, dx = np.zeros((o, oh, ow), f32), np.zeros((c, h, w), f32)
    for channel in range(o):
        group = picked[channel // og * cg : (channel // og + 1) * cg]
        out[channel] = ordered_sum((kernel[channel][..., None, None] * group).reshape(-1, oh, ow))
    for channel in range(c):
        first = channel // cg * og
        for i in range(kh):
            for j in range(kw):
                sums = ordered_sum(kernel[first : first + og, channel % cg, i, j][:, None, None] * dy[first : first + og])
                for y in range(oh):
                    for z in range(ow):
                        if inside[i, j, y, z]:
                            at = channel, rows[i, y], columns[j, z]
                            dx[at] = dx[at] + sums[y, z]
    sizes = [c, o, g, h, w, oh, ow, kh, kw, s, d, p]
    line("forward_quantized", sizes, x, q.astype(f32), scale, zero.astype(f32), out)
    line("transposed_quantized", sizes, dy, q.astype(f32), scale, zero.astype(f32), dx)
