#!/usr/bin/env python3
"""Writes core/src/noise/discrete_gaussian/table.rs and host/cuda/kernels/gaussian_table.h: numbers of P(I < i) for I >= 0 with P(I = i)
proportional to exp(-(i/8)^2/2).

Needs mpmath."""

import pathlib

from mpmath import exp, floor, inf, mp, mpf, nsum

mp.prec = 600
CELLS = 64
DIGITS = 9


def weight(i):
    return exp(-mpf(i) ** 2 / 128)


def digits(x):
    """Returns the first digits of x < 1, base 2^32."""
    bits = int(floor(x * mpf(2) ** (32 * DIGITS)))
    return ", ".join(f"0x{bits >> 32 * i & 0xFFFFFFFF:08x}" for i in reversed(range(DIGITS)))


total = nsum(weight, [0, inf])
head, cumulative = [], mpf(0)
for i in range(CELLS):
    head.append(int(floor(cumulative * 2**24)))
    cumulative += weight(i) / total

lines = [
    "//! Written by `vectors/generate/gaussian_table.py`. Do not edit.",
    "",
    "use super::fraction::Fraction;",
    "",
    "/// The first 24 bits of `P(I < i)`.",
    "#[rustfmt::skip]",
    f"pub(super) const HEAD: [u32; {CELLS}] = [",
    *("    " + " ".join(f"0x{word:06x}," for word in head[i : i + 8]) for i in range(0, CELLS, 8)),
    "];",
    "",
    "/// `exp(−1/128)`.",
    "#[rustfmt::skip]",
    f"pub(super) const RATIO: Fraction = [{digits(weight(1))}];",
    "",
    "/// A sixteenth of `Σ exp(−i²/128)`, `i ≥ 0`.",
    "#[rustfmt::skip]",
    f"pub(super) const TOTAL: Fraction = [{digits(total / 16)}];",
    "",
]
path = pathlib.Path(__file__).resolve().parents[2] / "noise" / "discrete_gaussian" / "table.rs"
path.parent.mkdir(exist_ok=True)
path.write_text("\n".join(lines))

# The same table for the CUDA kernels.
lines = [
    "// Written by `core/src/vectors/generate/gaussian_table.py`. Do not edit.",
    "",
    "// The first 24 bits of `P(I < i)`.",
    f"TABLE u32 HEAD[{CELLS}] = {{",
    *("    " + " ".join(f"0x{word:06x}," for word in head[i : i + 8]) for i in range(0, CELLS, 8)),
    "};",
    "",
    "// `exp(-1/128)`.",
    f"TABLE u32 RATIO[{DIGITS}] = {{{digits(weight(1))}}};",
    "",
    "// A sixteenth of the sum of `exp(-i^2/128)`, `i >= 0`.",
    f"TABLE u32 TOTAL[{DIGITS}] = {{{digits(total / 16)}}};",
    "",
]
(pathlib.Path(__file__).resolve().parents[4] / "host" / "cuda" / "kernels" / "gaussian_table.h").write_text("\n".join(lines))
