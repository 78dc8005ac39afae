"""Function checks of a pack: values of the parts of a step. The bytes are those of replay/src/lib.rs."""

import struct

import mpmath
import numpy as np

import continuous
from clipping import Automatic, Flat, PerLayer, add_sample
from numerics import S
from payer import Filter, Ledger
from release import F, GRADIENT_NOISE, SAMPLING, Gradients, Stream, block_squared, discrete_gaussian, norm_squared
from xoshiro import Xoshiro

WORDS, NOISE, COINS, SQUARES, FUNCTIONS, CLIPPED, BINS, CONTINUOUS, FAST_WORDS, COORDINATES, LEDGER, FILTER = range(1, 13)
F32 = {"sqrt": 0, "ln": 1, "sin-cos": 2, "exp-f32": 7, "sum": 8, "product": 9, "quotient": 10}
F64 = {"sqrt-f64": 3, "exp-f64": 4, "cos-f64": 5, "pow-f64": 6, "narrow": 11}


def bits(x):
    return struct.pack("<f", float(x))


def address(seed, purpose, step, chunk):
    return struct.pack("<QBII", seed, purpose, step, chunk)


def counted(items):
    return struct.pack("<H", len(items)) + b"".join(items)


def grad_bytes(grad):
    return struct.pack("<H", len(grad)) + np.asarray(grad, F).astype("<f4").tobytes()


def near(function, draw, digits, count):
    """Returns `count` arguments with an exact value within 1/64 unit of a float of `digits` digits. A library that errs by less
    than 31/64 of a unit before rounding then returns that float."""
    found = []
    while len(found) < count:
        arguments = draw()
        exact = function(*map(mpmath.mpf, arguments))
        value = float(F(float(exact))) if digits == 24 else float(exact)
        unit = mpmath.mpf(2) ** (mpmath.frexp(exact)[1] - digits)
        if abs(exact - value) <= unit / 64:
            found.append((*arguments, value))
    return found


def functions(pack):
    words = Stream(3, 4, 0, 0)

    def uniform(low, high):
        return low + (high - low) * (words.next64() >> 11) / 2.0**53

    def any_f32(low, high):
        """Returns a float with an exponent field from low to high - 1."""
        word = words.next()
        return np.uint32(word & 0x007FFFFF | low + (words.next() % (high - low)) << 23).view(F)

    def add(name, rows, results):
        if name in F32:
            body = [b"".join(map(bits, row)) for row in rows]
            kind = F32[name]
        else:
            body = [struct.pack(f"<{len(row)}d", *row) for row in rows]
            if name == "narrow":
                body = [struct.pack("<d", row[0]) + bits(row[1]) for row in rows]
            kind = F64[name]
        pack.group(FUNCTIONS, name, bytes([kind]) + counted(body), f"{len(rows) * results} values")

    edges = [np.uint32(b).view(F) for b in (0, 1, 0x007FFFFF, 0x00800000, 0x3F7FFFFF, 0x3F800001, 0x7F7FFFFF)]
    positive = edges + [any_f32(0, 254) for _ in range(25)]
    add("sqrt", [(x, np.sqrt(x)) for x in positive], 1)
    units = [F(1), F(2.0**-32), F(1 - 2.0**-24), F(0.70710677), F(0.7071068)] + [any_f32(95, 127) for _ in range(27)]
    add("ln", [(x, continuous.ln(x)) for x in units], 1)
    angles = [F(0), F(1e-4), F(np.pi), F(2 * np.pi)] + [F(uniform(0, 6.2831)) for _ in range(28)]
    add("sin-cos", [(x, *continuous.sin_cos(x)) for x in angles], 2)
    add("exp-f32", near(mpmath.exp, lambda: (float(F(uniform(-20, 0))),), 24, 16), 1)
    add("sqrt-f64", [(x, float(np.sqrt(x))) for x in [0.0, 5e-324, 2.0] + [uniform(0, 9) for _ in range(13)]], 1)
    add("exp-f64", near(mpmath.exp, lambda: (uniform(-3, 3),), 53, 16), 1)
    add("cos-f64", near(mpmath.cos, lambda: (uniform(0.1, 3.1),), 53, 16), 1)
    add("pow-f64", near(mpmath.power, lambda: (uniform(0.1, 40), uniform(0.1, 4)), 53, 16), 1)
    small = edges[:4] + [-any_f32(0, 3) for _ in range(12)]
    pairs = list(zip(small, reversed(small))) + [(any_f32(1, 3), -any_f32(0, 2)) for _ in range(8)]
    add("sum", [(x, y, x + y) for x, y in pairs], 1)
    pairs = [(any_f32(40, 66), any_f32(40, 66)) for _ in range(24)]
    add("product", [(x, y, x * y) for x, y in pairs], 1)
    pairs = [(any_f32(0, 24), any_f32(126, 150)) for _ in range(24)]
    add("quotient", [(x, y, x / y) for x, y in pairs], 1)
    halves = [float(x) + float(np.spacing(x)) / 2 for x in edges[1:6]]
    doubles = halves + [uniform(-1, 1) * 2.0 ** -(words.next() % 150) for _ in range(19)] + [1e39, -1e39, 1e-46]
    add("narrow", [(x, F(x)) for x in doubles], 1)


