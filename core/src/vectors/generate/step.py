#!/usr/bin/env python3
"""Writes core/src/vectors/step.tsv: words, noise, clipped samples and whole runs, worked out from the formulas in the docs.

Integers are Python's; floats are numpy's float32 and float64, whose + - * / and square root are correctly rounded. Nothing
here was made from, or checked against, the Rust code. Needs numpy and mpmath."""

import pathlib
import struct

import numpy as np
from mpmath import exp, floor, inf, mp, mpf, nsum

F = np.float32
M32 = 0xFFFFFFFF
GRADIENT_NOISE, SAMPLING = 1, 3


# ChaCha20, RFC 8439 ------------------------------------------------------------------------------------------------
def rotl(x, n):
    return ((x << n) | (x >> (32 - n))) & M32


def chacha_block(key, counter, nonce):
    start = list(struct.unpack("<4I", b"expand 32-byte k")) + key + [counter] + nonce
    x = list(start)

    def quarter(a, b, c, d):
        x[a] = (x[a] + x[b]) & M32
        x[d] = rotl(x[d] ^ x[a], 16)
        x[c] = (x[c] + x[d]) & M32
        x[b] = rotl(x[b] ^ x[c], 12)
        x[a] = (x[a] + x[b]) & M32
        x[d] = rotl(x[d] ^ x[a], 8)
        x[c] = (x[c] + x[d]) & M32
        x[b] = rotl(x[b] ^ x[c], 7)

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & M32 for a, b in zip(x, start)]


class Stream:
    """The words at (purpose, step, chunk) of the simulation with this seed."""

    def __init__(self, seed, purpose, step, chunk):
        raw = struct.pack("<Q", seed) + b" damper: not private key"
        assert len(raw) == 32
        self.key = list(struct.unpack("<8I", raw))
        self.nonce = [purpose, step, chunk]
        self.counter, self.words = 0, []

    def next(self):
        if not self.words:
            self.words = chacha_block(self.key, self.counter, self.nonce)
            self.counter += 1
        return self.words.pop(0)

    def next64(self):
        low = self.next()
        return low | self.next() << 32


# The discrete Gaussian ----------------------------------------------------------------------------------------------
mp.prec = 600
TOTAL = nsum(lambda k: exp(-(k**2) / mpf(2)), [0, inf])
CUMULATIVE, partial = [], mpf(0)
for i in range(18):
    partial += exp(-mpf(i) ** 2 / 2) / TOTAL
    CUMULATIVE.append(int(floor(partial * mpf(2) ** 287)))


def magnitude(head, stream):
    if any(head == c >> 256 for c in CUMULATIVE):
        value = head
        for _ in range(8):
            value = value << 32 | stream.next()
        return sum(value >= c for c in CUMULATIVE)
    return sum(head > c >> 256 for c in CUMULATIVE)


def below(n, stream):
    product = stream.next() * n
    if product & M32 < n:
        while product & M32 < (1 << 32) % n:
            product = stream.next() * n
    return product >> 32


def ratio(numerator, denominator, stream):
    while True:
        shifted = numerator << 32
        low = stream.next() * denominator
        if low >= shifted:
            return False
        numerator = shifted - low
        if numerator >= denominator:
            return True


def accept_once(k, j, sigma, stream):
    n = 1
    while True:
        if not ratio(j, sigma, stream):
            break
        r = below(2 * k + 2, stream)
        if not (ratio(j, sigma, stream) if r == 2 * k else r < 2 * k):
            break
        if n > 1 and below(n, stream) != 0:
            break
        n += 1
    return n % 2 == 1


def discrete_gaussian(sigma, stream):
    while True:
        word = stream.next()
        k = magnitude(word & 0x7FFFFFFF, stream)
        negative = word >> 31 == 1
        j = below(sigma, stream)
        if all(accept_once(k, j, sigma, stream) for _ in range(k + 1)) and not (negative and k == 0 and j == 0):
            z = k * sigma + j
            return -z if negative else z


# Clipping on the grid -----------------------------------------------------------------------------------------------
def norm_squared(grad):
    lanes = [F(0)] * 8
    for i, g in enumerate(grad):
        lanes[i % 8] = F(lanes[i % 8] + F(g * g))
    a, b, c, d, e, f, g, h = lanes
    return F(F(F(a + e) + F(c + g)) + F(F(b + f) + F(d + h)))


def clipped(grad, clip, bits):
    square = norm_squared(grad)
    if not np.isfinite(square):
        return [0] * len(grad)
    unit = F(1 << bits)
    scale, shrink = F(unit / max(np.sqrt(square), clip)), F(2.0**-20)
    while True:
        q = [int(np.trunc(min(max(F(g * scale), -unit), unit))) for g in grad]
        if sum(x * x for x in q) <= 1 << 2 * bits:
            return q
        scale, shrink = F(scale * F(F(1) - shrink)), F(shrink * F(2))


# Gradients of a run: floats built from integers ----------------------------------------------------------------------
class Gradients:
    """x <- x * 6364136223846793005 + 1442695040888963407 mod 2^64; a gradient is ((x >> 40) - 2^23) / 2^shift."""

    def __init__(self, seed):
        self.x = seed

    def next(self, shift):
        self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
        return F((self.x >> 40) - 2**23) / F(2.0**shift)


def run(optimizer, dim, steps, batch, bits, sigma, clip, seed):
    """Parameters after `steps` steps. Step t sees t mod 4 samples; sample s's gradients have shift 22 + s."""
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


def bits_of(x):
    return f"{struct.unpack('<I', struct.pack('<f', float(x)))[0]:08x}"


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
    for optimizer in ["sgd", "nesterov", "adam"]:
        for dim, steps, bits in [(3, 12, 16), (1030, 3, 20)]:
            params = run(optimizer, dim, steps, 4, bits, 3 << (bits - 1), 0.7, dim)
            row("run", optimizer, dim, steps, 4, bits, 3 << (bits - 1), bits_of(F(0.7)), dim, " ".join(map(bits_of, params)))
    (pathlib.Path(__file__).resolve().parents[1] / "step.tsv").write_text("\n".join(lines) + "\n")


main()
