"""Writes the test vectors of the tight accountant to this folder, with numpy and scipy only: never from the Rust code.

    python3 accounting/src/vectors/generate.py bounds      pld.tsv
    python3 accounting/src/vectors/generate.py corners     corners.tsv
    python3 accounting/src/vectors/generate.py outside     outside.tsv, for the points of both
    python3 accounting/src/vectors/generate.py replace     replace.tsv

pld.tsv       rate (k of k/2^53), multiplier, steps, delta, a lower and an upper bound of epsilon for the continuous Gaussian

corners.tsv   the same at the ends of the supported region: ten thousand steps and more, epsilon about 100 and about 0.01.
              Also points at which few large losses make up delta

outside.tsv   the same first four, dp-accounting's epsilon (Poisson-sampled Gaussian event, its default grid) and
              prv-accountant's upper bound, or "-" if one fails or takes more than two seconds of CPU time. Neither is exact.

replace.tsv   as pld.tsv, for neighbours that differ in one replaced sample: the pair (1-q)N(0) + qN(a) and
              (1-q)N(0) + qN(-a) with a = 1/multiplier

The method on the grid of losses differs from that of the Rust code. One draw's pair of distributions is cut into cells of x.
These are merged into points (lower bound) or split onto their ends (upper bound). A point's loss goes to a multiple of h at
random, so that the **mean loss** is preserved (Gopi, Lee, Wutschitz, "Numerical composition of differential privacy", 2021).
Over T steps the sum moves by T independent terms of mean 0, each at most h, with a total variance of v per step. By Bernstein
it moves by more than tau to either side with a probability of at most eta = exp(-tau^2 / (2 T v + 2 h tau / 3)). So

    delta~(epsilon + tau) - eta  <=  delta(epsilon)  <=  delta~(epsilon - tau) + eta.

One transform of the tilted distribution gives delta~. The transform's error (Higham, theorem 24.2, times eight) and the
folded mass are added or subtracted. Losses above a cut of twice epsilon go to infinity in the part that preserves every
divergence below the cut (upper bound), or count as a separate event (lower bound).
"""

import math
import os
import random
import signal
import sys

import numpy as np
from scipy.special import ndtr

HERE = os.path.dirname(os.path.abspath(__file__))
U = 2.0**-53
SPACING = 1.0 / 128
LONGEST = 1 << 24
POINTS = 240


def between(a, b):
    """Normal mass of [a, b], without cancellation in the upper tail."""
    return np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))


