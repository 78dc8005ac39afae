"""What a private step releases, worked out from the docs of the core: random words, discrete Gaussian noise, clipping onto
the grid. Integers are Python's; floats are numpy's, whose + - * / and square root are correctly rounded."""

import struct

import numpy as np
from mpmath import exp, floor, inf, mp, mpf, nsum

F = np.float32
M32 = 0xFFFFFFFF
GRADIENT_NOISE, COUNT_NOISE, SAMPLING = 1, 2, 3
CHUNK = 1024


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
    """Sum of squares: element i goes to lane i mod 8, lanes add in index order, then a fixed fold."""
    lanes = [F(0)] * 8
    for i, g in enumerate(grad):
        lanes[i % 8] = F(lanes[i % 8] + F(g * g))
    a, b, c, d, e, f, g, h = lanes
    return F(F(F(a + e) + F(c + g)) + F(F(b + f) + F(d + h)))


def onto_grid(grad, units, divisor):
    """trunc(g * units/divisor), shrunk until its norm is at most `units`, checked in integers."""
    unit = F(units)
    scale, shrink = F(unit / divisor), F(2.0**-20)
    if not np.isfinite(scale):
        return [0] * len(grad)
    while True:
        q = [int(np.trunc(min(max(F(g * scale), -unit), unit))) for g in grad]
        if sum(x * x for x in q) <= units * units:
            return q
        scale, shrink = F(scale * F(F(1) - shrink)), F(shrink * F(2))


def clipped(grad, clip, bits):
    """Flat clipping; a gradient whose squared norm is not finite adds nothing."""
    square = norm_squared(grad)
    if not np.isfinite(square):
        return [0] * len(grad)
    return onto_grid(grad, 1 << bits, max(np.sqrt(square), clip))


# Gradients of a run: floats built from integers ----------------------------------------------------------------------
class Gradients:
    """x <- x * 6364136223846793005 + 1442695040888963407 mod 2^64; a gradient is ((x >> 40) - 2^23) / 2^shift."""

    def __init__(self, seed):
        self.x = seed

    def next(self, shift):
        self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
        return F((self.x >> 40) - 2**23) / F(2.0**shift)


def bits_of(x):
    """The bits of an f32, in hexadecimal."""
    return f"{struct.unpack('<I', struct.pack('<f', float(x)))[0]:08x}"
