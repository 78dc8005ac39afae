"""Filters, optimizers and schedules, written from the docs of the core's modules.

Coordinates are arrays of float32. Scalars of a step are Python's floats, which are f64. Every configuration has
`text`, its words in the vectors (see methods.py), and contains its own state."""

import math

import numpy as np

from numerics import LIBM, S, f32, f64, narrow
from release import F, norm_squared


# Filters ---------------------------------------------------------------------------------------------------------------
# DOPPLER, tables 2 and 4, and DP-PMLF, table 4: a without the leading 1, and b.
SETS = {
    "sgd": ([], [1]),
    "momentum": ([-0.9], [0.1]),
    "d1v1": ([F(-9) / F(11)], [F(1) / F(11), F(1) / F(11)]),
    "d1v2": ([F(-9) / F(11)], [F(3) / F(11), F(-1) / F(11)]),
    "d2": ([F(-92) / F(58), F(38) / F(58)], [F(1) / F(58), F(2) / F(58), F(1) / F(58)]),
    "f2": ([-0.9], [0.025, 0.075]),
    "f3": ([-0.8], [0.1, 0.1]),
    "f5": ([-0.9], [0.025, 0.05, 0.025]),
    "f6": ([-1.8, 0.85], [0.025, 0.025]),
    "p3": ([-0.6], [0.5, -0.1]),
    "p6": ([-0.9], [0.15, -0.05]),
    "p7": ([-0.7, -0.2], [0.05, 0.05]),
}


class OnePoint:
    def points(self, params):
        return [(params, F(1))]

    def moved(self, before, after):
        pass


class Identity(OnePoint):
    text = "identity"

    def start(self, dim):
        pass

    def apply(self, g):
        return g


class Iir(OnePoint):
    """Recursive filter, by a set's name or (a, b). `uncorrected` omits the bias correction."""

    def __init__(self, which, uncorrected=False):
        self.uncorrected = uncorrected
        a, b = SETS[which] if isinstance(which, str) else which
        words = [f"iir {len(a)} {len(b)}"] + [f32(c) for c in list(a) + list(b)]
        self.text = "uncorrected " * uncorrected + (f"set {which}" if isinstance(which, str) else " ".join(words))
        order = max(len(a), len(b) - 1)
        self.a = [F(c) for c in a] + [F(0)] * (order - len(a))
        self.b = [F(c) for c in b] + [F(0)] * (order + 1 - len(b))

    def start(self, dim):
        self.s = [np.zeros(dim, F) for _ in self.a]
        self.ones = [0.0 for _ in self.a]

    def apply(self, g):
        a, b, s, ones = self.a, self.b, self.s, self.ones
        order = len(a)
        c = float(b[0]) + ones[0] if order else float(b[0])
        y = b[0] * g + s[0] if order else b[0] * g
        for i in range(order):
            ones[i] = float(b[i + 1]) - float(a[i]) * c
            s[i] = b[i + 1] * g - a[i] * y
            if i + 1 < order:
                ones[i] = ones[i] + self.ones[i + 1]
                s[i] = s[i] + self.s[i + 1]
        return y if self.uncorrected else y * F(1.0 / c)


class AdaptiveFir(OnePoint):
    def __init__(self, lags, memory, floor):
        self.text = f"adaptive {lags} {f64(memory)} {f64(floor)}"
        self.lags, self.memory, self.floor = lags, memory, floor

    def start(self, dim):
        self.past, self.energies = [], []
        self.a, self.w = [0.0] * self.lags, [0.0] * self.lags
        self.b = self.v = 0.0

    def apply(self, g):
        noise, c = self.noise_std, [0.5]
        for r in range(len(self.past)):
            tap = (self.a[r] / self.w[r]) / (self.b / self.v) if self.w[r] else 0.0
            c.append(tap if tap > 0 else 0.0)
        total = 0.0
        for tap in c:
            total += tap
        taps = [F(tap / total) for tap in c]
        y = S(taps[0] * g)
        for tap, old in zip(taps[1:], self.past):
            y = S(y + tap * old)

        def product(x, z):
            total = 0.0
            for left, right in zip(x, z):
                total += float(left) * float(right)
            return total

        energy = product(g, g) - len(g) * (noise * noise)
        for r, old in enumerate(self.past):
            self.a[r] = self.memory * self.a[r] + (product(g, old) - 0.5 * self.energies[r])
            self.w[r] = self.memory * self.w[r] + 1.0
        self.b = self.memory * self.b + max(energy, self.floor)
        self.v = self.memory * self.v + 1.0
        self.past = ([g] + self.past)[: self.lags]
        self.energies = ([max(energy, 0.0)] + self.energies)[: self.lags]
        return y


