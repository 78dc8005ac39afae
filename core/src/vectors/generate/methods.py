#!/usr/bin/env python3
"""Writes core/src/vectors/methods.tsv: runs of every method, computed from the formulas in the docs.

Nothing here was made from, or checked against, the Rust code. Needs numpy and mpmath, as ../README.md describes.

`exp`, `cos` and `pow` are correctly rounded here. In the core, they have the bits of a library that may be off by one in the last
place. A run that uses them is therefore computed three times: with all their results two units down, exact, and two units up. A
difference of a single recorded bit is an error."""

import pathlib
import struct

import numpy as np

import run
from clipping import Automatic, Bounds, ExpectedError, Fixed, Flat, Percentile, PerLayer, Quantile, counting_all
from motion import (
    AdaGrad, AdaGradNorm, Adam, AdamBc, AdaptiveFir, Identity, Iir, Kalman, Noise, PerSampleMomentum, Rate, RmsProp, Sgd,
)  # fmt: skip
from numerics import f32
from release import F, Gradients

HEADER = """\
# Runs of every method, written by generate/methods.py; do not edit.
#
# One pass, no line refers to a later one. Lines are fields divided by tabs, fields are words divided by spaces. Whole numbers
# are decimal; a float is its bits in hexadecimal, 8 digits for an f32 and 16 for an f64. Lines that begin with # say nothing.
#
# run    NAME DIM STEPS SEED BATCH BITS SIGMA   CLIP   THRESHOLD   FILTER   OPTIMIZER   RATE   NOISE
#        BATCH is the expected batch, SIGMA the mechanism's noise in grid units of 2^-BITS of the clip.
#   CLIP       flat | automatic f32:gamma | layers COUNT (LENGTH SHARE)... CLIP               a share is in units of 2^-22
#   THRESHOLD  fixed f32:C | percentile f64:fraction f64:noise f32:C_0 f32:R_0 BOUNDS         20 bins
#              | error grid|exact f64:noise f32:C_0 f32:R_0 BOUNDS BOUNDS                     of clips, of ranges; 20 bins
#              | quantile f64:quantile f64:rate f64:sigma_b f32:C_0 BOUNDS
#              | all THRESHOLD                                                                samples that are not finite in the last bin
#   BOUNDS     f32:least f32:largest
#   FILTER     identity | set NAME | iir NA NB f32:a_1 ... f32:b_0 ...                        NA and NB numbers, order up to 8
#              | uncorrected FILTER                                                           a set or iir, without bias correction
#              | adaptive LAGS f64:memory f64:floor
#              | momentum K f64:beta normalised|plain FILTER | kalman GAIN POINTS
#   GAIN       constant f64:kappa | recursion f64:noise f64:drift f64:process
#   POINTS     one | two f64:gamma
#   OPTIMIZER  sgd f32:momentum plain|nesterov f32:decay | adam f64:beta1 f64:beta2 f32:epsilon f64:decay | adam-floored, likewise
#              | adam-bc f64:beta1 f64:beta2 f32:floor f64:decay | adagrad f32:epsilon f32:decay
#              | rmsprop f64:alpha f32:epsilon f32:decay | norm f64:b_0^2 f64:floor raw|subtract OPTIMIZER
#              | weighted f64:beta EPOCH f64:b_0^2 f64:floor raw|subtract OPTIMIZER
#   RATE       f64:base WARMUP DECAY
#   DECAY      constant | step EVERY f64:factor | cosine STEPS f64:floor | polynomial f64:offset f64:slope
#              | root STEPS f64:floor
#   NOISE      constant | matched f64:exponent | polynomial f64:growth f64:exponent | clt f64:first
#
# step   PAID SIGMA CLIP BITS|DIGEST   after each step of the run before: steps the ledger counts, the step's noise in grid units,
#        its clip (an f32), and all parameters, 8 digits each with nothing between; of more than 8 parameters the digest: FNV-1a,
#        64 bits, of their bytes in memory (little-endian). SIGMA or CLIP is = where it is that of the step before.
# marks  MARKS                         of more than 8 parameters, after some steps: 2 digits a parameter, its four bytes combined
#        by exclusive or. They tell at which parameters a digest parted.
#
# A run's numbers come from x <- x * 6364136223846793005 + 1442695040888963407 mod 2^64, which starts from the seed; a number of
# shift h is ((x >> 40) - 2^23) / 2^h. Parameters start as DIM numbers of shift 24. Step t (from 0) takes (5*t + 3) mod 7 samples,
# and one more if t mod 5 is 3 or 4. Sample s is DIM numbers z of shift 22 + (s mod 4); the one more has z = 2^100 (t mod 5 = 3) or
# z = +infinity (4) at coordinate t mod DIM, and adds nothing. Its gradient at the point x is F(F(x / 4) - z). The generator
# of random words is the simulation with the same seed.
"""


