"""Ledgers and Rényi filters, written from the docs of the core's accounting, and the f64 functions of their privacy costs.

`exp`, `expm1`, `log` and `log1p` have the bits of FreeBSD's msun in musl (e_exp.c, s_expm1.c, e_log.c, s_log1p.c). The core's
library follows the same files. They are written here from those files, with each operation rounded. `check` compares them with
mpmath."""

import math
import struct

import mpmath

from release import Stream

INF = math.inf


def from_hex(text):
    return float.fromhex(text)


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(x):
    return struct.unpack("<d", struct.pack("<Q", x))[0]


LN2_HI, LN2_LO, INV_LN2 = from_bits(0x3FE62E42FEE00000), from_bits(0x3DEA39EF35793C76), from_bits(0x3FF71547652B82FE)
LG = [from_bits(x) for x in (0x3FE5555555555593, 0x3FD999999997FA04, 0x3FD2492494229359, 0x3FCC71C51D8E78AF,
                             0x3FC7466496CB03DE, 0x3FC39A09D078C69F, 0x3FC2F112DF3E5244)]  # fmt: skip
P = [from_bits(x) for x in (0x3FC555555555553E, 0xBF66C16C16BEBD93, 0x3F11566AAF25DE2C, 0xBEBBBD41C5D26BF1, 0x3E66376972BEA4D0)]
Q = [from_bits(x) for x in (0xBFA11111111110F4, 0x3F5A01A019FE5585, 0xBF14CE199EAADBB7, 0x3ED0CFCA86E65239, 0xBE8AFDB76E09C32D)]


def horner(coefficients, x):
    value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = c + x * value
    return value


def nearest_k(x):
    """Returns the multiple of ln 2 to subtract if |x| is above half of ln 2."""
    if bits(x) >> 32 & 0x7FFFFFFF < 0x3FF0A2B2:
        return 1 if x > 0 else -1
    return int(INV_LN2 * x + math.copysign(0.5, x))


# e_exp.c ----------------------------------------------------------------------------------------------------------------
def exp(x):
    assert x < 700
    if x < -745.13321910194110842:
        return 0.0
    top, k, hi, lo = bits(x) >> 32 & 0x7FFFFFFF, 0, x, 0.0
    if top > 0x3FD62E42:
        k = nearest_k(x)
        hi, lo = x - k * LN2_HI, k * LN2_LO
        x = hi - lo
    elif top <= 0x3E300000:
        return 1.0 + x
    square = x * x
    c = x - square * horner(P, square)
    y = 1.0 + (x * c / (2.0 - c) - lo + hi)
    return math.ldexp(y, k)


# s_expm1.c --------------------------------------------------------------------------------------------------------------
def expm1(x):
    assert abs(x) < 700
    top, k, c = bits(x) >> 32 & 0x7FFFFFFF, 0, 0.0
    if top > 0x3FD62E42:
        k = nearest_k(x)
        hi, lo = x - k * LN2_HI, k * LN2_LO
        x = hi - lo
        c = (hi - x) - lo
    elif top < 0x3C900000:
        return x
    half = 0.5 * x
    square = x * half
    r1 = 1.0 + square * horner(Q, square)
    t = 3.0 - r1 * half
    e = square * ((r1 - t) / (6.0 - x * t))
    if k == 0:
        return x - (x * e - square)
    e = x * (e - c) - c
    e -= square
    if k == -1:
        return 0.5 * (x - e) - 0.5
    if k == 1:
        return -2.0 * (e - (x + 0.5)) if x < -0.25 else 1.0 + 2.0 * (x - e)
    if k < 0 or k > 56:
        return (x - e + 1.0) * 2.0**k - 1.0
    if k < 20:
        return (x - e + (1.0 - 2.0**-k)) * 2.0**k
    return (x - (e + 2.0**-k) + 1.0) * 2.0**k


# e_log.c, s_log1p.c -----------------------------------------------------------------------------------------------------------
def reduced(x):
    """Returns `(k, f)`: x is 2^k (1 + f), with 1 + f from sqrt(2)/2 to sqrt(2)."""
    found = bits(x)
    top = (found >> 32) + 0x3FF00000 - 0x3FE6A09E
    k = (top >> 20) - 0x3FF
    return k, from_bits(((top & 0xFFFFF) + 0x3FE6A09E) << 32 | found & 0xFFFFFFFF) - 1.0


def tail(f):
    """Returns `(half of f squared, s, R)` of the series."""
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    t1 = w * (LG[1] + w * (LG[3] + w * LG[5]))
    t2 = z * (LG[0] + w * (LG[2] + w * (LG[4] + w * LG[6])))
    return 0.5 * f * f, s, t2 + t1


def log(x):
    assert x > 1e-300
    if x == 1.0:
        return 0.0
    k, f = reduced(x)
    half, s, r = tail(f)
    return s * (half + r) + k * LN2_LO - half + f + k * LN2_HI


def log1p(x):
    assert x >= 0
    top, k, c, f = bits(x) >> 32, 0, 0.0, x
    if top < 0x3CA00000:
        return x
    if top >= 0x3FDA827A:
        u = 1.0 + x
        k, f = reduced(u)
        c = 0.0 if k >= 54 else (1.0 - (u - x) if k >= 2 else x - (u - 1.0)) / u
    half, s, r = tail(f)
    return s * (half + r) + (k * LN2_LO + c) - half + f + k * LN2_HI


