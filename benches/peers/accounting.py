"""CPU time of a privacy cost: damper's tight accountant, dp-accounting and prv-accountant.

    python3 benches/peers/accounting.py [--rounds 5] [--limit 120]

Every question is asked of all three in turn, `--rounds` times. The table has the median of CPU seconds (user and
system), and their ε. The default grid is used for dp-accounting, and an error of 0.01 in ε for prv-accountant. Neither
bounds the distance of its ε from the truth. A peer that takes longer than `--limit` CPU seconds once is not asked
again.
"""

import argparse
import pathlib
import resource
import signal
import statistics
import subprocess
import time

from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS = 10_000
EQUAL = [(0.004, 0.8, 1e-5), (0.01, 1.0, 1e-6), (1e-3, 0.5, 1e-6), (0.5, 20.0, 1e-10), (1e-5, 0.3, 1e-10), (0.1, 2.94, 1e-3)]
SCHEDULES = {
    "rising": lambda t: 0.8 + t * 1e-5,
    "polynomial": lambda t: 0.45 * (20.0 + t) ** 0.25,
    "endless": lambda t: 0.3 / (0.1 - (0.1 - 1e-10) * (t / STEPS) ** 0.5) ** 0.5,
}


def questions():
    """A name, a rate, δ, and the number of draws with each multiplier."""
    for q, multiplier, delta in EQUAL:
        yield f"{STEPS:,} at q {q}, σ {multiplier}, δ {delta:g}", q, delta, [(multiplier, STEPS)]
    for name, factor in SCHEDULES.items():
        yield f"{STEPS:,} different, {name}", 0.005, 1e-5, [(factor(t), 1) for t in range(1, STEPS + 1)]


class Damper:
    def __init__(self, binary):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, q, delta, events):
        times = events[0][1] if len(events) == 1 else 1
        print(q, delta, times, *(multiplier for multiplier, _ in events), file=self.process.stdin, flush=True)
        epsilon, seconds = self.process.stdout.readline().split()
        return float(epsilon), float(seconds)


def timed(function):
    def price(*question):
        start = time.process_time()
        epsilon = function(*question)
        return float(epsilon), time.process_time() - start

    return price


@timed
def dp_accounting(q, delta, events):
    accountant = PLDAccountant()
    for multiplier, times in events:
        accountant.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(multiplier)), times)
    return accountant.get_epsilon(delta)


@timed
def prv_accountant(q, delta, events):
    mechanisms = [PoissonSubsampledGaussianMechanism(noise_multiplier=m, sampling_probability=q) for m, _ in events]
    times = [times for _, times in events]
    accountant = PRVAccountant(prvs=mechanisms, max_self_compositions=times, eps_error=0.01, delta_error=delta / 1000)
    return accountant.compute_epsilon(delta=delta, num_self_compositions=times)[2]


def limited(function, seconds):
    """Returns `None` if it takes more CPU time, or fails."""
    def give_up(*_):
        raise TimeoutError
    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return function()
    except TimeoutError:
        return None
    except Exception as error:
        print("failed:", type(error).__name__, str(error).splitlines()[0][:90] if str(error) else "")
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--accountant", default=ROOT / "target/release/damper-accountant", help="the built damper-accountant")
    arguments = parser.parse_args()
    candidates = {"damper": Damper(arguments.accountant), "dp-accounting": dp_accounting, "prv-accountant": prv_accountant}
    for name, *question in questions():
        found = {candidate: [] for candidate in candidates}
        asked = dict(candidates)
        for _ in range(arguments.rounds):
            for candidate, price in list(asked.items()):
                answer = limited(lambda: price(*question), arguments.limit)
                if answer is None:
                    del asked[candidate]
                else:
                    found[candidate].append(answer)
        cells = []
        for candidate, answers in found.items():
            if candidate in asked and answers:
                seconds = statistics.median(seconds for _, seconds in answers)
                cells.append(f"{candidate} {seconds * 1e3:.1f} ms (ε {answers[0][0]:.5g})")
            else:
                cells.append(f"{candidate} -")
        print(f"{name}: {'; '.join(cells)}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    candidates["damper"].process.stdin.close()
    candidates["damper"].process.wait()
    peak = max(peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    print(f"damper's peak memory: {peak / 1024:.0f} MB")


if __name__ == "__main__":
    main()