class Step:
    """One draw in one direction: masses and losses of points, and the mass beyond them (first and second distribution)."""

    def __init__(self, q, sigma, direction, upper, reach):
        side = math.ceil((reach + 0.5 / sigma) / SPACING)
        c = np.arange(-side, side + 1) * SPACING
        z = c + 0.5 / sigma
        n0 = between(z[:-1], z[1:])
        n1 = between(z[:-1] - 1 / sigma, z[1:] - 1 / sigma)
        out = 1 - q
        self.beyond, self.second = 0.0, 0.0
        if upper:
            r = np.exp(c / sigma)
            share = (n1 - r[:-1] * n0) / (r[1:] - r[:-1])
            share = np.clip(share, 0, n0)
            mass0 = np.zeros_like(c)
            mass0[:-1] += n0 - share
            mass0[1:] += share
            ratio = r
            near, far = ndtr(z[0]), ndtr(z[0] - 1 / sigma)
        else:
            mass0, ratio = n0, n1 / np.maximum(n0, 1e-320)
        ratio = np.where(np.isfinite(ratio) & (ratio > 0), ratio, np.exp(np.clip((c[: len(ratio)] + SPACING / 2) / sigma, -700, 700)))
        loss = np.log1p(q * (ratio - 1)) if q < 1 else np.log(ratio)
        if direction == "remove":
            mass = mass0 * np.exp(loss)
            if upper:
                mass[0] += out * near + q * far
                self.beyond = out * far + q * near
        else:
            mass, loss = mass0[::-1].copy(), -loss[::-1]
            if upper:
                mass[0] += far
                self.beyond = near
        keep = mass > 1e-290
        self.mass = mass[keep] * (1 + 1e-10 if upper else 1 - 1e-10)
        self.loss = loss[keep]

    @classmethod
    def replaced(cls, q, sigma, upper, reach):
        """One draw with a sample, and with its opposite as the replacement."""
        self = cls.__new__(cls)
        self.beyond, self.second = 0.0, 0.0
        side = math.ceil((reach + 1 / sigma) / SPACING)
        x, out = np.arange(-side, side + 1) * SPACING, 1 - q
        first, second = (out * between(x[:-1], x[1:]) + q * between(x[:-1] - m, x[1:] - m) for m in (1 / sigma, -1 / sigma))
        part = lambda sign: np.logaddexp(math.log(out) if out > 0 else -np.inf, math.log(q) + sign * x / sigma - 0.5 / sigma**2)
        ends = part(1) - part(-1)
        if upper:
            share = np.clip((first - second * np.exp(ends[:-1])) / -np.expm1(ends[:-1] - ends[1:]), 0, first)
            mass, loss = np.zeros_like(x), ends
            mass[:-1] += first - share
            mass[1:] += share
            mass[0] += out * ndtr(x[0]) + q * ndtr(x[0] - 1 / sigma)
            self.beyond = out * ndtr(-x[-1]) + q * ndtr(1 / sigma - x[-1])
        else:
            mass, loss = first, np.log(np.maximum(first, 1e-320)) - np.log(np.maximum(second, 1e-320))
        keep = mass > 1e-290
        self.mass = mass[keep] * (1 + 1e-10 if upper else 1 - 1e-10)
        self.loss = loss[keep]
        return self

    def cut(self, at, upper):
        above = self.loss > at
        if not above.any():
            return
        mass, loss = self.mass[above], self.loss[above]
        self.mass, self.loss = self.mass[~above], self.loss[~above]
        if upper:
            kept = (mass * np.exp(at - loss)).sum()
            self.mass, self.loss = np.append(self.mass, kept), np.append(self.loss, at)
            self.beyond += (-mass * np.expm1(at - loss)).sum() * (1 + 1e-10)
        else:
            self.beyond += mass.sum()
            self.second += (mass * np.exp(-loss)).sum() * (1 + 1e-10)

    def moments(self, tilt):
        e = np.log(self.mass) + tilt * self.loss
        top = e.max()
        w = np.exp(e - top)
        total = w.sum()
        mean = (w * self.loss).sum() / total
        return top + math.log(total), mean, (w * (self.loss - mean) ** 2).sum() / total


def chernoff(ln_moment, tilt, room):
    return (ln_moment - math.log(room) - tilt * math.log1p(1 / tilt) - math.log1p(tilt)) / tilt