class PerSampleMomentum:
    def __init__(self, iterates, beta, normalised, inner):
        kind = "normalised" if normalised else "plain"
        self.text = f"momentum {iterates} {f64(beta)} {kind} {inner.text}"
        self.inner, self.iterates = inner, iterates
        powers = [1.0]
        for _ in range(iterates - 1):
            powers.append(powers[-1] * beta)
        scale = 0.0
        for power in powers:
            scale += power
        scale = scale if normalised else 1.0
        self.weights = [F(power / scale) for power in powers]
        self.tails, tail = [], 0.0
        for power in reversed(powers):
            tail += power
            self.tails.insert(0, F(tail / scale))

    def start(self, dim):
        self.past = []
        self.inner.start(dim)

    def points(self, params):
        places = [params] + self.past
        oldest = len(places) - 1
        return [(x, self.tails[j] if j == oldest else self.weights[j]) for j, x in enumerate(places)]

    def apply(self, g):
        return self.inner.apply(g)

    def moved(self, before, after):
        self.past = ([before] + self.past)[: self.iterates - 1]


class Kalman:
    """DiSK's filter. `gain` is kappa, or the variances (noise, drift, process). `gamma` None uses one gradient."""

    def __init__(self, gain, gamma=None):
        self.recursion = gain if isinstance(gain, tuple) else None
        self.constant, self.gamma = gain, gamma
        how = "recursion " + " ".join(map(f64, gain)) if self.recursion else f"constant {f64(gain)}"
        self.text = f"kalman {how} " + ("one" if gamma is None else f"two {f64(gamma)}")

    def start(self, dim):
        self.filtered, self.displacement = None, None
        if self.recursion:
            self.p = self.recursion[0]

    def gain(self):
        """Returns kappa of the coming step, and the uncertainty after it."""
        if not self.recursion:
            return self.constant, None
        noise, drift, process = self.recursion
        predicted = self.p + drift + process
        kappa = min(max(predicted / (predicted + noise - drift), 0.001), 1.0)
        return kappa, (1 - kappa) * predicted

    def points(self, params):
        kappa, _ = self.gain()
        if self.filtered is None or kappa == 1:
            return [(params, F(1))]
        one = (1 - kappa) / kappa
        gamma, c = (one, 1.0) if self.gamma is None else (self.gamma, one / self.gamma)
        ahead = params + F(gamma) * self.displacement
        return [(ahead, F(1))] if c == 1 else [(params, F(1 - c)), (ahead, F(c))]

    def apply(self, g):
        if self.filtered is None:
            self.filtered = g
            return g
        kappa, self.p = self.gain()
        self.filtered = g if kappa == 1 else F(1 - kappa) * self.filtered + F(kappa) * g
        return self.filtered

    def moved(self, before, after):
        self.displacement = after - before


# Optimizers ------------------------------------------------------------------------------------------------------------
class Sgd:
    def __init__(self, momentum=0.0, nesterov=False, decay=0.0):
        self.text = f"sgd {f32(momentum)} {'nesterov' if nesterov else 'plain'} {f32(decay)}"
        self.mu, self.nesterov, self.decay = F(momentum), nesterov, F(decay)

    def start(self, dim):
        self.m = np.zeros(dim, F)

    def step(self, params, filtered, g, lr, noise):
        h = S(filtered + self.decay * params)
        if self.mu == 0:
            return S(params - narrow(lr) * h)
        self.m = S(self.mu * self.m + h)
        return S(params - narrow(lr) * (S(h + self.mu * self.m) if self.nesterov else self.m))


class Adam:
    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0, filtered=False, floored=False):
        name = "adam" + "-filtered" * filtered + "-floored" * floored
        self.text = f"{name} {f64(beta1)} {f64(beta2)} {f32(epsilon)} {f64(decay)}"
        self.beta1, self.beta2, self.epsilon, self.decay, self.filtered = beta1, beta2, F(epsilon), decay, filtered
        self.floored = floored

    def start(self, dim):
        self.m, self.v = np.zeros(dim, F), np.zeros(dim, F)
        self.p1 = self.p2 = 1.0

    def moments(self, filtered, g):
        self.m = S(F(self.beta1) * self.m + F(1 - self.beta1) * filtered)
        g = filtered if self.filtered else g
        self.v = S(F(self.beta2) * self.v + F(1 - self.beta2) * S(g * g))

    def step(self, params, filtered, g, lr, noise):
        self.p1 *= self.beta1
        self.p2 *= self.beta2
        self.moments(filtered, g)
        root = np.sqrt(S(self.v * narrow(1 / (1 - self.p2))))
        d = np.maximum(root, self.epsilon) if self.floored else root + self.epsilon
        return S(narrow(1 - lr * self.decay) * params - S(narrow(lr / (1 - self.p1)) * self.m / d))


