"""Protocol of every candidate in Python: takes a number of steps from standard input, answers with seconds a step."""

import sys
import time


def serve(step, wait=lambda: None, memory=None, warm=2):
    """Runs `step` `warm` times to warm up. Then runs as many steps as each line states, and answers with CPU seconds
    (user and system) and wall seconds a step, and the process's peak resident memory in KiB, or that of `memory`.
    `wait` waits for a device."""
    for _ in range(warm):
        step()
    wait()
    print("ready", flush=True)
    for line in sys.stdin:
        steps = int(line)
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        print((time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps, (memory or peak)(), flush=True)


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
