"""Shared numerics: bits as text, saturation, and functions that are not correctly rounded everywhere."""

import math
import struct

import mpmath
import numpy as np

from release import F

LARGEST = np.finfo(F).max


def f32(x):
    return struct.pack(">f", float(F(x))).hex()


def f64(x):
    return struct.pack(">d", x).hex()


def S(x):
    """Replaces an infinity by the largest number of its sign. `x` is already rounded."""
    return np.clip(x, -LARGEST, LARGEST)


def narrow(x):
    """Rounds an f64 to f32, and an infinity to the largest number of its sign."""
    return F(S(F(x)))


# Functions that are not correctly rounded in the core ------------------------------------------------------------------
class Transcendental:
    """Functions that are correctly rounded, then moved by `nudge` units in the last place, except values exact by C's Annex F."""

    nudge, used = 0, False

    def round(self, value):
        self.used = True
        result = float(value)
        for _ in range(abs(self.nudge)):
            result = math.nextafter(result, math.inf if self.nudge > 0 else -math.inf)
        return result

    def exp(self, x):
        return 1.0 if x == 0 else self.round(mpmath.exp(x))

    def cos(self, x):
        return 1.0 if x == 0 else self.round(mpmath.cos(x))

    def pow(self, x, y):
        return 1.0 if x == 1 or y == 0 else self.round(mpmath.power(mpmath.mpf(x), mpmath.mpf(y)))


LIBM = Transcendental()
