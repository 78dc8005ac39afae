"""Writes bound.tsv: the expected bounds of the canary audit, from the theorem in exact binomials and 60 digits.

    python bound.py > bound.tsv

The program under test contributes nothing. `probability` rows: m, r, v, delta, epsilon, and the theorem's probability.
`bound` rows: m, r, v, delta, confidence, and the largest epsilon that is refuted. Bisection finds it to 30 digits. It is
rounded down to 12 digits, or 0 if no epsilon is refuted.
"""

from mpmath import mp, mpf, binomial, exp, floor

mp.dps = 60


def probability(m, r, v, delta, epsilon):
    right = exp(epsilon) / (1 + exp(epsilon))
    wrong = 1 / (1 + exp(epsilon))
    mass = [binomial(r, j) * right**j * wrong ** (r - j) for j in range(r + 1)]
    beta = sum(mass[v:], mpf(0))
    alpha = max([sum(mass[v - i : v], mpf(0)) / i for i in range(1, v + 1)], default=mpf(0))
    return min(mpf(1), beta + 2 * m * delta * alpha)


def bound(m, r, v, delta, confidence):
    allowed = 1 - confidence
    if probability(m, r, v, delta, mpf(0)) > allowed:
        return mpf(0)
    low, high = mpf(0), mpf(30)
    for _ in range(60):
        middle = (low + high) / 2
        if probability(m, r, v, delta, middle) <= allowed:
            low = middle
        else:
            high = middle
    return floor(low * 10**12) / 10**12


def main():
    for m, r in [(10, 4), (100, 100), (1000, 60), (1000, 200)]:
        for share in [0, mpf("0.5"), mpf("0.75"), mpf("0.95"), 1]:
            for delta in ["0", "1e-5", "1e-3"]:
                for epsilon in ["0", "0.25", "1", "4"]:
                    v = int(floor(r * share))
                    value = probability(m, r, v, mpf(delta), mpf(epsilon))
                    print("probability", m, r, v, delta, epsilon, mp.nstr(value, 20), sep="\t")
    for m, r in [(1000, 60), (1000, 120), (2000, 100)]:
        for v in [r // 2, 2 * r // 3, 4 * r // 5, 9 * r // 10, r - 1, r]:
            for delta in ["0", "1e-5"]:
                value = bound(m, r, v, mpf(delta), mpf("0.999"))
                print("bound", m, r, v, delta, "0.999", mp.nstr(value, 20), sep="\t")


main()