def bound(step, steps, delta, upper, limit, width_share=2.5e-4, floor=0.0):
    """Epsilon as an upper bound, or as a lower bound up to `limit`. None if no bound is found."""
    some = lambda p: -math.expm1(steps * math.log1p(-min(p, 1 - 1e-16)))
    eta = 1e-3 * delta
    if upper:
        room = delta - eta - some(step.beyond) * (1 + 1e-6)
    else:
        room = delta + eta - max(0.0, some(step.beyond) * (1 - 1e-6) - math.exp(min(limit, 600)) * some(step.second) * (1 + 1e-6))
    if room <= 0:
        return None
    tilts = np.exp(np.arange(-7, 13, 0.25))
    epsilons = [chernoff(steps * step.moments(t)[0], t, room) for t in tilts]
    tilt = float(tilts[int(np.argmin(epsilons))])
    ln_moment, mean, variance = step.moments(tilt)
    here, mean, deviation = steps * ln_moment, steps * mean, math.sqrt(steps * variance)
    reference = chernoff(here, tilt, room)

    def beyond(edge):
        sign = 1 if edge > mean else -1
        best = 0.0
        for k in range(-8, 24):
            change = sign * math.exp(0.5 * k) / (9 * deviation)
            best = min(best, steps * step.moments(tilt + change)[0] - here - change * edge)
        return math.exp(best)

    reach = 9 * deviation
    while reach < 1000 * deviation and beyond(mean + reach) + beyond(mean - reach) > 1e-12:
        reach *= 1.3
    top = max(mean + reach, reference + 30 / tilt)
    bottom = min(mean - reach, reference - 30 / tilt)
    guess = min(limit, reference)
    if upper and reference < floor:
        return reference
    log_eta = -math.log(eta)
    length = 1 << 13
    #     # Multiples are counted from the loss of most of the mass, about -q at a small rate, so that this mass is not
    #     moved.
    half = np.searchsorted(np.cumsum(step.mass), step.mass.sum() / 2)
    near = np.abs(step.loss - step.loss[half]) < 3 * abs(step.loss[half])
    origins = (0.0, step.loss[half], (step.mass * step.loss)[near].sum() / step.mass[near].sum() if near.any() else 0.0)
    while True:
        h = (top - bottom) / length

        def moved(origin):
            place = (step.loss - origin) / h
            share = place - np.floor(place)
            return (step.mass * share * (1 - share)).sum()

        origin = min(origins, key=moved)
        place = (step.loss - origin) / h
        low = np.floor(place)
        share = place - low
        spread = 1.001 * moved(origin)
        tau = h * (log_eta / 3 + math.sqrt(log_eta**2 / 9 + 2 * steps * spread * log_eta)) + steps * 1e-12
        if tau <= width_share * max(guess, 0.02) or length >= LONGEST:
            break
        length *= 2
    tilted = np.exp(np.log(step.mass) + tilt * (low * h + origin) - ln_moment)
    index = low.astype(np.int64)
    masses = np.bincount(index % length, weights=tilted * (1 - share), minlength=length)
    masses += np.bincount((index + 1) % length, weights=tilted * share * math.exp(tilt * h), minlength=length)
    total = masses.sum() * (1 + 1e-12)
    masses /= total
    log_total = steps * (ln_moment + math.log(total))
    norm = math.sqrt((masses**2).sum())
    transformed = np.fft.rfft(masses)
    size = np.abs(transformed)
    transformed /= np.maximum(size, 1)
    composed = np.maximum(np.fft.irfft(transformed**steps, length), 0)
    error = 60 * U * (math.log2(length) + 2) * (1 + steps * norm)
    kernel = math.sqrt(min(1 / (4 * tilt**3), 1 / (2 * tilt)) / h + 2)
    folded = 0.0 if upper else beyond(top) + beyond(bottom)

    first, last = math.ceil((bottom - steps * origin) / h), math.floor((top - steps * origin) / h)
    multiples = np.arange(first, last)
    composed = composed[multiples % length]
    sums = multiples * h + steps * origin

    def at(epsilon):
        """A bound on delta~ over e^(ln_moment - tilt * epsilon)."""
        start = np.searchsorted(sums, epsilon)
        stop = np.searchsorted(sums, epsilon + 45 / tilt)
        away = sums[start:stop] - epsilon
        value = (composed[start:stop] * np.exp(-tilt * away) * -np.expm1(-away)).sum()
        if upper:
            return value * (1 + 1e-9) + math.exp(-45) + error * kernel
        return value * (1 - 1e-9) - error * kernel - folded

    def holds(epsilon):
        value = at(epsilon)
        return value > 0 and math.log(value) + log_total - tilt * epsilon > math.log(room) - 1e-9 * (1 if upper else -1)

    low_end, high_end = bottom, reference + 1.0
    if not upper:
        #         # Far below epsilon the error outweighs the tilted mass, so the search starts at a value for which the
        #         bound holds.
        starts = [share * min(guess, reference) for share in (0.99, 0.97, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2)]
        low_end = next((start for start in starts if holds(start)), None)
        if low_end is None:
            return 0.0
    for _ in range(45):
        middle = (low_end + high_end) / 2
        low_end, high_end = (middle, high_end) if holds(middle) else (low_end, middle)
    found = high_end + tau if upper else low_end - tau
    return max(found, 0.0) if upper else min(max(found, 0.0), limit)