class AdamBc(Adam):
    def __init__(self, beta1=0.9, beta2=0.99, floor=1e-6, decay=0.0, by_noise=False):
        super().__init__(beta1, beta2, floor, decay)
        self.floor = F(floor)
        self.relative = math.sqrt(2.0 * (1.0 - beta2) / (1.0 + beta2)) if by_noise else 0.0
        self.text = f"adam-bc{'-by-noise' * by_noise} {f64(beta1)} {f64(beta2)} {f32(floor)} {f64(decay)}"

    def start(self, dim):
        super().start(dim)
        self.w1 = self.w2 = self.phi = 0.0

    def step(self, params, filtered, g, lr, noise):
        b1, n1 = float(F(self.beta1)), float(F(1 - self.beta1))
        b2, n2 = float(F(self.beta2)), float(F(1 - self.beta2))
        self.w1 = b1 * self.w1 + n1
        self.w2 = b2 * self.w2 + n2
        self.phi = b2 * self.phi + n2 * (noise * noise)
        self.moments(filtered, g)
        floor = max(narrow(self.relative * (self.phi / self.w2)), self.floor)
        u = np.maximum(S(self.v * narrow(1 / self.w2)) - narrow(self.phi / self.w2), floor)
        return S(narrow(1 - lr * self.decay) * params - S(narrow(lr / self.w1) * self.m / np.sqrt(u)))


class AdaGrad:
    def __init__(self, epsilon=1e-10, decay=0.0):
        self.text = f"adagrad {f32(epsilon)} {f32(decay)}"
        self.epsilon, self.decay = F(epsilon), F(decay)

    def start(self, dim):
        self.s = np.zeros(dim, F)

    def average(self, square):
        return S(self.s + square)

    def step(self, params, filtered, g, lr, noise):
        w = self.decay * params
        h, r = S(filtered + w), S(g + w)
        self.s = self.average(S(r * r))
        return S(params - S(narrow(lr) * h / (np.sqrt(self.s) + self.epsilon)))


class RmsProp(AdaGrad):
    def __init__(self, alpha=0.99, epsilon=1e-8, decay=0.0):
        super().__init__(epsilon, decay)
        self.alpha = alpha
        self.text = f"rmsprop {f64(alpha)} {f32(epsilon)} {f32(decay)}"

    def average(self, square):
        return S(F(self.alpha) * self.s + F(1 - self.alpha) * square)


class AdaGradNorm:
    """AdaGrad-norm. `weight` is (beta, steps of an epoch)."""

    def __init__(self, initial, floor, subtract, inner, weight=None):
        kind = "subtract" if subtract else "raw"
        name = f"weighted {f64(weight[0])} {weight[1]}" if weight else "norm"
        self.text = f"{name} {f64(initial)} {f64(floor)} {kind} {inner.text}"
        self.initial, self.floor, self.subtract, self.inner = initial, floor, subtract, inner
        self.weight, self.t = weight, 0

    def start(self, dim):
        self.added = 0.0
        self.inner.start(dim)

    def step(self, params, filtered, g, lr, noise):
        n = float(S(norm_squared(g)))
        e = n - len(g) * (noise * noise) if self.subtract else n
        if self.weight:
            beta, epoch = self.weight
            e = max(beta / (self.t % epoch + 1.0), 1.0) * e
            self.t += 1
        self.added += max(e, self.floor)
        return self.inner.step(params, filtered, g, lr / math.sqrt(self.initial + self.added), noise)


# Schedules -------------------------------------------------------------------------------------------------------------
class Rate:
    def __init__(self, base, warmup=0, decay=("constant",)):
        self.base, self.warmup, self.decay = base, warmup, decay
        words = [word if isinstance(word, str) else str(word) if isinstance(word, int) else f64(word) for word in decay]
        self.text = " ".join([f64(base), str(warmup)] + words)

    def at(self, t):
        kind, *numbers = self.decay
        if kind == "constant":
            factor = 1.0
        elif kind == "step":
            every, keep = numbers
            factor = LIBM.pow(keep, float(t // every))
        elif kind == "polynomial":
            offset, slope = numbers
            factor = 1.0 / math.sqrt(offset + slope * t)
        else:
            steps, floor = numbers
            share = min(t, steps) / steps
            if kind == "cosine":
                factor = floor + (1 - floor) * (1 + LIBM.cos(math.pi * share)) / 2
            else:
                factor = 1.0 - (1.0 - floor) * math.sqrt(share)
        rate = self.base * factor
        return rate * ((t + 1.0) / self.warmup) if t < self.warmup else rate


class Noise:
    def __init__(self, kind="constant", *numbers):
        self.kind, self.numbers = kind, numbers
        self.text = " ".join([kind] + [f64(x) for x in numbers])

    def factor(self, t, rate):
        """Returns the noise of step t divided by that of the mechanism."""
        if self.kind == "constant":
            return 1.0
        if self.kind == "clt":
            ratio = min(max(rate.at(0) / rate.at(t), 1e-18), 1e18)
            if ratio == 1:
                return 1.0
            u = 1.0 / (self.numbers[0] * self.numbers[0]) / 2.0
            low, high = min(1.0, ratio), max(1.0, ratio)
            for _ in range(200):
                middle = (low + high) / 2.0
                if not low < middle < high:
                    break
                if middle * LIBM.exp(u * (1.0 - 1.0 / middle)) < ratio:
                    low = middle
                else:
                    high = middle
            return math.sqrt(low)
        if self.kind == "matched":
            factor = LIBM.pow(rate.at(0) / rate.at(t), self.numbers[0])
        else:
            growth, exponent = self.numbers
            factor = LIBM.pow(1.0 + growth * t, exponent / 2)
        return min(max(factor, 1e-9), 1e9)
