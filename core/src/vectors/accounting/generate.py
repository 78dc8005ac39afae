"""Writes the accounting vectors next to this file, with mpmath and dp-accounting only: never from the Rust code.

    python3 core/src/vectors/accounting/generate.py

- divergence.tsv: rate (k of k/2^53), multiplier, order, true Renyi divergence "mixture against base"
- epsilon.tsv: rate, multiplier, steps, delta, order, true epsilon of that order's conversion
- outside.tsv: rate, multiplier, order, RDP from dp-accounting (an independent implementation)
- pld.tsv: rate, multiplier, steps, delta, a lower bound of epsilon (dp-accounting's optimistic PLD)
- up.tsv: function, argument, the largest f64 at most the true value

Numbers have 17 significant digits, which identify an f64 exactly. True values are rounded to nearest, except in up.tsv.
"""

import math
import os
import random

import mpmath as mp
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import rdp_privacy_accountant as rdp

mp.mp.dps = 40
HERE = os.path.dirname(os.path.abspath(__file__))
RATES = [1e-5, 1e-3, 1e-2, 0.1, 0.5, 0.9, 1.0]
MULTIPLIERS = [0.3, 0.5, 0.7, 1.0, 1.7, 4.0, 15.0, 50.0]
INTEGERS = [2, 3, 5, 8, 16, 32, 64, 250, 1024]
FRACTIONS = [1.125, 1.5, 1.875, 2.25, 2.5, 3.75, 5.5, 7.5]


def numerator(q):
    return int(mp.floor(mp.mpf(q) * 2**53))


def moment_integer(q, sigma, order):
    """Returns A_alpha as the exact finite sum. Forty digits exclude cancellation errors."""
    total = mp.mpf(0)
    for k in range(order + 1):
        total += mp.binomial(order, k) * q**k * (1 - q) ** (order - k) * mp.exp(mp.mpf(k * k - k) / (2 * sigma**2))
    return total


def moment_quadrature(q, sigma, order):
    """Returns A_alpha at any order, by Gauss-Legendre panels on the plain integrand, with more digits than cancellation loses."""
    def integrand(u):
        z = u / sigma - 1 / (2 * sigma**2)
        return mp.npdf(u) * (1 - q + q * mp.exp(z)) ** order
    top = order / sigma
    knots = [-20, -12, -8, -4, -2, 0, 2, 4, 8, 12]
    x = mp.mpf(12)
    while x < top + 20:
        x += 2
        knots.append(x)
    return mp.quad(integrand, knots, method="gauss-legendre")


def divergence(q, sigma, order):
    if q == 1:
        return mp.mpf(order) / (2 * sigma**2)
    a = moment_integer(q, sigma, order) if order == int(order) else moment_quadrature(q, sigma, mp.mpf(order))
    return mp.log(a) / (order - 1)


def epsilon(rho, order, delta):
    order = mp.mpf(order)
    return rho + mp.log((order - 1) / order) - (mp.log(delta) + mp.log(order)) / (order - 1)


def text(x):
    return repr(float(x))


def write(name, header, rows):
    with open(os.path.join(HERE, name), "w") as out:
        out.write("# " + "\t".join(header) + "\n")
        for row in rows:
            out.write("\t".join(str(cell) for cell in row) + "\n")


def divergences():
    for order in [2, 3, 8]:  # the quadrature agrees with the finite sum if both apply
        for rate, sigma in [(mp.mpf("1e-5"), mp.mpf("0.3")), (mp.mpf("0.1"), mp.mpf(50))]:
            exact = moment_integer(rate, sigma, order) - 1
            assert abs(moment_quadrature(rate, sigma, mp.mpf(order)) - 1 - exact) < mp.mpf("1e-12") * exact
    rows = []
    for rate in RATES:
        k = numerator(rate)
        q = mp.mpf(k) / 2**53
        for multiplier in MULTIPLIERS:
            sigma = mp.mpf(multiplier)
            for order in INTEGERS + FRACTIONS:
                rows.append((k, text(multiplier), text(order), text(divergence(q, sigma, order))))
    write("divergence.tsv", ["rate numerator", "multiplier", "order", "divergence"], rows)


