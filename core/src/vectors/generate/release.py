"""Releases of a private step, computed from the docs of the core: random words, discrete Gaussian noise, clipping onto
the grid. Integers are Python's. Floats are numpy's, with correctly rounded + - * / and square root."""

import struct
from fractions import Fraction

import numpy as np
from mpmath import exp, floor, inf, mp, mpf, nsum

F = np.float32
M32 = 0xFFFFFFFF
GRADIENT_NOISE, COUNT_NOISE, SAMPLING = 1, 2, 3
CHUNK = 1024


# ChaCha20, RFC 8439 ------------------------------------------------------------------------------------------------
def chacha_blocks(key, counters, nonce):
    """Returns the words of the blocks with these counters, in order."""
    start = np.zeros((16, len(counters)), np.uint32)
    start[:4] = np.array(struct.unpack("<4I", b"expand 32-byte k"), np.uint32)[:, None]
    start[4:12] = np.array(key, np.uint32)[:, None]
    start[12] = counters
    start[13:] = np.array(nonce, np.uint32)[:, None]
    # Rows a, b, c, d of four quarter rounds at once.
    a, b, c, d = (start[4 * i : 4 * i + 4].copy() for i in range(4))

    def quarters(a, b, c, d):
        a += b
        d ^= a
        d = d << np.uint32(16) | d >> np.uint32(16)
        c += d
        b ^= c
        b = b << np.uint32(12) | b >> np.uint32(20)
        a += b
        d ^= a
        d = d << np.uint32(8) | d >> np.uint32(24)
        c += d
        b ^= c
        b = b << np.uint32(7) | b >> np.uint32(25)
        return a, b, c, d

    for _ in range(10):
        a, b, c, d = quarters(a, b, c, d)
        a, b, c, d = quarters(a, np.roll(b, -1, 0), np.roll(c, -2, 0), np.roll(d, -3, 0))
        b, c, d = np.roll(b, 1, 0), np.roll(c, 2, 0), np.roll(d, 3, 0)
    return (np.concatenate([a, b, c, d]) + start).T.ravel().tolist()


def simulation(seed):
    """Returns the key of the simulation with this seed."""
    key = struct.pack("<Q", seed) + b" damper: not private key"
    assert len(key) == 32
    return key


class Stream:
    """Words at (purpose, step, chunk) under a key: 32 bytes, or the seed of a simulation."""

    def __init__(self, key, purpose, step, chunk):
        self.key = struct.unpack("<8I", key if isinstance(key, bytes) else simulation(key))
        self.nonce = [purpose, step, chunk]
        self.blocks, self.words, self.at = 0, [], 0

    def next(self):
        if self.at == len(self.words):
            # Draw more at a time as the stream gets longer.
            more = max(4, self.blocks)
            counters = np.arange(self.blocks, self.blocks + more, dtype=np.uint32)
            self.words, self.at, self.blocks = chacha_blocks(self.key, counters, self.nonce), 0, self.blocks + more
        self.at += 1
        return self.words[self.at - 1]

    def next64(self):
        low = self.next()
        return low | self.next() << 32


# The discrete Gaussian ----------------------------------------------------------------------------------------------
mp.prec = 600
WEIGHTS = [exp(-mpf(i) ** 2 / 128) for i in range(200)]
TOTAL = nsum(lambda i: exp(-(i**2) / mpf(128)), [0, inf])
# First 288 bits of P(I < i).
CUMULATIVE = [int(floor(sum(WEIGHTS[:i]) / TOTAL * mpf(2) ** 288)) for i in range(152)]
HEADS = [c >> 264 for c in CUMULATIVE[:64]]


def cell(head, stream):
    if head not in HEADS:
        return sum(head >= c for c in HEADS) - 1
    value = head << 8 | stream.next() >> 24
    for _ in range(8):
        value = value << 32 | stream.next()
    return sum(value >= c for c in CUMULATIVE) - 1


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


def accept(i, a, sigma, coin, stream):
    """Returns True with probability exp(-x(2i + x)/128), x = a/sigma, by `trials` trials of exp(-x(2i + x)/(128 trials))."""
    trials = i // 64 + 1
    for trial in range(trials):
        heads = 0
        while True:
            if trials > 1 or heads > 0:
                coin = below(128 * trials * (heads + 1), stream)
            if coin > 2 * i:
                break
            if coin == 2 * i and not ratio(a, sigma, stream):
                break
            if not ratio(a, sigma, stream):
                break
            heads += 1
        if heads % 2 == 1:
            return False
    return True


def discrete_gaussian(sigma, stream):
    while True:
        word = stream.next()
        negative, head, coin = word >> 31 == 1, word >> 7 & 0xFFFFFF, word & 0x7F
        i = cell(head, stream)
        j = below(-(-sigma // 8), stream)
        a = 8 * j + -i * sigma % 8
        if a < sigma and accept(i, a, sigma, coin, stream):
            z = (i * sigma + a) // 8
            if z != 0 or not negative:
                return -z if negative else z


# Clipping on the grid -----------------------------------------------------------------------------------------------
def norm_squared(grad):
    """Returns the sum of squares in blocks of 1,024. The rounding error of the sum of their totals, a float32, is added at the end."""
    total, lost = F(0), F(0)
    for at in range(0, len(grad), 1024):
        block = block_squared(grad[at : at + 1024])
        before, total = total, F(total + block)
        if np.isfinite(total):
            lost = F(lost + F(float(Fraction(float(before)) + Fraction(float(block)) - Fraction(float(total)))))
    return F(total + lost)


def block_squared(grad):
    """Returns the sum of squares of a block: element i goes to lane i mod 8, lanes add in index order, then a fixed fold."""
    squares = np.zeros(-(-len(grad) // 8) * 8, F)
    squares[: len(grad)] = np.asarray(grad, F) * np.asarray(grad, F)
    lanes = np.zeros(8, F)
    for eight in squares.reshape(-1, 8):
        lanes = lanes + eight
    a, b, c, d, e, f, g, h = lanes
    return F(F(F(a + e) + F(c + g)) + F(F(b + f) + F(d + h)))


def onto_grid(grad, units, divisor):
    """Returns trunc(g * units/divisor), scaled down until its norm, checked in integers, is at most `units`."""
    unit = F(units)
    scale, shrink = F(unit / divisor), F(2.0**-20)
    if not np.isfinite(scale):
        return [0] * len(grad)
    grad = np.asarray(grad, F)
    # The sum of squares does not overflow 64 bits.
    assert len(grad) * units * units < 2**63
    while True:
        q = np.trunc(np.clip(grad * scale, -unit, unit)).astype(np.int64)
        if int(np.dot(q, q)) <= units * units:
            return q.tolist()
        scale, shrink = F(scale * F(F(1) - shrink)), F(shrink * F(2))


def clipped(grad, clip, bits):
    """Clips flat. A gradient with a squared norm that is not finite adds nothing."""
    square = norm_squared(grad)
    if not np.isfinite(square):
        return [0] * len(grad)
    return onto_grid(grad, 1 << bits, max(np.sqrt(square), clip))


# Gradients of a run: floats built from integers ----------------------------------------------------------------------
class Gradients:
    """Generator x <- x * 6364136223846793005 + 1442695040888963407 mod 2^64. A gradient is ((x >> 40) - 2^23) / 2^shift."""

    def __init__(self, seed):
        self.x = seed

    def next(self, shift):
        self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
        return F((self.x >> 40) - 2**23) / F(2.0**shift)


def bits_of(x):
    """Returns the bits of an f32, in hexadecimal."""
    return f"{struct.unpack('<I', struct.pack('<f', float(x)))[0]:08x}"
