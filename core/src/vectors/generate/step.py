#!/usr/bin/env python3
"""Writes core/src/vectors/step.tsv: words, noise, clipped and counted samples, whole runs, computed from the formulas in the docs.

Integers are Python's. Floats are numpy's float32 and float64, with correctly rounded + - * / and square root. Nothing
here was made from, or checked against, the Rust code. Needs numpy and mpmath."""

import pathlib

import numpy as np

from release import CUMULATIVE, F, GRADIENT_NOISE, SAMPLING, Gradients, Stream, bits_of, clipped, discrete_gaussian


def run(optimizer, dim, steps, batch, bits, sigma, clip, seed):
    """Returns the parameters after `steps` steps. Step t has t mod 4 samples, and sample s's gradients have shift 22 + s."""
    gradients = Gradients(seed)
    clip = F(clip)
    params = [F(gradients.next(24)) for _ in range(dim)]
    m, v = [F(0)] * dim, [F(0)] * dim
    power1 = power2 = 1.0
    for t in range(steps):
        total = [0] * dim
        for s in range(t % 4):
            grad = [gradients.next(22 + s) for _ in range(dim)]
            total = [a + b for a, b in zip(total, clipped(grad, clip, bits))]
        unit = F(F(clip / F(1 << bits)) / F(batch))
        mean = []
        for chunk in range(0, dim, 1024):
            stream = Stream(seed, GRADIENT_NOISE, t, chunk // 1024)
            mean += [F(F(x + discrete_gaussian(sigma, stream)) * unit) for x in total[chunk : chunk + 1024]]
        if optimizer in ("sgd", "nesterov"):
            mu, decay, lr = F(0.9), F(0.01), F(0.125)
            for i, g in enumerate(mean):
                g = F(g + F(decay * params[i]))
                m[i] = F(F(mu * m[i]) + g)
                direction = F(g + F(mu * m[i])) if optimizer == "nesterov" else m[i]
                params[i] = F(params[i] - F(lr * direction))
        else:
            beta1, beta2, decay, lr = 0.9, 0.999, 0.01, 0.01
            power1, power2 = power1 * beta1, power2 * beta2
            keep, rate, scale = F(1 - lr * decay), F(lr / (1 - power1)), F(1 / (1 - power2))
            b1, b2, n1, n2, epsilon = F(beta1), F(beta2), F(1 - beta1), F(1 - beta2), F(1e-8)
            for i, g in enumerate(mean):
                m[i] = F(F(b1 * m[i]) + F(n1 * g))
                v[i] = F(F(b2 * v[i]) + F(n2 * F(g * g)))
                denominator = F(np.sqrt(F(v[i] * scale)) + epsilon)
                params[i] = F(F(keep * params[i]) - F(F(rate * m[i]) / denominator))
    return params


class Given:
    """Yields these words, then those of a stream, and records all words taken."""

    def __init__(self, words, rest):
        self.words, self.rest, self.taken = words, rest, []

    def next(self):
        self.taken.append(self.words.pop(0) if self.words else self.rest.next())
        return self.taken[-1]


def edge(value, sign, coin):
    """Returns the words of a draw with a cell that all 288 bits of `value` determine."""
    low = value & 2**264 - 1
    return [sign << 31 | value >> 264 << 7 | coin, low >> 256 << 24 | 0x5A5A5A] + [low >> 32 * i & 0xFFFFFFFF for i in reversed(range(8))]


def draws():
    """Yields draws on both sides of the start of a cell, as near as 2^-258, and in far cells, which random words almost never reach."""
    for i in [1, 2, 7, 20, 43, 44, 63, 64, 65, 127, 128, 140]:
        for near in -1, 1:
            for coin in 0, 127:
                sigma = [1000, 65537, 1 << 20, (1 << 31) - 1][(i + coin) % 4]
                value = CUMULATIVE[i] + near * 2**30
                stream = Given(edge(value, i % 2, coin), Stream(i, GRADIENT_NOISE, coin, near + 1))
                yield sigma, discrete_gaussian(sigma, stream), " ".join(f"{word:08x}" for word in stream.taken)


def main():
    lines = ["# Written by generate/step.py; do not edit. Floats and words are bits in hexadecimal."]

    def row(*cells):
        lines.append("\t".join(str(cell) for cell in cells))

    for seed, purpose, step, chunk in [(0, 1, 0, 0), (1, 3, 7, 2), (2**64 - 1, 1, 2**32 - 1, 2**32 - 1)]:
        stream = Stream(seed, purpose, step, chunk)
        row("words", seed, purpose, step, chunk, " ".join(f"{stream.next():08x}" for _ in range(40)))
    for sigma in [1, 2, 3, 1000, 65536, 1 << 20, (1 << 31) - 1]:
        stream = Stream(sigma, GRADIENT_NOISE, 5, 1)
        row("noise", sigma, " ".join(str(discrete_gaussian(sigma, stream)) for _ in range(60)))
    for draw in draws():
        row("draw", *draw)
    coins = []
    for index in range(2500):
        if index % 1024 == 0:
            stream = Stream(4, SAMPLING, 11, index // 1024)
        if stream.next64() >> 11 < 2**50 + 1:
            coins.append(index)
    row("sampling", 2**50 + 1, " ".join(map(str, coins)))
    gradients = Gradients(99)
    for bits, clip, shift, dim in [(8, 1.0, 21, 5), (16, 0.1, 24, 17), (20, 3.0, 23, 40), (22, 1e-3, 40, 9), (20, 1.0, 10, 1)]:
        grad = [gradients.next(shift) for _ in range(dim)]
        q = clipped(grad, F(clip), bits)
        row("clip", bits, bits_of(F(clip)), " ".join(map(bits_of, grad)), " ".join(map(str, q)))
    # Norms on both sides of every edge: a gradient of one coordinate is its own norm.
    for bins, clip in [(20, 0.7), (20, 3.0), (7, 1e-4), (1, 1.0)]:
        edges = [F(F(k) * F(clip)) / F(bins) for k in range(1, bins + 2)]
        norms = [F(0), F(1e-30)] + [x for edge in edges for x in (np.nextafter(edge, F(0)), edge, np.nextafter(edge, F(9e9)))]
        found = [min(bins - 1, int(F(norm * F(F(bins) / F(clip))))) for norm in norms]
        row("bins", bins, bits_of(F(clip)), " ".join(map(bits_of, norms)), " ".join(map(str, found)))
    bound = F(0.3)
    norms = [F(0), np.nextafter(bound, F(0)), bound, np.nextafter(bound, F(9)), F(7)]
    row("above", 1, bits_of(bound), " ".join(map(bits_of, norms)), " ".join("1" if n > bound else "-1" for n in norms))
    for optimizer in ["sgd", "nesterov", "adam"]:
        for dim, steps, bits in [(3, 12, 16), (1030, 3, 20)]:
            params = run(optimizer, dim, steps, 4, bits, 3 << (bits - 1), 0.7, dim)
            row("run", optimizer, dim, steps, 4, bits, 3 << (bits - 1), bits_of(F(0.7)), dim, " ".join(map(bits_of, params)))
    (pathlib.Path(__file__).resolve().parents[1] / "step.tsv").write_text("\n".join(lines) + "\n")


main()
