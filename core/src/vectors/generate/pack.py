#!/usr/bin/env python3
"""Writes the packs of damper-replay, replay/src/vectors/*.pack, and its expected output for each, *.txt.

replay/src/lib.rs documents the bytes of a pack.
Nothing here was made from, or checked against, the Rust code. Needs numpy and mpmath, as ../README.md describes."""

import pathlib
import struct

import numpy as np

import continuous
import kernels
import payer
import run
from clipping import Automatic, Bounds, ExpectedError, Fixed, Flat, Percentile, PerLayer, Quantile
from motion import (
    SETS, AdaGrad, AdaGradNorm, Adam, AdamBc, Identity, Iir, Kalman, Noise, PerSampleMomentum, Rate, RmsProp, Sgd,
)  # fmt: skip
from release import F
from samples import Elsewhere, Generated, Recorded

CONTRACT = 3
RUN, FILTERED, UPDATES = 16, 17, 18


def fnv(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return digest


def folded(data):
    digest = fnv(data)
    return digest >> 32 ^ digest & 0xFFFFFFFF


def f32s(values):
    return struct.pack(f"<{len(values)}f", *map(float, values))


def named(name):
    assert len(name) <= 40
    return bytes([len(name)]) + name.encode("ascii")


# Configurations: their text in the vectors, word by word ----------------------------------------------------------------------
class Words:
    def __init__(self, text):
        self.words = text.split()

    def next(self):
        return self.words.pop(0)

    def floats(self, count):
        """Returns the bytes of floats of either width, from hexadecimal."""
        return b"".join(bytes.fromhex(self.next())[::-1] for _ in range(count))

    def u32(self):
        return struct.pack("<I", int(self.next()))

    def kind(self, **kinds):
        return kinds[self.next().replace("-", "_")]


def clip(text):
    words = Words(text)
    layers = b""
    count = 0
    if words.words[0] == "layers":
        words.next()
        count = int(words.next())
        layers = b"".join(words.u32() for _ in range(2 * count))
    rule = words.kind(flat=b"\0", automatic=b"\1")
    return rule + words.floats(len(words.words)) + bytes([count]) + layers


def threshold(text):
    words = Words(text)
    kind = words.next()
    if kind == "error":
        kind = words.next()
    kinds = {"fixed": 0, "percentile": 1, "grid": 2, "exact": 3, "quantile": 4}
    return bytes([kinds[kind]]) + words.floats(len(words.words))


def iir(words):
    if words.next() == "set":
        a, b = SETS[words.next()]
        return bytes([len(a), len(b)]) + f32s(list(a) + list(b))
    na, nb = int(words.next()), int(words.next())
    return bytes([na, nb]) + words.floats(na + nb)


def filtering(text):
    words = Words(text)
    kind = words.words[0]
    if kind == "identity":
        return b"\0"
    if kind in ("set", "iir"):
        return b"\1" + iir(words)
    words.next()
    if kind == "momentum":
        iterates, beta = bytes([int(words.next())]), words.floats(1)
        return words.kind(normalised=b"\2", plain=b"\3") + iterates + beta + iir(words)
    gain = words.kind(constant=0, recursion=1)
    packed = b"\4" + bytes([gain]) + words.floats(3 if gain else 1)
    points = words.kind(one=1, two=2)
    return packed + bytes([points]) + words.floats(points - 1)


def optimizer(text):
    return optimizer_words(Words(text))


def optimizer_words(words):
    kind = words.next()
    if kind == "sgd":
        momentum = words.floats(1)
        return words.kind(plain=b"\0", nesterov=b"\1") + momentum + words.floats(1)
    if kind == "norm":
        numbers = words.floats(2)
        return words.kind(raw=b"\x08", subtract=b"\x09") + numbers + optimizer_words(words)
    kinds = {"adam": 2, "adam-filtered": 3, "adam-bc": 4, "adam-bc-by-noise": 5, "adagrad": 6, "rmsprop": 7}
    return bytes([kinds[kind]]) + words.floats(len(words.words))


def schedule(rate, noise):
    words = Words(rate)
    packed = words.floats(1) + words.u32()
    decay = words.kind(constant=0, step=1, cosine=2, polynomial=3, root=4)
    packed += bytes([decay]) + (words.u32() if decay in (1, 2, 4) else b"")
    packed += words.floats(len(words.words))
    words = Words(noise)
    return packed + bytes([words.kind(constant=0, matched=1, polynomial=2)]) + words.floats(len(words.words))


# Digests of the state -----------------------------------------------------------------------------------------------------------
def f64s(*values):
    return struct.pack(f"<{len(values)}d", *values)


def filter_memory(filter):
    if isinstance(filter, Iir):
        return b"".join(map(f32s, filter.s)) + f64s(*filter.ones)
    if isinstance(filter, PerSampleMomentum):
        return b"".join(map(f32s, filter.past)) + filter_memory(filter.inner)
    if isinstance(filter, Kalman):
        return f32s(filter.filtered) + f32s(filter.displacement) + f64s(filter.gain()[0])
    raise TypeError(filter)


def optimizer_memory(optimizer):
    if isinstance(optimizer, AdaGradNorm):
        return f64s(optimizer.added) + optimizer_memory(optimizer.inner)
    if isinstance(optimizer, AdamBc):
        return f32s(optimizer.m) + f32s(optimizer.v) + f64s(optimizer.w1, optimizer.w2, optimizer.phi)
    if isinstance(optimizer, Adam):
        return f32s(optimizer.m) + f32s(optimizer.v) + f64s(optimizer.p1, optimizer.p2)
    if isinstance(optimizer, AdaGrad):
        return f32s(optimizer.s)
    assert isinstance(optimizer, Sgd)
    return f32s(optimizer.m) if optimizer.mu != 0 else b""


def checkpoint(params, threshold, filter, optimizer, paid=None):
    memories = []
    if not isinstance(filter, Identity):
        memories.append(filter_memory(filter))
    if not (isinstance(optimizer, Sgd) and optimizer.mu == 0):
        memories.append(optimizer_memory(optimizer))
    if not isinstance(threshold, Fixed):
        memories.append(f32s([threshold.clip, getattr(threshold, "range", 0.0)]))
    if paid:
        memories.append(f64s(paid.spent) + struct.pack("<I", paid.paid))
    twice = [folded(memory) >> 16 ^ folded(memory) & 0xFFFF for memory in memories]
    return struct.pack(f"<I{len(twice)}H", folded(f32s(params)), *twice)


# Packs ------------------------------------------------------------------------------------------------------------------------------
def mechanism(kind, bits, multiplier):
    """Returns the mechanism, and its bytes."""
    if kind == "f32":
        return run.Continuous(multiplier), b"\2" + struct.pack("<d", multiplier)
    sigma = round(multiplier * 2**bits)
    return run.Discrete(int(kind[1:]), bits, sigma), bytes([("i32", "i64").index(kind), bits]) + struct.pack("<I", sigma)


class Pack:
    def __init__(self, name):
        self.name, self.groups = name, 0
        self.bytes = b"DAMPER" + struct.pack("<HI", 1, CONTRACT) + named(name)
        self.said = [f"set {name}, contract {CONTRACT}"]

    def group(self, kind, name, body, said):
        self.bytes += bytes([kind]) + named(name) + body
        self.said.append(f"{name}: {said}")
        self.groups += 1

    def run(self, name, make, samples, steps, every, batch, mechanism, paid=None):
        """Adds a run. `make` returns new slots, `samples` the samples, and `mechanism` is the mechanism with its bytes. If a Rényi
        filter is charged, `paid` returns it and the rate, and the run continues until the filter rejects a step."""
        runs, packed = mechanism

        def play():
            slots, source = make(), samples()
            filter, rate = paid() if paid else (None, None)
            dim, texts = len(source.params), [slot.text for slot in slots]
            head = source.head() + struct.pack("<I", batch) + packed
            head += clip(texts[0]) + threshold(texts[1]) + filtering(texts[2]) + optimizer(texts[3]) + schedule(*texts[4:])
            body, last = source.start() + source.step(0), b""
            played = run.play(slots, runs, source.params, source.of, batch, steps, source.key, filter, rate)
            taken = 0
            for taken, (_, _, params) in enumerate(played, 1):
                last = checkpoint(params, *slots[1:4], filter)
                if taken % every == 0:
                    body, last = body + last, b""
                if taken < steps:
                    body += source.step(taken)
            assert taken >= min(steps, 200), taken
            head = struct.pack("<IIH", dim, taken, every) + head
            if filter:
                head = filter.head() + struct.pack("<Q", rate) + head
            return head + body + last, taken, fnv(f32s(params))

        body, taken, digest = run.steady(name, play)
        self.group(FILTERED if paid else RUN, name, body, f"{taken} steps, params {digest:016x}")

    def updates(self, name, rule, dim, rounds, every, seed, batch, bits, multiplier, of):
        """Adds rounds of a device that emits updates."""
        number, device = 0x0102030405060708, 0xA0B0C0D0E0F00102
        mechanism, samples, emitted = run.Discrete(32, bits, round(multiplier * 2**bits)), Generated.__new__(Generated), b""
        samples.x, samples.dim = seed, dim
        body = struct.pack("<QQIIHQI", number, device, dim, rounds, every, seed, batch) + bytes([bits])
        body += struct.pack("<I", mechanism.sigma) + clip(rule.text) + struct.pack("<f", of)
        for t in range(rounds):
            total = mechanism.zero(dim)
            for grad in samples.raw(t):
                total, _ = mechanism.add(total, rule, grad, F(of))
            update = struct.pack("<8sIIQQ", b"DAMPERUP", 1, 4, number, device)
            update += struct.pack("<IIIIIIf", t, 1, dim, bits, batch, mechanism.sigma, of)
            update += struct.pack(f"<{dim}i", *mechanism.noised(total, seed, t))
            emitted += update + struct.pack("<Q", fnv(update))
            if (t + 1) % every == 0 or t + 1 == rounds:
                body += struct.pack("<I", folded(emitted))
        self.group(UPDATES, name, body, f"{rounds} rounds, bytes {fnv(emitted):016x}")

    def write(self):
        folder = pathlib.Path(__file__).resolve().parents[4] / "replay/src/vectors"
        packed = self.bytes + b"\0"
        (folder / f"{self.name}.pack").write_bytes(packed + struct.pack("<Q", fnv(packed)))
        self.said.append(f"{self.groups} group{'s' if self.groups != 1 else ''}, all the same")
        (folder / f"{self.name}.txt").write_text("\n".join(self.said) + "\n")


DEFAULT = {
    "clip": Flat, "threshold": lambda: Fixed(0.7), "filter": Identity, "optimizer": Sgd, "rate": lambda: Rate(0.25),
    "noise": Noise, "bits": 16, "multiplier": 0.7, "batch": 4,
}  # fmt: skip


def methods(layers):
    """Yields (name, settings that differ from the default) for every method, with its name on the command line if it has one."""
    def momentum(k, beta, normalised, inner):
        return {"filter": lambda: PerSampleMomentum(k, beta, normalised, Iir(inner))}

    slow = {"rate": lambda: Rate(0.02)}
    yield "dp-sgd", {}
    yield "doppler", {"filter": lambda: Iir("d2")}
    yield "doppler-adam", {"filter": lambda: Iir("f6"), "optimizer": lambda: Adam(0.0)} | slow
    yield "dp-pmlf", momentum(3, 0.9, True, "p6")
    yield "inner-outer", momentum(3, 0.5, False, "sgd") | {"optimizer": lambda: Sgd(0.5)}
    yield "disk", {"filter": lambda: Kalman(0.7)}
    yield "disk-two-points", {"filter": lambda: Kalman(0.7, 0.5)}
    yield "disk-recursion", {"filter": lambda: Kalman((0.5, 0.02, 0.03), -1.0)}
    yield "dc-sgd-p", {"threshold": lambda: Percentile(0.5, 0.5, 1.0, 1.0)}
    yield "dc-sgd-e-grid", {"threshold": lambda: ExpectedError("grid", 0.5, 1.0, 20.0)}
    yield "dc-sgd-e-exact", {"threshold": lambda: ExpectedError("exact", 0.5, 1.0, 20.0, Bounds(0.05, 4.0))}
    yield "quantile", {"threshold": lambda: Quantile(0.5, 0.2, 0.25, 1.0)}
    yield "adp", {"rate": lambda: Rate(0.5, 3, ("polynomial", 1.0, 0.1)), "noise": lambda: Noise("matched", 0.5)}
    yield "automatic", {"clip": lambda: Automatic(0.01)}
    yield "per-layer", {"clip": lambda: PerLayer(Flat(), layers)}
    yield "per-layer-automatic", {"clip": lambda: PerLayer(Automatic(0.1), layers)}
    yield "momentum", {"optimizer": lambda: Sgd(0.9, False, 0.01)}
    yield "nesterov", {"optimizer": lambda: Sgd(0.8, True, 0.02)}
    yield "adam", {"optimizer": Adam} | slow
    yield "adamw", {"optimizer": lambda: Adam(0.8, 0.99, 1e-6, 0.05)} | slow
    yield "adam-bc", {"optimizer": lambda: AdamBc(0.9, 0.95, 1e-3, 0.01)} | slow
    yield "adagrad", {"optimizer": lambda: AdaGrad(1e-10, 0.02)}
    yield "rmsprop", {"optimizer": lambda: RmsProp(0.9, 1e-8, 0.02)} | slow
    yield "adagrad-norm", {"optimizer": lambda: AdaGradNorm(0.5, 1e-5, True, Sgd(0.5, False, 0.01))}


def schedules(steps):
    """Yields other runs: schedules, the limits of f32, several methods at once. (name, kind of sums, ...)"""
    yield "cosine", "i32", {"rate": lambda: Rate(0.3, 5, ("cosine", steps, 0.1))}
    yield "step-decay", "i64", {"rate": lambda: Rate(0.3, 0, ("step", 20, 0.7))}
    yield "root", "f32", {"rate": lambda: Rate(0.3, 3, ("root", steps, 0.05))}
    yield "adp-polynomial", "i32", {"noise": lambda: Noise("polynomial", 0.37, 0.5)}
    yield "adp-polynomial", "f32", {"noise": lambda: Noise("polynomial", 0.37, 0.5)}
    yield "adagrad-norm-raw-adam", "i64", {"optimizer": lambda: AdaGradNorm(2.0, 1e-5, False, Adam(0.9, 0.99, 1e-8, 0.01))}
    yield "coarse-grid", "i32", {"bits": 8, "multiplier": 1 / 256}
    yield "subnormal-moments", "i32", {"threshold": lambda: Fixed(3e-19), "optimizer": lambda: Adam(0.9, 0.99, 1e-25)}
    yield "saturated-moments", "i64", {"threshold": lambda: Fixed(1e38), "optimizer": lambda: AdaGrad(1e-10, 0.5)}
    yield "saturated-params", "i64", {
        "threshold": lambda: Fixed(1e38), "rate": lambda: Rate(4.0), "optimizer": lambda: Sgd(0.9, True, 0.01),
    }  # fmt: skip
    yield "disk-adamw-dc-sgd-e", "i32", {
        "filter": lambda: Kalman(0.7, 0.5), "optimizer": lambda: Adam(0.9, 0.99, 1e-8, 0.05),
        "threshold": lambda: ExpectedError("grid", 0.5, 1.0, 20.0), "rate": lambda: Rate(0.02, 3, ("cosine", steps, 0.1)),
    }  # fmt: skip
    yield "fine-grid", "i64", {"bits": 22}
    # Noise far above the range of 32 bits.
    yield "wrapped-sums", "i32", {"bits": 22, "multiplier": 256.0}
    a = [F(x) for x in (-1.3, 0.35, 0.3, -0.15)]
    yield "doppler-order-4", "i64", {"filter": lambda: Iir((a, [0.1, 0.2, -0.05, 0.1, 0.03]))}
    yield "doppler-fir", "f32", {"filter": lambda: Iir(([], [0.5, 0.3, 0.2]))}
    yield "dp-pmlf-8", "i32", {"filter": lambda: PerSampleMomentum(8, 0.9, True, Iir("f3"))}
    yield "dp-pmlf-negative", "f32", {"filter": lambda: PerSampleMomentum(2, -0.3, True, Iir("p3"))}
    yield "disk-recursion-one-point", "i64", {"filter": lambda: Kalman((1.0, 0.1, 0.05))}
    adam = {"optimizer": lambda: Adam(0.9, 0.99, 1e-8, 0.0, True), "rate": lambda: Rate(0.02)}
    yield "disk-adam-filtered", "i32", adam | {"filter": lambda: Kalman(0.7)}
    yield "adam-bc-floor-by-noise", "f32", {
        "optimizer": lambda: AdamBc(0.9, 0.95, 1e-6, 0.0, True), "rate": lambda: Rate(0.02),
    }  # fmt: skip
    yield "adagrad-norm-rmsprop", "i32", {"optimizer": lambda: AdaGradNorm(1.0, 1e-5, True, RmsProp(0.9)), "rate": lambda: Rate(0.1)}


def add_run(pack, name, kind, choice, samples, steps, every, paid=None):
    given = DEFAULT | choice
    slots = [given[slot] for slot in ("clip", "threshold", "filter", "optimizer", "rate", "noise")]
    chosen = mechanism(kind, given["bits"], given["multiplier"])
    pack.run(f"{name} {kind}", lambda: [slot() for slot in slots], samples, steps, every, given["batch"], chosen, paid)


def whole_steps(pack):
    """Adds steps with explicit samples: ordinary, zero of either sign, subnormal, tiny, huge, not finite, and no sample."""
    params = [0x3F000000, 0xBF200000, 0x00000001, 0x80000000, 0x42280000]
    steps = [
        [[0x3E99999A, 0xBE4CCCCD, 0x3DCCCCCD, 0, 0x80000000], [0x40400000, 0x40800000, 0, 0x00000001, 0x807FFFFF]],
        [],
        [[0, 0x80000000, 0, 0, 0], [0x7F800000, 0, 0, 0, 0], [0x3F800000, 0x7FC00000, 0, 0, 0], [0x7F000000, 0, 0, 0, 0x3F800000]],
        [[0x00400000, 0x80000001, 0, 0, 0x1F000000], [0x5F000000, 0xDF000000, 0x3F800000, 0, 0]],
    ]
    for kind in ("i32", "i64", "f32"):
        samples = lambda: Recorded(77, params, steps)
        add_run(pack, "whole-steps", kind, {"optimizer": lambda: Sgd(0.9, False, 0.01)}, samples, len(steps), 1)
    samples = lambda: Recorded(bytes(range(200, 232)), params, steps)
    add_run(pack, "whole-steps key", "i32", {}, samples, len(steps), 1)


def filtered(pack, dim, every, seed):
    """Adds runs that charge a Rényi filter, with noise chosen during the run, until it rejects a step."""
    drawn = 2**53 // 50
    adam = {"filter": lambda: Iir("d2"), "optimizer": Adam, "rate": lambda: Rate(0.02, 5, ("root", 300, 0.1))}
    counts = {"threshold": lambda: Percentile(0.5, 4.0, 1.0, 1.0)}
    for name, kind, choice, epsilon in [
        ("renyi-filter", "i32", {"multiplier": 1.0}, 1.9), ("renyi-filter", "i64", adam | {"multiplier": 1.0}, 1.9),
        ("renyi-filter", "f32", {"multiplier": 1.0}, 1.9), ("renyi-filter-dc-sgd-p", "i32", counts | {"multiplier": 1.08}, 1.9),
    ]:  # fmt: skip
        paid = lambda: (payer.Filter(8, epsilon, 1e-5), drawn)
        add_run(pack, name, kind, choice, lambda: Generated(seed, dim), 1000, every, paid)
        seed += 1


def base():
    pack = Pack("base")
    kernels.add(pack, clip)
    whole_steps(pack)
    dim, steps, every = 19, 200, 10
    layers = [(4, 2097152), (9, 3355443), (6, 1048577)]
    chosen = [(name, kind, choice) for name, choice in methods(layers) for kind in ("i32", "i64", "f32")]
    for seed, (name, kind, choice) in enumerate(chosen + list(schedules(steps)), 5000):
        add_run(pack, name, kind, choice, lambda: Generated(seed, dim), steps, every)
    pack.write()


def further():
    """Writes the pack for code that the base set does not need."""
    pack = Pack("further")
    kernels.further(pack)
    dim, steps, every = 19, 200, 10
    layers = [(4, 2097152), (9, 3355443), (6, 1048577)]
    choice = {"threshold": lambda: ExpectedError("grid", 0.5, 1.0, 20.0)}
    add_run(pack, "clipped-elsewhere", "f32", choice, lambda: Elsewhere(5900, dim), steps, every)
    filtered(pack, dim, every, 5910)
    pack.updates("updates", Flat(), dim, steps, every, 5920, 4, 16, 0.7, 0.7)
    pack.updates("updates per-layer", PerLayer(Automatic(0.1), layers), dim, steps, every, 5921, 60, 12, 1.5, 2.0)
    pack.write()


def wide():
    """Writes the pack that crosses blocks and chunks of coordinates. A single seed draws the noise once for all methods."""
    pack = Pack("wide")
    kernels.long(pack)
    dim, steps, every = 1030, 200, 10
    layers = [(10, 2097152), (600, 3355443), (420, 1048577)]
    for name, choice in methods(layers):
        for kind in ("i32", "f32"):
            add_run(pack, name, kind, choice, lambda: Generated(7000, dim), steps, every)
    add_run(pack, "clipped-elsewhere", "f32", {}, lambda: Elsewhere(7000, dim), steps, every)
    pack.updates("updates", Flat(), dim, steps, every, 7000, 4, 16, 0.7, 0.7)
    pack.write()


def main():
    np.seterr(all="ignore")
    continuous.check()
    payer.check()
    base()
    further()
    wide()


main()
