#!/usr/bin/env python3
"""Writes core/src/vectors/correlated.tsv: correlated noise on the grid, and the inputs of its privacy cost, computed from the docs
of core/src/noise/correlated.rs.

Noise uses Python's integers and the whole history of a coordinate. Sensitivities use fractions and the whole matrix.
Nothing here was made from, or checked against, the Rust code. Needs numpy and mpmath."""

import math
import pathlib
from fractions import Fraction

from mpmath import mp, mpf
from mpmath import sqrt as root

from release import GRADIENT_NOISE, Stream, discrete_gaussian

ONE = 1 << 30


def rnd(v, s):
    return (v + (1 << (s - 1))) >> s


def lambda_noise(z, p, q):
    """Returns w of one coordinate, at steps 0, 1, … after zeros."""
    return [z_t - (rnd(p * z[t - 1], q) if t > 0 else 0) for t, z_t in enumerate(z)]


def banded_noise(z, column):
    w = []
    for t, z_t in enumerate(z):
        total = sum(column[j] * w[t - j] for j in range(1, len(column)) if j <= t)
        w.append(z_t - (rnd(total, 30)))
    return w


def blt_noise(z, theta, omega):
    s, w = [0] * len(theta), []
    for z_t in z:
        w.append(z_t - rnd(sum(o * s_i for o, s_i in zip(omega, s)), 40))
        s = [rnd(t * s_i, 30) + (w[-1] << 10) for t, s_i in zip(theta, s)]
    return w


def sensitivity(column, n, b, k):
    """Returns the sensitivity of the worst pattern, by fractions: c_j for all j < n."""
    total = Fraction(0)
    for t in range(n):
        v = sum((column[t - j * b] for j in range(k) if t - j * b >= 0), Fraction(0))
        total += v * v
    return root(mpf(total.numerator) / mpf(total.denominator))


def floor_units(numbers):
    return [math.floor(Fraction(x) * ONE) for x in numbers]


def draws(seed, sigma, steps, coordinate):
    z = []
    for step in steps:
        stream = Stream(seed, GRADIENT_NOISE, step, coordinate // 1024)
        z.append([discrete_gaussian(sigma, stream) for _ in range(coordinate % 1024 + 1)][-1])
    return z


def main():
    mp.prec = 200
    lines = ["# Written by generate/correlated.py; do not edit.",
             "# kind, coefficients over 2^30 (lambda: P q), n, b, k, S, R over sqrt(nm), sigma, seed, coordinate, steps, noise"]
    cases = [
        ("lambda", ([15, 4],), (1000, 100, 10), 2000, 1),
        ("lambda", ([1, 1],), (12, 4, 3), 1025, 2),
        ("lambda", ([65535, 16],), (12, 12, 1), 100000, 3),
        ("blt", (floor_units([0.9]), floor_units([0.4])), (40, 7, 4), 3000, 4),
        ("blt", (floor_units([0.98607187, 0.62314437]), floor_units([0.23131852, 0.2725381])), (1000, 100, 10), 100000, 5),
        ("blt", (floor_units([0.9989518499, 0.9782310100, 0.7415560687]),
                 floor_units([0.0448708120, 0.1211066562, 0.3107932843])), (100, 100, 1), 2000, 6),
        ("blt", (floor_units([0.9998984573, 0.9979642463, 0.9745797190, 0.7249458486]),
                 floor_units([0.0139197240, 0.0368632388, 0.1245877749, 0.3048037824])), (60, 20, 3), 200000, 7),
        ("banded", (floor_units([1.0, 0.80571]),), (50, 5, 10), 5000, 8),
        ("banded", (floor_units([1.0, 0.76, 0.6726, 0.5927]),), (50, 3, 5), 20000, 9),
    ]
    for kind, coefficients, (n, b, k), sigma, seed in cases:
        units = [Fraction(c, ONE) for c in coefficients[0]]
        if kind == "lambda":
            p, q = coefficients[0]
            column = [Fraction(p, 1 << q) ** j for j in range(n)]
            rounding = min(mpf(n), mpf(1 << q) / ((1 << q) - p))
        elif kind == "banded":
            column = (units + [Fraction(0)] * n)[:n]
            rounding = mpf(1)
        else:
            scales = [Fraction(c, ONE) for c in coefficients[1]]
            powers, column = list(scales), [Fraction(1)]
            for _ in range(1, n):
                column.append(sum(powers))
                # Enough digits for every digit that is compared.
                powers = [Fraction(round(x * t * (1 << 120)), 1 << 120) for x, t in zip(powers, units)]
            decaying = [min(mpf(n), ONE / mpf(ONE - c)) for c in coefficients[0]]
            rounding = 1 + sum(mpf(c) / ONE * reach / 1024 for c, reach in zip(coefficients[1], decaying))
        s = sensitivity(column, n, b, k)
        runs = [list(range(12)), [0, 1, 2, 5, 6, 7, 8, 11]] if n > 11 else [list(range(n))]
        for coordinate, steps in [(0, runs[0]), (5, runs[1]), (1025, runs[0][:6])]:
            noise = []
            # Without the previous step, the run begins at zeros.
            for i, step in enumerate(steps):
                if i == 0 or steps[i - 1] != step - 1:
                    part = []
                    noise.append(part)
                part.append(step)
            w = []
            for part in noise:
                z = draws(seed, sigma, part, coordinate)
                if kind == "lambda":
                    w += lambda_noise(z, *coefficients[0])
                elif kind == "banded":
                    w += banded_noise(z, coefficients[0])
                else:
                    w += blt_noise(z, *coefficients)
            cells = [kind, " ; ".join(" ".join(map(str, c)) for c in coefficients), n, b, k, mp.nstr(s, 17), mp.nstr(rounding, 17),
                     sigma, seed, coordinate, " ".join(map(str, steps)), " ".join(map(str, w))]
            lines.append("\t".join(map(str, cells)))
    path = pathlib.Path(__file__).parent.parent / "correlated.tsv"
    path.write_text("\n".join(lines) + "\n")


main()
