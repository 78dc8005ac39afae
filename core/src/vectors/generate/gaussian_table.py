#!/usr/bin/env python3
"""Writes core/src/noise/discrete_gaussian/table.rs: the digits of P(K <= i) for K >= 0 with P(K = k) proportional to exp(-k^2/2).

Needs mpmath. The first digit has 31 bits, the other eight 32 bits each: 287 bits in all."""

import pathlib

from mpmath import exp, floor, inf, mp, mpf, nsum

mp.prec = 600
LAST = 18
total = nsum(lambda k: exp(-(k**2) / mpf(2)), [0, inf])

head, tail = [], []
cumulative = mpf(0)
for i in range(LAST):
    cumulative += exp(-mpf(i) ** 2 / 2) / total
    bits = int(floor(cumulative * mpf(2) ** 287))
    digits = [bits >> 256] + [(bits >> (32 * (7 - j))) & 0xFFFFFFFF for j in range(8)]
    head.append(digits[0])
    tail.append(digits[1:])

lines = [
    "//! Written by `vectors/generate/gaussian_table.py`; do not edit.",
    "",
    "/// First 31 bits of `P(K ≤ i)`.",
    f"pub(super) const HEAD: [u32; {LAST}] = [",
]
lines += ["    " + " ".join(f"0x{w:08x}," for w in head[i : i + 6]) for i in range(0, LAST, 6)]
lines += ["];", "", "/// The next 256 bits, most significant word first.", "#[rustfmt::skip]", f"pub(super) const TAIL: [[u32; 8]; {LAST}] = ["]
lines += ["    [" + ", ".join(f"0x{w:08x}" for w in row) + "]," for row in tail]
lines += ["];", ""]
path = pathlib.Path(__file__).resolve().parents[2] / "noise" / "discrete_gaussian" / "table.rs"
path.parent.mkdir(exist_ok=True)
path.write_text("\n".join(lines))
