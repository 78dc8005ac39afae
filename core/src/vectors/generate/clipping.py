"""Clipping rules and thresholds, written from the docs of the core's modules.

Coordinates are float32. Scalars of a step are Python's floats, which are f64. Every configuration has
`text`, its words in the vectors (see methods.py), and contains its own state."""

import math

import numpy as np

from numerics import LIBM, f32, f64
from release import F, norm_squared, onto_grid


# Clipping --------------------------------------------------------------------------------------------------------------
class Flat:
    text = "flat"

    def divisor(self, norm, clip):
        return max(norm, clip)


class Automatic:
    def __init__(self, gamma):
        self.gamma = F(gamma)
        self.text = f"automatic {f32(gamma)}"

    def divisor(self, norm, clip):
        return F(norm + self.gamma)


class PerLayer:
    """`layers`: (length, share in units of 2^-22)."""

    def __init__(self, rule, layers):
        assert sum(share * share for _, share in layers) <= 1 << 44
        self.rule, self.layers = rule, layers
        self.text = f"layers {len(layers)} " + " ".join(f"{n} {share}" for n, share in layers) + " " + rule.text


def add_sample(rule, grad, clip, bits):
    """Returns a sample's contribution in grid units and its norm, or zeros and None if the norm is not finite."""
    square = norm_squared(grad)
    if not np.isfinite(square):
        return [0] * len(grad), None
    norm = np.sqrt(square)
    if not isinstance(rule, PerLayer):
        return onto_grid(grad, 1 << bits, rule.divisor(norm, clip)), norm
    added, at = [], 0
    for length, share in rule.layers:
        part = grad[at : at + length]
        at += length
        units = share * 2**bits // 2**22
        divisor = rule.rule.divisor(np.sqrt(norm_squared(part)), F(clip * F(F(share) / F(1 << 22))))
        added += onto_grid(part, units, divisor)
    return added, norm


# Thresholds ------------------------------------------------------------------------------------------------------------
class Bounds:
    def __init__(self, least=1e-8, most=1e8):
        self.least, self.most = F(least), F(most)
        self.text = f"{f32(least)} {f32(most)}"

    def clamp(self, x):
        x = F(x)
        return self.most if x >= self.most else x if x >= self.least else self.least


class Fixed:
    counts, count_sigma = 0, 0

    def __init__(self, clip):
        self.clip = F(clip)
        self.text = f"fixed {f32(clip)}"

    def count(self, norm, counts):
        pass

    def update(self, counts, multiplier, dim, batch):
        pass


class Counting:
    """Base of rules with noisy counts. `noise` is a multiplier, with its sigma rounded up on a grid of 2^12 for each count."""

    def __init__(self, noise, clips):
        self.clips, self.count_sigma = clips, math.ceil(noise * 4096)


class Histogram(Counting):
    counts = 20

    def count(self, norm, counts):
        scaled = F(norm * F(F(self.counts) / self.range))
        counts[self.counts - 1 if scaled >= self.counts else int(scaled)] += 1

    def midpoint(self, i):
        return (i + 0.5) * float(self.range) / self.counts


class Percentile(Histogram):
    def __init__(self, fraction, noise, clip, histogram, clips=Bounds()):
        super().__init__(noise, clips)
        self.fraction, self.clip, self.range = fraction, F(clip), F(histogram)
        self.text = f"percentile {f64(fraction)} {f64(noise)} {f32(clip)} {f32(histogram)} {clips.text}"

    def update(self, counts, multiplier, dim, batch):
        total = 0.0
        for count in counts:
            total += count
        if not total > 0:
            return
        goal, so_far = self.fraction * total, 0.0
        for i, count in enumerate(counts):
            so_far += count
            if so_far >= goal:
                break
        self.clip = self.clips.clamp(self.midpoint(i))
        self.range = F(F(2) * self.clip)


class ExpectedError(Histogram):
    def __init__(self, solver, noise, clip, histogram, clips=Bounds(), ranges=Bounds()):
        super().__init__(noise, clips)
        self.ranges, self.solver, self.clip, self.range = ranges, solver, F(clip), F(histogram)
        self.text = f"error {solver} {f64(noise)} {f32(clip)} {f32(histogram)} {clips.text} {ranges.text}"

    def grid(self, counts, a, total):
        moment = 0.0
        for i, count in enumerate(counts):
            moment += count * self.midpoint(i)
        if not moment > 0:
            return None
        clip = float(self.clip)
        for _ in range(60):
            least = None
            for j in range(1, 21):
                candidate, bias = j * clip / 10.0, 0.0
                for i, count in enumerate(counts):
                    x = self.midpoint(i) - candidate
                    if x > 0:
                        bias += count * (x * x)
                error = a * (candidate * candidate) + bias / total
                if least is None or error < least:
                    least, winner, best = error, j, candidate
            clip = best
            if winner not in (1, 20):
                return clip
        return None

    def exact(self, counts, a):
        kept, weight, moment = 0.0, 0.0, 0.0
        for count in counts:
            kept += max(count, 0.0)
        for k in reversed(range(len(counts))):
            w = max(counts[k], 0.0)
            weight += w
            moment += w * self.midpoint(k)
            clip = moment / (a * kept + weight)
            if k == 0 or clip >= self.midpoint(k - 1):
                return min(clip, self.midpoint(k))

    def update(self, counts, multiplier, dim, batch):
        total = 0.0
        for count in counts:
            total += count
        if not total > 0:
            return
        a = multiplier * multiplier * dim / (float(batch) * float(batch))
        clip = self.grid(counts, a, total) if self.solver == "grid" else self.exact(counts, a)
        right = 0.0
        for count in counts[self.counts // 2 :]:
            right += count
        wide = float(self.range)
        if counts[-1] >= 0.5 * total:
            wide = 2 * wide
        elif right <= total / self.counts:
            wide = wide / 2
        if clip is not None:
            self.clip = self.clips.clamp(clip)
        self.range = self.ranges.clamp(wide)


class Quantile(Counting):
    counts = 1

    def __init__(self, quantile, rate, sigma_b, clip, clips=Bounds()):
        super().__init__(2 * sigma_b, clips)
        self.quantile, self.rate, self.clip = quantile, rate, F(clip)
        self.text = f"quantile {f64(quantile)} {f64(rate)} {f64(sigma_b)} {f32(clip)} {clips.text}"

    def count(self, norm, counts):
        counts[0] += 1 if norm > self.clip else -1

    def update(self, counts, multiplier, dim, batch):
        unclipped = 0.5 - counts[0] / (2.0 * batch)
        self.clip = self.clips.clamp(float(self.clip) * LIBM.exp(self.rate * (self.quantile - unclipped)))


def counting_all(threshold):
    """Returns the threshold with samples that are not finite in the last bin."""
    threshold.counts_all, threshold.text = True, f"all {threshold.text}"
    return threshold