def more(t):
    """Returns the value that corrupts the additional sample of this step, or None."""
    return {3: F(2.0**100), 4: F(np.inf)}.get(t % 5)


def fnv(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return f"{digest:016x}"


def as_bits(params):
    return struct.pack(f"<{len(params)}f", *map(float, params))


def play(make, dim, steps, batch, bits, sigma, seed):
    """Returns the records of a run, (sigma, clip, params) after each step, and its configuration's text."""
    slots = make()
    text = [part.text for part in slots]
    numbers = Gradients(seed)
    params = np.array([numbers.next(24) for _ in range(dim)], F)

    def samples(t):
        count = (5 * t + 3) % 7
        for s in range(count + (more(t) is not None)):
            z = np.array([numbers.next(22 + s % 4) for _ in range(dim)], F)
            if s == count:
                z[t % dim] = more(t)
            yield lambda x: x / F(4) - z

    played = run.play(slots, run.Discrete(32, bits, sigma), params, samples, batch, steps, seed)
    return text, [(mechanism.sigma, clip, as_bits(params)) for mechanism, clip, params in played]


def user_filter():
    """Returns a filter of order 4, with poles at 0.5 +- 0.3i, -0.4 and 0.7."""
    a = np.poly([0.5 + 0.3j, 0.5 - 0.3j, -0.4, 0.7]).real
    return Iir(([F(round(x, 3)) for x in a[1:]], [0.1, 0.2, -0.05, 0.1, 0.03]))


UNEQUAL = [(10, 2097152), (33, 3355443), (27, 1048577)]


def runs():
    """Yields (name, settings that differ from the default)."""
    yield "sgd", {}
    yield "sgd-momentum", {"optimizer": lambda: Sgd(0.9, False, 0.01), "dim": 70}
    yield "sgd-nesterov", {"optimizer": lambda: Sgd(0.8, True, 0.02)}
    yield "adam", {"optimizer": Adam, "rate": lambda: Rate(0.02)}
    yield "adamw", {"optimizer": lambda: Adam(0.8, 0.99, 1e-6, 0.05), "rate": lambda: Rate(0.02), "dim": 70}
    yield "adam-bc", {"optimizer": lambda: AdamBc(0.9, 0.9, 1e-3, 0.01), "rate": lambda: Rate(0.02)}
    yield "adam-bc-low-floor", {"optimizer": lambda: AdamBc(0.7, 0.99, 1e-5), "rate": lambda: Rate(0.01), "dim": 70}
    yield "adagrad", {"optimizer": lambda: AdaGrad(1e-10, 0.02)}
    yield "rmsprop", {"optimizer": lambda: RmsProp(0.9, 1e-8, 0.02), "rate": lambda: Rate(0.02), "dim": 70}
    yield "adagrad-norm-subtract", {"optimizer": lambda: AdaGradNorm(0.5, 1e-5, True, Sgd(0.5, False, 0.01)), "dim": 70}
    yield "adagrad-norm-raw", {"optimizer": lambda: AdaGradNorm(2.0, 1e-5, False, Adam(0.9, 0.99, 1e-8, 0.01))}

    for name in SETS_PLAYED:
        yield f"doppler-{name}", {"filter": lambda name=name: Iir(name), "dim": 70 if name == "d2" else 3}
    yield "doppler-order-4", {"filter": user_filter, "optimizer": lambda: Sgd(0.5), "dim": 70}
    yield "doppler-fir", {"filter": lambda: Iir(([], [0.5, 0.3, 0.2])), "optimizer": lambda: Sgd(0.5)}
    yield "doppler-adam-without-beta1", {"filter": lambda: Iir("p6"), "optimizer": lambda: Adam(0.0), "rate": lambda: Rate(0.02)}
    yield "doppler-rmsprop", {"filter": lambda: Iir("f5"), "optimizer": RmsProp, "rate": lambda: Rate(0.01)}
    yield "doppler-adagrad", {"filter": lambda: Iir("p3"), "optimizer": AdaGrad}

    def momentum(k, beta, normalised, inner):
        return {"filter": lambda: PerSampleMomentum(k, beta, normalised, Iir(inner)), "steps": 12}

    yield "pmlf-1", momentum(1, 0.9, True, "momentum")
    yield "pmlf-2", momentum(2, 0.5, True, "sgd")
    yield "pmlf-2-plain", momentum(2, 0.7, False, "p7")
    yield "pmlf-2-negative", momentum(2, -0.3, True, "p3")
    yield "pmlf-3", momentum(3, 0.9, True, "p6") | {"dim": 70}
    yield "pmlf-3-plain", momentum(3, 0.6, False, "sgd")
    yield "pmlf-8", momentum(8, 0.9, True, "f3")
    yield "inner-outer-momentum", momentum(3, 0.5, False, "sgd") | {"optimizer": lambda: Sgd(0.5)}

    yield "disk-one", {"filter": lambda: Kalman(0.7), "dim": 70}
    yield "disk-gamma-half", {"filter": lambda: Kalman(0.7, 0.5)}
    yield "disk-gamma-minus-one", {"filter": lambda: Kalman(0.5, -1.0), "dim": 70}
    yield "disk-recursion", {"filter": lambda: Kalman((1.0, 0.1, 0.05))}
    yield "disk-recursion-two-points", {"filter": lambda: Kalman((0.5, 0.02, 0.03), 0.5), "optimizer": lambda: Sgd(0.3)}
    yield "disk-gain-1", {"filter": lambda: Kalman(1.0, 0.5)}

    yield "automatic", {"clip": lambda: Automatic(0.01)}
    yield "automatic-large-gamma", {"clip": lambda: Automatic(3.0), "dim": 70, "bits": 20, "sigma": 700001}
    yield "layers", {"clip": lambda: PerLayer(Flat(), UNEQUAL), "dim": 70, "bits": 22, "sigma": 1 << 21}
    yield "layers-automatic", {"clip": lambda: PerLayer(Automatic(0.1), [(1, 3000000), (2, 2900001)]), "bits": 12, "sigma": 2900}
    yield "coarse-grid", {"bits": 8, "sigma": 1}

    few = {"batch": 4, "steps": 16}
    yield "percentile", few | {"threshold": lambda: Percentile(0.5, 0.5, 1.0, 1.0)}
    yield "percentile-70", few | {"threshold": lambda: Percentile(0.7, 1.0, 1.0, 8.0), "dim": 70}
    yield "percentile-bounded", few | {"threshold": lambda: Percentile(0.3, 0.7, 1.0, 3.0, Bounds(0.4, 1.1))}
    yield "error-grid", few | {"threshold": lambda: ExpectedError("grid", 0.5, 1.0, 20.0)}
    yield "error-grid-70", few | {"threshold": lambda: ExpectedError("grid", 0.3, 1.0, 20.0), "dim": 70, "sigma": 20000}
    yield "error-exact", few | {"threshold": lambda: ExpectedError("exact", 0.5, 1.0, 20.0)}
    yield "error-exact-70", few | {"threshold": lambda: ExpectedError("exact", 0.7, 2.0, 0.5), "dim": 70, "sigma": 9000}
    yield "error-bounded", few | {"threshold": lambda: ExpectedError("exact", 0.5, 1.0, 1.0, Bounds(0.5, 1.5), Bounds(0.7, 5))}
    yield "quantile", few | {"threshold": lambda: Quantile(0.5, 0.2, 0.25, 1.0)}
    yield "quantile-bounded", few | {"threshold": lambda: Quantile(0.9, 0.7, 0.4, 1.0, Bounds(0.9, 3.0)), "dim": 70}

    yield "rate-warmup", {"rate": lambda: Rate(0.3, 5)}
    yield "rate-step", {"rate": lambda: Rate(0.3, 3, ("step", 4, 0.7))}
    yield "rate-cosine", {"rate": lambda: Rate(0.3, 2, ("cosine", 10, 0.1))}
    yield "rate-polynomial", {"rate": lambda: Rate(0.3, 0, ("polynomial", 1.5, 0.4))}
    yield "rate-root", {"rate": lambda: Rate(0.3, 3, ("root", 10, 0.05)), "optimizer": lambda: Adam(decay=0.1)}
    yield "adp-polynomial", {"noise": lambda: Noise("polynomial", 0.5, 0.5)}
    yield "adp-law", {"noise": lambda: Noise("polynomial", 1.0, 0.3), "rate": lambda: Rate(0.3, 0, ("root", 12, 0.1))}
    matched = {"noise": lambda: Noise("matched", 0.5), "rate": lambda: Rate(0.3, 0, ("polynomial", 1.0, 0.35))}
    yield "adp-matched", matched
    yield "adp-matched-warmup-cosine", {"noise": lambda: Noise("matched", 0.25), "rate": lambda: Rate(0.3, 3, ("cosine", 11, 0.2))}
    yield "adp-adam-bc", matched | {"optimizer": lambda: AdamBc(0.9, 0.95, 1e-3), "dim": 70}

    yield "disk-adamw-error", few | {
        "filter": lambda: Kalman(0.7, 0.5),
        "optimizer": lambda: Adam(0.9, 0.99, 1e-8, 0.05),
        "rate": lambda: Rate(0.02, 3, ("cosine", 16, 0.1)),
        "threshold": lambda: ExpectedError("grid", 0.5, 1.0, 20.0),
        "dim": 70,
    }
    yield "doppler-adp", matched | {"filter": lambda: Iir("momentum"), "optimizer": lambda: Sgd(0.0, False, 0.01), "dim": 70}
    yield "pmlf-adam", momentum(3, 0.9, True, "p6") | {"optimizer": Adam, "rate": lambda: Rate(0.02), "dim": 70}
    yield "pmlf-layers-quantile", few | momentum(2, 0.6, True, "f2") | {
        "clip": lambda: PerLayer(Flat(), UNEQUAL),
        "threshold": lambda: Quantile(0.6, 0.3, 0.3, 1.0),
        "optimizer": lambda: AdaGradNorm(1.0, 1e-5, True, Sgd(0.9, True, 0.01)),
        "dim": 70,
    }
    yield "doppler-adam-bc-percentile-adp", few | matched | {
        "filter": lambda: Iir("f6"),
        "clip": lambda: Automatic(0.05),
        "threshold": lambda: Percentile(0.6, 0.5, 1.0, 2.0),
        "optimizer": lambda: AdamBc(0.9, 0.95, 1e-3, 0.01),
    }
    yield "disk-adam-over-chunks", {"filter": lambda: Kalman(0.6, -1.0), "optimizer": Adam, "rate": lambda: Rate(0.02), "dim": 1030}
    yield "pmlf-norm-over-chunks", momentum(3, 0.8, True, "d2") | {
        "threshold": lambda: ExpectedError("exact", 0.5, 1.0, 40.0),
        "optimizer": lambda: AdaGradNorm(0.5, 1e-5, True, Sgd(0.5)),
        "dim": 1030,
    }
    # At the limits of f32. Flushing subnormal numbers to zero changes the bits, and so does an infinity.
    yield "subnormal-moments", {"threshold": lambda: Fixed(3e-19), "optimizer": lambda: Adam(0.9, 0.99, 1e-25, 0.0)}
    yield "saturated-moments", {"threshold": lambda: Fixed(1e38), "optimizer": lambda: AdaGrad(1e-10, 0.5)}
    large = {"threshold": lambda: Fixed(1e38), "rate": lambda: Rate(4.0)}
    yield "saturated-params", large | {"optimizer": lambda: Sgd(0.9, True, 0.01)}

    # Options of the papers other than their defaults. Add new runs at the end, because a run's seed is its position.
    floored = {"optimizer": lambda: Adam(0.0, 0.99, 0.3, floored=True), "rate": lambda: Rate(0.02)}
    yield "adam-floored", floored
    yield "doppler-adam-floored", floored | {"filter": lambda: Iir("p6"), "dim": 70}
    yield "doppler-uncorrected", {"filter": lambda: Iir("momentum", uncorrected=True)}
    uncorrected = {"filter": lambda: PerSampleMomentum(3, 0.9, True, Iir("p7", uncorrected=True)), "steps": 12, "dim": 70}
    yield "pmlf-uncorrected", uncorrected
    yield "adaptive-1", {"filter": lambda: AdaptiveFir(1, 0.0, 1e-3)}
    yield "adaptive-3", {"filter": lambda: AdaptiveFir(3, 0.9, 1e-3), "dim": 70, "steps": 20}
    yield "adaptive-8-adam", {"filter": lambda: AdaptiveFir(8, 0.5, 1e-2), "optimizer": lambda: Adam(0.0), "rate": lambda: Rate(0.02), "steps": 20}
    yield "adaptive-over-chunks", {"filter": lambda: AdaptiveFir(2, 0.7, 1e-3), "dim": 1030, "sigma": 900}
    yield "percentile-all", few | {"threshold": lambda: counting_all(Percentile(0.5, 0.5, 1.0, 1.0))}
    yield "error-all", few | {"threshold": lambda: counting_all(ExpectedError("exact", 0.5, 1.0, 20.0)), "dim": 70}
    yield "quantile-all", few | {"threshold": lambda: counting_all(Quantile(0.5, 0.2, 0.25, 1.0))}
    yield "adp-clt", {"noise": lambda: Noise("clt", 0.7), "rate": lambda: Rate(0.3, 0, ("polynomial", 1.0, 0.35))}
    yield "adp-clt-warmup", {"noise": lambda: Noise("clt", 2.5), "rate": lambda: Rate(0.3, 3, ("cosine", 11, 0.2)), "dim": 70}
    weight = {"optimizer": lambda: AdaGradNorm(0.5, 1e-5, True, Sgd(0.5, False, 0.01), (8.0, 5))}
    yield "weighted-norm", weight
    yield "weighted-norm-raw", {"optimizer": lambda: AdaGradNorm(2.0, 1e-5, False, Adam(0.9, 0.99, 1e-8, 0.01), (3.0, 4)), "dim": 70}


SETS_PLAYED = ["momentum", "d1v1", "d1v2", "d2", "f6", "p6"]
DEFAULT = {
    "dim": 3, "steps": 12, "batch": 4, "bits": 16, "sigma": 45876,
    "clip": Flat, "threshold": lambda: Fixed(0.7), "filter": Identity, "optimizer": Sgd,
    "rate": lambda: Rate(0.25), "noise": Noise,
}  # fmt: skip


def main():
    np.seterr(all="ignore")
    lines = []
    for seed, (name, choice) in enumerate(runs(), 1000):
        given = DEFAULT | choice
        slots = [given[slot] for slot in ("clip", "threshold", "filter", "optimizer", "rate", "noise")]
        dim, steps, batch, bits, sigma = (given[key] for key in ("dim", "steps", "batch", "bits", "sigma"))
        text, records = run.steady(name, lambda: play(lambda: [slot() for slot in slots], dim, steps, batch, bits, sigma, seed))
        lines.append("\t".join(["run", f"{name} {dim} {steps} {seed} {batch} {bits} {sigma}"] + text))
        last = (None, None)
        for t, (sigma_t, clip_t, params) in enumerate(records):
            now = (str(sigma_t), f32(clip_t))
            said = ["=" if new == old else new for new, old in zip(now, last)]
            last = now
            small = dim <= 8
            found = "".join(f"{word:08x}" for word in struct.unpack(f"<{dim}I", params)) if small else fnv(params)
            lines.append("\t".join(["step", " ".join([str(t + 1), *said, found])]))
            if not small and t + 1 in (steps // 2, steps):
                marks = (a ^ b ^ c ^ d for a, b, c, d in zip(*[iter(params)] * 4))
                lines.append("marks\t" + "".join(f"{mark:02x}" for mark in marks))
    path = pathlib.Path(__file__).resolve().parents[1] / "methods.tsv"
    path.write_text(HEADER + "\n".join(lines) + "\n")


main()