def epsilons():
    rows = []
    for rate, multiplier, steps, delta in [
        (1e-5, 0.3, 100, 1e-6), (1e-3, 0.6, 10_000, 1e-6), (1e-2, 0.5, 1000, 1e-5), (1e-2, 1.0, 1000, 1e-5),
        (1e-2, 4.0, 10_000_000, 1e-15), (256 / 60000, 1.1, 14_000, 1e-5), (0.1, 2.0, 500, 1e-3), (0.5, 20.0, 50, 1e-9),
        (1.0, 1.0, 1, 1e-5), (1.0, 50.0, 10, 1e-7),
    ]:
        k = numerator(rate)
        for order in INTEGERS:
            rho = steps * divergence(mp.mpf(k) / 2**53, mp.mpf(multiplier), order)
            value = max(epsilon(rho, order, mp.mpf(delta)), mp.mpf(0))
            rows.append((k, text(multiplier), steps, text(delta), text(order), text(value)))
    write("epsilon.tsv", ["rate numerator", "multiplier", "steps", "delta", "order", "epsilon"], rows)


def outside():
    rows = []
    for rate in [1e-3, 1e-2, 0.1, 0.5]:
        k = numerator(rate)
        for multiplier in [0.5, 1.0, 4.0]:
            orders = [1.5, 2.0, 2.5, 5.5, 8.0, 32.0, 250.0]
            accountant = rdp.RdpAccountant(orders)
            accountant.compose(dp_event.PoissonSampledDpEvent(k / 2**53, dp_event.GaussianDpEvent(float(multiplier))))
            for order, value in zip(orders, accountant._rdp):
                if not math.isfinite(value):  # its series did not converge
                    continue
                rows.append((k, text(multiplier), text(order), text(value)))
    write("outside.tsv", ["rate numerator", "multiplier", "order", "divergence"], rows)


def lower_bounds():
    rows = []
    for rate, multiplier, steps, delta in [
        (0.01, 0.5, 1000, 1e-5), (0.01, 0.7, 10_000, 1e-5), (0.01, 1.0, 1000, 1e-5), (0.01, 0.6, 500, 1e-6),
        (0.01, 4.0, 10_000, 1e-5), (256 / 60000, 1.1, 14_000, 1e-5), (0.1, 2.0, 100, 1e-6), (0.001, 0.8, 5000, 1e-7),
        (0.5, 10.0, 50, 1e-5), (1.0, 1.0, 1, 1e-5), (1.0, 5.0, 20, 1e-6),
    ]:
        k = numerator(rate)
        optimistic = pld.from_gaussian_mechanism(
            float(multiplier), sampling_prob=k / 2**53, pessimistic_estimate=False, use_connect_dots=False,
            value_discretization_interval=1e-5,
        ).self_compose(steps)
        rows.append((k, text(multiplier), steps, text(delta), text(optimistic.get_epsilon_for_delta(delta))))
    write("pld.tsv", ["rate numerator", "multiplier", "steps", "delta", "epsilon at least"], rows)


def upward():
    """Yields arguments over each function's range. A fixed seed gives the same file every time."""
    draw = random.Random(20260101)
    rows = []

    def below(x):
        nearest = float(x)
        return nearest if mp.mpf(nearest) <= x else math.nextafter(nearest, -math.inf)

    for _ in range(60):
        sign = draw.choice([-1, 1])
        small = sign * 10 ** draw.uniform(-18, 0)
        rows.append(("exp", small)), rows.append(("exp_m1", small))
        rows.append(("ln_1p", small * 0.999))
        rows.append(("exp", draw.uniform(-700, 700))), rows.append(("exp_m1", draw.uniform(-40, 700)))
        rows.append(("ln_1p", 10 ** draw.uniform(0, 300)))
        rows.append(("ln", 10 ** draw.uniform(-300, 300))), rows.append(("ln", 1 + small * 0.5))
        rows.append(("sqrt", 10 ** draw.uniform(-300, 300)))
    functions = {"exp": mp.exp, "exp_m1": mp.expm1, "ln": mp.log, "ln_1p": mp.log1p, "sqrt": mp.sqrt}
    write(
        "up.tsv", ["function", "argument", "largest f64 at most the value"],
        [(name, text(x), text(below(functions[name](mp.mpf(x))))) for name, x in rows],
    )


if __name__ == "__main__":
    upward()
    outside()
    lower_bounds()
    epsilons()
    divergences()