def epsilon(q, sigma, steps, delta, directions=("remove", "add")):
    """(lower, upper), or infinite and 0 if the upper bound is far outside of the supported range."""
    reach = math.sqrt(2 * math.log(steps / (1e-7 * delta)))
    lowest, highest = 0.0, 0.0
    for direction in directions:
        replaced = direction == "replace"
        make = lambda upper: Step.replaced(q, sigma, upper, reach) if replaced else Step(q, sigma, direction, upper, reach)
        whole = make(True)
        best = bound(whole, steps, delta, True, math.inf, 1e-2, lowest)
        if best > 110 or (direction == "remove" and best < 0.009):
            return 0.0, math.inf
        if best <= lowest:
            highest = max(highest, best)
            continue
        for _ in range(4):
            step = make(True)
            step.cut(2 * best, True)
            tried = bound(step, steps, delta, True, best)
            if tried is None or tried > 0.99 * best:
                best = min(best, tried) if tried is not None else best
                break
            best = tried
        highest = max(highest, best)
        if best <= lowest:
            continue
        step = make(False)
        step.cut(2 * best, False)
        lowest = max(lowest, bound(step, steps, delta, False, best) or 0.0)
    return lowest, highest


def points():
    """Points of everyday use, and a grid of the supported region, in a fixed random order."""
    everyday = [(256 / 60000, 1.1, 3516, 1e-5), (0.01, 1.0, 1000, 1e-5), (0.01, 0.6, 500, 1e-6), (0.004, 0.8, 14063, 1e-5),
                (0.01, 0.5, 1000, 1e-5), (0.001, 0.7, 10000, 1e-6), (512 / 50000, 1.5, 3910, 1e-5), (1.0, 10.0, 100, 1e-5)]
    grid = [(q, s, t, d) for q in (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9, 1.0) for s in (0.3, 0.4, 0.6, 1.0, 2.0, 5.0, 20.0)
            for t in (1, 10, 100, 1000) for d in (1e-10, 1e-6, 1e-3)]
    #     # Bernstein's inequality needs the longest transforms for the largest number of steps, so there are fewer of
    #     those.
    grid += [(q, s, t, d) for q in (1e-5, 1e-3, 0.1, 1.0) for s in (0.4, 1.0, 5.0, 20.0) for t in (10000, 100000)
             for d in (1e-10, 1e-5)]
    random.Random(6).shuffle(grid)
    return everyday + grid


def multiplier_at(q, steps, delta, target):
    """The approximate multiplier, to three digits, with this epsilon, by Chernoff's bound (a few hundredths too large)."""
    reach = math.sqrt(2 * math.log(steps / (1e-7 * delta)))

    def at(sigma):
        step = Step(q, sigma, "remove", True, reach)
        if steps * step.beyond > delta / 2:
            return math.inf
        return min(chernoff(steps * step.moments(t)[0], t, delta) for t in np.exp(np.arange(-7, 13, 0.25)))

    low, high = 0.3, 20.0
    if at(low) <= target or at(high) > target:
        return None
    for _ in range(14):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if at(middle) > target else (low, middle)
    return float(f"{high:.3g}")