def check():
    """Checks that every function is within a unit in the last place of mpmath's."""
    words = Stream(2, 4, 0, 0)

    def uniform(low, high):
        return low + (high - low) * (words.next64() >> 11) / 2.0**53

    for _ in range(2000):
        x, y, z = uniform(-40, 40), math.exp(uniform(-60, 60)), uniform(-2, 2)
        cases = [(exp, mpmath.exp, x), (exp, mpmath.exp, z), (expm1, mpmath.expm1, x), (expm1, mpmath.expm1, z)]
        for function, exact, argument in cases + [(log, mpmath.log, y), (log, mpmath.log, 2 + z), (log1p, mpmath.log1p, y)]:
            value, true = function(argument), exact(mpmath.mpf(argument))
            assert abs(value - true) <= math.ulp(float(true)), (function, argument)


# Rounded up ------------------------------------------------------------------------------------------------------------------
def up(x):
    return math.nextafter(x, INF)


def add_up(a, b):
    return up(a + b)


def mul_up(a, b):
    return up(a * b)


def div_up(a, b):
    return up(a / b)


def exp_up(x):
    return up(up(exp(x)))


def ln_up(x):
    return up(up(log(x)))


class LogSum:
    """Sum of positive terms, stored as `total` e^`scale`."""

    def __init__(self):
        self.scale, self.total = -INF, 0.0

    def add(self, factor, ln_scale):
        if ln_scale > self.scale + 200:
            kept = mul_up(self.total, exp_up(up(self.scale - ln_scale))) if self.total > 0 else 0.0
            self.scale, self.total, shrink = ln_scale, kept, 1.0
        elif ln_scale == self.scale:
            shrink = 1.0
        else:
            shrink = exp_up(up(ln_scale - self.scale))
        self.total = add_up(self.total, mul_up(factor, shrink))

    def ln_1p(self):
        ln = add_up(self.scale, ln_up(self.total))
        return add_up(ln, exp_up(-ln)) if ln > 600 else up(up(log1p(exp_up(ln))))


def gaussian(alpha, sigma):
    return div_up(div_up(mul_up(alpha, alpha - 1) / 2, sigma), sigma)


def divergence(rate, multiplier, order):
    """Returns the divergence of one batch at sampling rate `rate`/2^53."""
    q, out, alpha = rate / 2.0**53, (2**53 - rate) / 2.0**53, float(order)
    if q == 0:
        return 0.0
    if q == 1:
        return div_up(gaussian(alpha, multiplier), alpha - 1)
    odds, h = div_up(q, out), gaussian(2.0, multiplier) / 2
    weight, ln_weight, total = 1.0, mul_up(alpha, ln_up(out)), LogSum()
    for k in map(float, range(1, order + 1)):
        weight = mul_up(weight, mul_up(odds, div_up(alpha - k + 1, k)))
        if not 1e-100 <= weight <= 1e100:
            ln_weight, weight = add_up(ln_weight, ln_up(weight)), 1.0
        t = mul_up(k * (k - 1), h)
        if k > 1 and t > 40:
            total.add(weight, add_up(ln_weight, t))
        elif k > 1:
            total.add(mul_up(weight, up(up(expm1(t)))), ln_weight)
    ln_moment = total.ln_1p()
    return 0.0 if ln_moment == 0 else div_up(ln_moment, alpha - 1)


def epsilon_at(spent, alpha, delta):
    if spent == INF:
        return INF
    if spent == 0:
        return 0.0
    ln = add_up(ln_up(div_up(1.0, delta)), ln_up(div_up(1.0, alpha)))
    return max(0.0, add_up(add_up(spent, ln_up(div_up(alpha - 1, alpha))), div_up(ln, alpha - 1)))


def together(a, b):
    """Returns the joint multiplier of two releases from one batch, rounded down."""
    ratio = div_up(min(a, b), max(a, b))
    return math.nextafter(min(a, b) / up(math.sqrt(add_up(1.0, mul_up(ratio, ratio)))), -INF)


# Budget trackers ---------------------------------------------------------------------------------------------------------------
REFUSED, STORE_FAILED = 0xFFFFFFFF, 0xFFFFFFFE


class Ledger:
    """Counts steps against a budget. `persisted` is the number in its store. `covered` is the number that it assumes persisted."""

    def __init__(self, budget, prepaid=1):
        self.budget, self.prepaid, self.paid, self.persisted, self.covered = budget, prepaid, 0, 0, 0

    def pay(self, fails=False):
        if self.paid >= self.budget:
            return REFUSED
        number = self.paid
        self.paid += 1
        if number >= self.covered:
            if fails:
                return STORE_FAILED
            self.persisted = self.covered = min(number + self.prepaid, self.budget)
        return number

    def restart(self):
        self.paid = self.covered = self.persisted
        return self.paid


class Filter:
    """Adds divergences of one order, and rejects the step that would exceed the budget."""

    FIRST = 1 << 31

    def __init__(self, order, epsilon, delta):
        self.order, self.epsilon, self.delta = order, epsilon, delta
        self.paid, self.spent, self.persisted = 0, 0.0, (0, 0.0)
        # The largest divergence with epsilon within the target. Non-negative floats order like their bits, so bisect the bits.
        low, high = 0, bits(INF)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if epsilon_at(from_bits(middle), float(order), delta) <= epsilon else (low, middle)
        self.budget = from_bits(low)

    def head(self):
        return struct.pack("<Idd", self.order, self.epsilon, self.delta)

    def after(self, rate, multiplier):
        cost = divergence(rate, multiplier, self.order)
        return self.spent if cost == 0 else add_up(self.spent, cost)

    def admits(self, rate, multiplier):
        return self.after(rate, multiplier) <= self.budget

    def pay(self, rate, multiplier, fails=False):
        if not self.admits(rate, multiplier):
            return REFUSED
        number, self.spent = self.FIRST + self.paid, self.after(rate, multiplier)
        self.paid += 1
        if fails:
            return STORE_FAILED
        self.persisted = self.paid, self.spent
        return number

    def restart(self):
        self.paid, self.spent = self.persisted
        return self.paid
