"""CPU time of `damper.accounting`, dp-accounting and Opacus on the same events, in one process.

    python3 benches/peers/accounting_events.py [--rounds 3]

Every question is asked of all in turn, `--rounds` times. The table has the median of CPU seconds (user and system), and
the result. It needs dp-accounting, and takes Opacus' PRV accountant for draws if Opacus is installed. The events are
those of dp-accounting, which damper reads. dp-accounting is on its default grid, and gives Rényi divergences for events
that its privacy loss distributions lack. Opacus gives the upper end of its error of 0.01 in ε.
"""

import argparse
import statistics
import time

from damper import accounting
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as dp
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

ADD, REPLACE, ZERO = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE, Relation.REPLACE_SPECIAL
DELTA = 1e-6


def draws(rate, noise, steps):
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)


def questions():
    """A name, an event, its neighbours, and True if the event has only Rényi divergences in dp-accounting."""
    yield "10,000 draws, q 0.01, σ 1", draws(0.01, 1.0, 10_000), ADD, False
    yield "1,000 draws, q 0.001, σ 0.6", draws(0.001, 0.6, 1000), ADD, False
    yield "100,000 draws, q 0.004, σ 2", draws(0.004, 2.0, 100_000), ADD, False
    yield "1,000 draws, replaced, q 0.01, σ 2", draws(0.01, 2.0, 1000), REPLACE, False
    yield "100 Gaussians, σ 20", dp.SelfComposedDpEvent(dp.GaussianDpEvent(20.0), 100), ADD, False
    yield "100 Laplace, b 10", dp.SelfComposedDpEvent(dp.LaplaceDpEvent(10.0), 100), ADD, False
    laplace = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, dp.LaplaceDpEvent(1.0)), 1000)
    yield "1,000 draws of Laplace, q 0.05, b 1", laplace, ADD, False
    yield "100 discrete Laplace, a 0.1", dp.SelfComposedDpEvent(dp.DiscreteLaplaceDpEvent(0.1, 1), 100), ADD, False
    truncated = dp.TruncatedSubsampledGaussianDpEvent(60_000, 0.004, 400, 1.1)
    yield "1,000 truncated draws", dp.SelfComposedDpEvent(truncated, 1000), ZERO, False
    yield "draws and a Laplace release", dp.ComposedDpEvent([draws(0.01, 1.1, 1000), dp.LaplaceDpEvent(2.0)]), ADD, False
    yield "a tree of 1,000 steps, σ 5", dp.SingleEpochTreeAggregationDpEvent(5.0, 1000), ZERO, True
    yield "best of about ten runs", dp.RepeatAndSelectDpEvent(draws(0.01, 1.1, 1000), 10, 1), ADD, True


def damper(event, neighbours, _, epsilon):
    if epsilon is None:
        return accounting.epsilon(event, DELTA, neighbours=neighbours)
    return accounting.delta(event, epsilon, neighbours=neighbours)


def dp_accounting(event, neighbours, by_orders, epsilon):
    accountant = RdpAccountant(neighboring_relation=neighbours) if by_orders else PLDAccountant(neighbours)
    accountant.compose(event)
    return accountant.get_epsilon(DELTA) if epsilon is None else accountant.get_delta(epsilon)


def opacus(event, neighbours, by_orders, epsilon):
    from opacus.accountants import PRVAccountant

    draw = getattr(event, "event", None)
    if by_orders or neighbours is not ADD or epsilon is not None or not isinstance(getattr(draw, "event", None), dp.GaussianDpEvent):
        return None
    accountant = PRVAccountant()
    accountant.history = [(draw.event.noise_multiplier, draw.sampling_probability, event.count)]
    return accountant.get_epsilon(DELTA)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    candidates = {"damper": damper, "dp-accounting": dp_accounting}
    try:
        from opacus.accountants import PRVAccountant  # noqa: F401

        candidates["Opacus"] = opacus
    except ImportError:
        print("Opacus is not installed")
    print(f"| question | {' | '.join(candidates)} | ratio to dp-accounting |\n| --- |{' --- |' * (len(candidates) + 1)}")
    ratios = []
    for name, event, neighbours, by_orders in questions():
        epsilon = accounting.epsilon(event, DELTA, neighbours=neighbours)
        for wanted, at in (("ε", None), ("δ", epsilon)):
            seconds = {candidate: [] for candidate in candidates}
            found = {}
            for _ in range(rounds):
                for candidate, ask in candidates.items():
                    start = time.process_time()
                    found[candidate] = ask(event, neighbours, by_orders, at)
                    seconds[candidate].append(time.process_time() - start)
            median = {candidate: statistics.median(each) * 1e3 for candidate, each in seconds.items()}
            cells = [f"{median[one]:.2f} ms ({found[one]:.5g})" if found[one] is not None else "-" for one in candidates]
            ratios.append(median["dp-accounting"] / median["damper"])
            print(f"| {wanted}, {name} | {' | '.join(cells)} | {ratios[-1]:.0f} |", flush=True)
    print(f"\ndp-accounting takes {statistics.median(ratios):.0f} times as long (median), {min(ratios):.1f} to {max(ratios):.0f}")


if __name__ == "__main__":
    main()
