"""Continuous Gaussian noise, written from the docs of the core, and its functions of f32.

`ln`, `sin` and `cos` have the bits of FreeBSD's msun (e_logf.c, s_sinf.c, s_cosf.c, k_sinf.c, k_cosf.c). The core's library
follows the same files. They are written here from msun, with each operation rounded. `check` compares them with mpmath."""

import functools

import mpmath
import numpy as np

from release import F, Stream

D = np.float64


def from_hex(text):
    return D(float.fromhex(text))


def next_up(x):
    """Returns the smallest f32 that is not below the f64 `x`."""
    near = F(x)
    return np.nextafter(near, F(np.inf)) if float(near) < x else near


# e_logf.c ----------------------------------------------------------------------------------------------------------------
LN2_HI, LN2_LO = np.uint32(0x3F317180).view(F), np.uint32(0x3717F7D1).view(F)
LG = [F(float.fromhex(c)) for c in ("0xaaaaaa.0p-24", "0xccce13.0p-25", "0x91e9ee.0p-25", "0xf89e26.0p-26")]


def ln(x):
    """Returns the natural logarithm of a normal f32 above 0."""
    bits = int(F(x).view(np.uint32))
    if bits == 0x3F800000:
        return F(0)
    bits += 0x3F800000 - 0x3F3504F3
    k = F((bits >> 23) - 0x7F)
    f = np.uint32((bits & 0x007FFFFF) + 0x3F3504F3).view(F) - F(1)
    s = f / (F(2) + f)
    z = s * s
    w = z * z
    r = z * (LG[0] + w * LG[2]) + w * (LG[1] + w * LG[3])
    half = F(0.5) * f * f
    return s * (half + r) + k * LN2_LO - half + f + k * LN2_HI


# k_sinf.c, k_cosf.c: in double, rounded once ---------------------------------------------------------------------------------
SIN = [from_hex(c) for c in ("-0x15555554cbac77.0p-55", "0x111110896efbb2.0p-59", "-0x1a00f9e2cae774.0p-65", "0x16cd878c3b46a7.0p-71")]
COS = [from_hex(c) for c in ("-0x1ffffffd0c5e81.0p-54", "0x155553e1053a42.0p-57", "-0x16c087e80f1e27.0p-62", "0x199342e0ee5069.0p-68")]


def k_sin(x):
    z = x * x
    w = z * z
    r = SIN[2] + z * SIN[3]
    s = z * x
    return F((x + s * (SIN[0] + z * SIN[1])) + s * w * r)


def k_cos(x):
    z = x * x
    w = z * z
    r = COS[2] + z * COS[3]
    return F(((D(1) + z * COS[0]) + w * COS[1]) + (w * z) * r)


def sin_cos(x):
    """Returns sine and cosine of an f32 from 0 to 9 pi/4, by the nearest multiple of pi/2 according to msun's bounds."""
    bits, wide, half_pi = int(F(x).view(np.uint32)), D(x), D(np.pi) / 2
    assert bits <= 0x40E231D5
    if bits < 0x39800000:
        return F(x), F(1)
    if bits <= 0x3F490FDA:
        return k_sin(wide), k_cos(wide)
    if bits <= 0x4016CBE3:
        return k_cos(half_pi - wide), k_sin(half_pi - wide)
    if bits <= 0x407B53D1:
        return -k_sin(wide - 2 * half_pi), -k_cos(wide - 2 * half_pi)
    if bits <= 0x40AFEDDF:
        return -k_cos(wide - 3 * half_pi), k_sin(wide - 3 * half_pi)
    return k_sin(wide - 4 * half_pi), k_cos(wide - 4 * half_pi)


# The noise ------------------------------------------------------------------------------------------------------------------
def pair(u, v):
    """Returns two standard normal values from two words."""
    r = np.sqrt(F(-2) * ln((F(u) + F(1)) * F(2.0**-32)))
    sin, cos = sin_cos(F(v >> 8) * (F(2 * np.pi) / F(2.0**24)))
    return [r * cos, r * sin]


@functools.cache
def normals(seed, purpose, step, chunk, count):
    stream = Stream(seed, purpose, step, chunk)
    draws = []
    while len(draws) < count:
        draws += pair(stream.next(), stream.next())
    return draws[:count]


def check():
    """Checks that every function is within a unit in the last place of mpmath's."""
    numbers = Stream(1, 4, 0, 0)
    for _ in range(2000):
        u, v = numbers.next(), numbers.next()
        x, y = (F(u) + F(1)) * F(2.0**-32), F(v >> 8) * (F(2 * np.pi) / F(2.0**24))
        found = [(ln(x), mpmath.log(mpmath.mpf(float(x))))]
        found += zip(sin_cos(y), (mpmath.sin(mpmath.mpf(float(y))), mpmath.cos(mpmath.mpf(float(y)))))
        for value, exact in found:
            assert abs(float(value) - exact) <= abs(np.spacing(F(float(exact)))), (x, y, value, exact)
