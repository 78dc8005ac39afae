"""What every candidate in Python does: takes a number of steps from standard input, answers with seconds a step."""

import sys
import time


def serve(step):
    """Runs `step` twice to warm up; then, for each line, as many steps as it says. Answers with CPU seconds (user and system)
    and wall seconds a step, and the process's peak resident memory in KiB."""
    step()
    step()
    print("ready", flush=True)
    for line in sys.stdin:
        steps = int(line)
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        print((time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps, peak(), flush=True)


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
