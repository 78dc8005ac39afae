"""A run, step by step, computed from the docs of the core's modules."""

import functools
import math

import numpy as np

from clipping import PerLayer, add_sample
from continuous import next_up, normals
from numerics import LIBM, S
from payer import together
from release import CHUNK, COUNT_NOISE, GRADIENT_NOISE, F, Stream, discrete_gaussian, norm_squared


@functools.cache
def noise(sigma, key, purpose, step, chunk, count):
    """Returns the draws at an address, in grid units."""
    stream = Stream(key, purpose, step, chunk)
    return [discrete_gaussian(sigma, stream) for _ in range(count)]


class Discrete:
    """Sums in integers of `word` bits, which wrap. The noise is a discrete Gaussian of `sigma` grid units."""

    def __init__(self, word, bits, sigma):
        self.word, self.bits, self.sigma = word, bits, sigma

    def at(self, factor):
        return self if factor == 1 else Discrete(self.word, self.bits, math.ceil(self.sigma * factor))

    def multiplier(self):
        return self.sigma / 2**self.bits

    def zero(self, dim):
        return [0] * dim

    def add(self, total, rule, grad, clip):
        added, norm = add_sample(rule, grad, clip, self.bits)
        return [a + b for a, b in zip(total, added)], norm

    def noised(self, total, key, number):
        """Returns the sum with noise, in grid units."""
        half, found = 1 << self.word - 1, []
        for chunk in range(0, len(total), CHUNK):
            part = total[chunk : chunk + CHUNK]
            draws = noise(self.sigma, key, GRADIENT_NOISE, number, chunk // CHUNK, len(part))
            found += [(x + z + half) % (2 * half) - half for x, z in zip(part, draws)]
        return found

    def release(self, total, clip, batch, key, number):
        unit = F(F(clip / F(1 << self.bits)) / F(batch))
        return S(np.array(self.noised(total, key, number), np.int64).astype(F) * unit)


class Continuous:
    """Sums in floats. The noise is a continuous Gaussian of `multiplier` times the clip, rounded up to a float."""

    def __init__(self, multiplier):
        self.sigma = next_up(multiplier)

    def at(self, factor):
        return Continuous(float(self.sigma) * factor)

    def multiplier(self):
        return float(self.sigma)

    def zero(self, dim):
        return np.zeros(dim, F)

    def add(self, total, rule, grad, clip):
        square = norm_squared(grad)
        if not np.isfinite(square):
            return total, None
        norm = np.sqrt(square)
        layered = isinstance(rule, PerLayer)
        layers = rule.layers if layered else [(len(grad), 1 << 22)]
        total, at = total.copy(), 0
        for length, share in layers:
            part = slice(at, at + length)
            at += length
            own = np.sqrt(norm_squared(grad[part])) if layered else norm
            bound = F(clip * F(F(share) / F(1 << 22)))
            factor = bound / max((rule.rule if layered else rule).divisor(own, bound), own)
            if np.isfinite(factor):
                total[part] = total[part] + grad[part] * factor
        return total, norm

    def release(self, total, clip, batch, key, number):
        sigma, draws = self.sigma * clip, []
        for chunk in range(0, len(total), CHUNK):
            draws += normals(key, GRADIENT_NOISE, number, chunk // CHUNK, min(CHUNK, len(total) - chunk))
        return S((total + sigma * np.array(draws, F)) / F(batch))


def chosen(payer, rate, mechanism, threshold, params):
    """Returns the factor on the mechanism's noise that fits the payer's budget, and the charged multiplier, or None."""
    word = int(params[0].view(np.uint32)) & 7
    for doublings in range(3):
        factor = (1.0 + word / 8.0) * 2**doublings
        multiplier = mechanism.at(factor).multiplier()
        if threshold.counts:
            multiplier = together(multiplier, threshold.count_sigma / 4096)
        if payer.admits(rate, multiplier):
            return factor, multiplier
    return None


def play(slots, mechanism, params, samples, batch, steps, key, payer=None, rate_drawn=None):
    """Yields (mechanism, clip, params) after each step. The slots contain their state. `samples(t)` returns, for each sample of
    step t, its gradient as a function of a point. A filter as `payer` ends the run when it rejects a step."""
    clip, threshold, filter, optimizer, rate, schedule = slots
    dim = len(params)
    filter.start(dim)
    optimizer.start(dim)
    for t in range(steps):
        now, clip_t, number = mechanism.at(schedule.factor(t, rate)), threshold.clip, t
        if payer:
            found = chosen(payer, rate_drawn, mechanism, threshold, params)
            if not found:
                return
            now, number = mechanism.at(found[0]), payer.pay(rate_drawn, found[1])
        points = filter.points(params)
        counts, total = [0] * threshold.counts, now.zero(dim)
        for gradient in samples(t):
            grads = [weight * gradient(x) for x, weight in points]
            mixed = grads[0]
            for grad in grads[1:]:
                mixed = mixed + grad
            assert mixed.dtype == F
            total, norm = now.add(total, clip, mixed, clip_t)
            if norm is not None:
                threshold.count(norm, counts)
            elif len(counts) > 1 and getattr(threshold, "counts_all", False):
                counts[-1] += 1  # Only in a histogram: a single count has no bins.
        released = now.release(total, clip_t, batch, key, number)
        noise_std = now.multiplier() * float(clip_t) / batch
        filter.noise_std = noise_std
        filtered = filter.apply(released)
        before, params = params, optimizer.step(params, filtered, released, rate.at(t), noise_std)
        assert params.dtype == filtered.dtype == released.dtype == F and np.all(np.isfinite(params))
        filter.moved(before, params)
        if counts:
            draws = noise(threshold.count_sigma, key, COUNT_NOISE, number, 0, len(counts))
            noisy = [(count * 4096 + z) / 4096 for count, z in zip(counts, draws)]
            threshold.update(noisy, now.multiplier(), dim, batch)
        yield now, clip_t, params


def steady(name, run):
    """Returns the result of `run`, and checks that it does not depend on the last bits of transcendental functions."""
    LIBM.used = False
    given = run()
    for nudge in (-2, 2) if LIBM.used else ():
        LIBM.nudge = nudge
        assert run() == given, f"choose other parameters for {name}"
    LIBM.nudge = 0
    return given
