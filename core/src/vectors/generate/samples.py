"""Samples of packs: generated from integers, as replay/src/samples.rs documents, or explicit."""

import struct

import numpy as np

from release import F


def bits32(values):
    return np.array(values, np.uint32).view(F)


class Generated:
    """Samples generated from integers, as replay/src/samples.rs documents."""

    kind = 0

    def __init__(self, seed, dim):
        self.x, self.dim, self.seed, self.key = seed, dim, seed, seed
        self.params = self.numbers(self.ordinary)

    def word(self):
        self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.x >> 32

    def numbers(self, make):
        return bits32([make(self.word()) for _ in range(self.dim)])

    @staticmethod
    def ordinary(word):
        return word & 0x807FFFFF | 122 + (word >> 24) % 4 << 23

    def further(self, t):
        """Returns the gradient of the sample after the ordinary samples."""
        kind = t % 8
        if kind == 0:
            return self.numbers(lambda word: word & 0x80000000)
        if kind in (4, 5):
            grad = self.numbers(self.ordinary)
            grad.view(np.uint32)[t % self.dim] = 0x7F800000 if kind == 4 else 0x7FC00000
            return grad
        exponent = {1: 0, 2: 252, 3: 150, 6: 40}[kind]
        return self.numbers(lambda word: word & 0x807FFFFF | exponent << 23)

    def of(self, t):
        for _ in range((5 * t + 3) % 7):
            z = self.numbers(self.ordinary)
            yield lambda x: x / F(4) - z
        if t % 8 != 7:
            grad = self.further(t)
            yield lambda x: grad

    def raw(self, t):
        """Returns the numbers of a step."""
        found = [self.numbers(self.ordinary) for _ in range((5 * t + 3) % 7)]
        return found + ([self.further(t)] if t % 8 != 7 else [])

    def head(self):
        return bytes([self.kind]) + struct.pack("<Q", self.seed)

    def start(self):
        return b""

    def step(self, t):
        return b""


class Elsewhere(Generated):
    """Generated samples that are clipped and summed elsewhere. That sum is added to zeros, then to the step's, without rounding."""

    kind = 3


class Recorded:
    """Explicit combined gradients, bit for bit. `steps` lists the samples of each step. `key` is a seed, or 32 bytes."""

    def __init__(self, key, params, steps):
        self.key, self.params, self.steps = key, bits32(params), [[bits32(s) for s in step] for step in steps]

    def of(self, t):
        for grad in self.steps[t]:
            yield lambda x: grad

    def head(self):
        return b"\2" + self.key if isinstance(self.key, bytes) else b"\1" + struct.pack("<Q", self.key)

    def start(self):
        return self.params.astype("<f4").tobytes()

    def step(self, t):
        grads = self.steps[t]
        return struct.pack("<I", len(grads)) + b"".join(grad.astype("<f4").tobytes() for grad in grads)