def corners():
    """Points at the ends of the region: epsilon of about 100 or 0.01, many steps, and the smallest values of all settings."""
    found = [(q, s, t, d) for q in (1e-5, 1.0) for s in (0.3, 20.0) for t in (10000, 30000, 100000) for d in (1e-10, 1e-6, 1e-3)]
    for q in (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0):
        for t in (1, 10, 100, 1000, 10000, 100000):
            for d in (1e-10, 1e-3):
                for target in (0.0125, 0.018, 100.0):
                    sigma = multiplier_at(q, t, d, target)
                    found += [(q, sigma, t, d)] if sigma else []
    drawn = random.Random(7)
    for t in (10000, 20000, 50000, 100000):
        for d in (1e-10, 1e-8, 1e-6, 1e-5, 1e-3):
            for _ in range(2):
                sigma = None
                while not sigma:
                    q, target = 10 ** drawn.uniform(-5, 0), 10 ** drawn.uniform(-2, 2)
                    sigma = multiplier_at(q, t, d, target)
                found.append((q, sigma, t, d))
    return found + heavy()


def heavy():
    """Points at which few large losses make up delta. A random test found the first point."""
    found = [(167654081445 / 2**53, 0.5930466692367685, 125, 4.927516235938987e-10)]
    drawn = random.Random(8)
    while len(found) < 24:
        q, t, d = 10 ** drawn.uniform(-5, -2.5), int(10 ** drawn.uniform(0.5, 3.5)), 10 ** drawn.uniform(-10, -8)
        found.append((q, float(f"{drawn.uniform(0.35, 0.8):.3g}"), t, d))
    return found


def numerator(q):
    return int(math.floor(q * 2**53))


def replaced():
    """Points of everyday use, and a part of the grid, with at most ten thousand draws."""
    return [point for point in points() if point[2] <= 10000]


def write_bounds(name, points, directions=("remove", "add"), most=POINTS):
    written = 0
    with open(os.path.join(HERE, name), "w") as out:
        out.write("# rate numerator\tmultiplier\tsteps\tdelta\tepsilon at least\tepsilon at most\n")
        for q, sigma, steps, delta in points:
            k = numerator(q)
            low, high = epsilon(k / 2**53, sigma, steps, delta, directions)
            if not (0.01 <= high and low <= 100) or high - low > max(3.5e-3 * low, 7e-5):
                high < math.inf and print("left out", q, sigma, steps, delta, low, high, file=sys.stderr, flush=True)
                continue
            out.write(f"{k}\t{sigma}\t{steps}\t{delta}\t{low:.9g}\t{high:.9g}\n")
            out.flush()
            written += 1
            if written == most:
                return


def limited(function, seconds=2):
    def give_up(*_):
        raise TimeoutError
    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        value = float(function())
        return f"{value:.9g}" if math.isfinite(value) else "-"
    except Exception:
        return "-"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def write_outside():
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    def google(q, sigma, steps, delta):
        event = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(float(sigma)))
        return PLDAccountant().compose(event, steps).get_epsilon(delta)

    def prv(q, sigma, steps, delta):
        mechanism = PoissonSubsampledGaussianMechanism(noise_multiplier=float(sigma), sampling_probability=q)
        accountant = PRVAccountant(prvs=[mechanism], max_self_compositions=[steps], eps_error=0.01, delta_error=delta / 1000)
        return accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])[2]

    known = [line for name in ("pld.tsv", "corners.tsv") for line in open(os.path.join(HERE, name))]
    with open(os.path.join(HERE, "outside.tsv"), "w") as out:
        out.write("# rate numerator\tmultiplier\tsteps\tdelta\tdp-accounting\tprv-accountant\n")
        for line in known:
            if line.startswith("#"):
                continue
            k, sigma, steps, delta = line.split("\t")[:4]
            values = (int(k) / 2**53, float(sigma), int(steps), float(delta))
            google_says = limited(lambda: google(*values))
            prv_says = limited(lambda: prv(*values))
            out.write(f"{k}\t{sigma}\t{steps}\t{delta}\t{google_says}\t{prv_says}\n")
            out.flush()


if __name__ == "__main__":
    commands = {
        "bounds": lambda: write_bounds("pld.tsv", points()),
        "corners": lambda: write_bounds("corners.tsv", corners()),
        "outside": write_outside,
        "replace": lambda: write_bounds("replace.tsv", replaced(), ("replace",), 72),
    }
    commands[sys.argv[1]]()