def coordinates(pack, numbers):
    """Adds a matrix [5, 6] in 2 directions on its left, [4, 5] in 3 on its right, and its projections. Large and small numbers."""
    for name, left, rows, columns, rank, shift in [("left", True, 5, 6, 2, 23), ("right", False, 4, 5, 3, -40)]:
        k = rows if left else columns
        directions = np.array([numbers.next(23) for _ in range(k * rank)], F).reshape(k, rank)
        matrix = np.array([numbers.next(shift) for _ in range(rows * columns)], F).reshape(rows, columns)

        def product(a, b):
            total = np.zeros((a.shape[0], b.shape[1]), F)
            for i in range(a.shape[1]):
                total = S(total + S(np.outer(a[:, i], b[i])))
            return total

        image = product(directions.T, matrix) if left else product(matrix, directions)
        back = product(directions, image) if left else product(image, directions.T)
        head = struct.pack("<BHHHH", not left, rank, directions.size, matrix.size, image.size)
        body = b"".join(np.asarray(part, F).astype("<f4").tobytes() for part in (directions, matrix, image, back))
        pack.group(COORDINATES, f"coordinates {name}", head + body, f"{image.size + matrix.size} values")


def payers(pack):
    """Adds charged steps, stores that fail and restarts, until the budget is spent."""
    for budget, prepaid in [(9, 1), (12, 4)]:
        ledger, body = Ledger(budget, prepaid), []
        for event in [0, 0, 1, 0, 2, 0, 0, 1, 0, 0, 2, 0, 0, 0, 2, 0, 0]:
            found = ledger.restart() if event == 2 else ledger.pay(event == 1)
            body.append(struct.pack("<BII", event, found, ledger.persisted))
        head = struct.pack("<II", budget, prepaid)
        pack.group(LEDGER, f"ledger {budget} by {prepaid}", head + counted(body), f"{2 * len(body)} values")
    words = Stream(5, 4, 0, 0)
    for order, epsilon in [(2, 20.0), (8, 3.0), (64, 1.0)]:
        filter, body = Filter(order, epsilon, 1e-5), []
        rates = [2**53, 2**53 // 7, 2**46 + 1, 1, 0]
        for i in range(24):
            event = {5: 1, 9: 2, 17: 2}.get(i, 0)
            rate = rates[i % 5]
            # From far too little noise to far more than needed.
            multiplier = (1 + words.next() % 1000) / 100 * (0.1 if i % 5 == 3 else 1.0) + (20.0 if i == 0 else 0.0)
            found = filter.restart() if event == 2 else filter.pay(rate, multiplier, event == 1)
            body.append(struct.pack("<BQdId", event, rate, multiplier, found, filter.spent))
        head = filter.head() + struct.pack("<d", filter.budget)
        pack.group(FILTER, f"filter {order}", head + counted(body), f"{2 * len(body) + 1} values")


def words(pack, kind, name, generator):
    for seed, purpose, step, chunk in [(0, 1, 0, 0), (1, 3, 7, 2), (2**64 - 1, 1, 2**32 - 1, 2**32 - 1)]:
        stream = generator(seed, purpose, step, chunk)
        body = counted([struct.pack("<I", stream.next()) for _ in range(24)])
        pack.group(kind, f"{name} {purpose}/{step}/{chunk}", address(seed, purpose, step, chunk) + body, "24 values")


def further(pack):
    """Adds the checks that are not in the base set."""
    words(pack, FAST_WORDS, "xoshiro", Xoshiro)
    coordinates(pack, Gradients(98))
    payers(pack)


def long(pack):
    """Adds a sum of squares over whole blocks and a partial block. Adding the blocks' totals in float32 alone would differ."""
    for seed in range(97, 200):
        numbers = Gradients(seed)
        grad = np.array([numbers.next(23) for _ in range(4 * 1024 + 13)], F)
        plain = F(0)
        for at in range(0, len(grad), 1024):
            plain = F(plain + block_squared(grad[at : at + 1024]))
        if plain != norm_squared(grad):
            break
    pack.group(SQUARES, "squares", grad_bytes(grad) + bits(norm_squared(grad)), "1 values")


def add(pack, clip_bytes):
    words(pack, WORDS, "words", Stream)
    for sigma in [1, 3, 1000, 65536, (1 << 31) - 1]:
        stream = Stream(sigma, GRADIENT_NOISE, 5, 1)
        body = counted([struct.pack("<q", discrete_gaussian(sigma, stream)) for _ in range(20)])
        head = address(sigma, GRADIENT_NOISE, 5, 1) + struct.pack("<I", sigma)
        pack.group(NOISE, f"noise {sigma}", head + body, "20 values")
    draws = continuous.normals(9, GRADIENT_NOISE, 2, 0, 40)
    # Sigma times one, divided by a batch of one: two roundings of a value that is already a float.
    sigma = continuous.next_up(0.7)
    body = struct.pack("<H", 20) + b"".join(bits(F(sigma * x)) for x in draws)
    pack.group(CONTINUOUS, "noise continuous", address(9, GRADIENT_NOISE, 2, 0) + struct.pack("<d", 0.7) + body, "40 values")

    rate, samples, drawn = 2**49 + 1, 1500, []
    for index in range(samples):
        if index % 1024 == 0:
            stream = Stream(4, SAMPLING, 11, index // 1024)
        if stream.next64() >> 11 < rate:
            drawn.append(struct.pack("<I", index))
    head = struct.pack("<QIQI", 4, 11, rate, samples)
    pack.group(COINS, "sampling", head + counted(drawn), f"{len(drawn) + 1} values")

    numbers = Gradients(99)
    grad = np.array([numbers.next(21) for _ in range(37)], F)
    pack.group(SQUARES, "squares", grad_bytes(grad) + bits(norm_squared(grad)), "1 values")
    functions(pack)

    layered = [(3, 2097152), (14, 3355443)]
    cases = [
        (Flat(), 8, 1.0, 21, 5), (Flat(), 16, 0.1, 24, 17), (Flat(), 20, 3.0, 23, 40), (Flat(), 22, 1e-3, 40, 9),
        (Automatic(0.01), 16, 0.3, 23, 17), (PerLayer(Flat(), layered), 16, 0.3, 23, 17),
        (PerLayer(Automatic(0.5), layered), 22, 2.0, 23, 17), (Flat(), 16, 1.0, 120, 9), (Flat(), 16, 1.0, -60, 9),
    ]  # fmt: skip
    for i, (rule, grid, clip, shift, dim) in enumerate(cases):
        grad = np.array([numbers.next(shift) for _ in range(dim)], F)
        added, norm = add_sample(rule, grad, F(clip), grid)
        last = struct.pack("<I", 0xFFFFFFFF) if norm is None else bits(norm)
        body = clip_bytes(rule.text) + bytes([grid]) + bits(F(clip)) + grad_bytes(grad)
        pack.group(CLIPPED, f"clipped {i}", body + struct.pack(f"<{dim}i", *added) + last, f"{dim + 1} values")

    for bins, clip in [(20, 0.7), (7, 1e-4), (1, 1.0)]:
        edges = [F(F(k) * F(clip)) / F(bins) for k in range(1, bins + 2)]
        norms = [F(0), F(1e-30)] + [x for edge in edges for x in (np.nextafter(edge, F(0)), edge, np.nextafter(edge, F(9e9)))]
        found = [bytes([min(bins - 1, int(F(norm * F(F(bins) / F(clip)))))]) for norm in norms]
        body = counted([bits(norm) + at for norm, at in zip(norms, found)])
        pack.group(BINS, f"bins {bins}", bytes([bins]) + bits(F(clip)) + body, f"{len(norms)} values")