#!/usr/bin/env python3
"""A server and its devices, killed at random moments, against an uninterrupted simulation.

    DAMPER=target/release/damper python integrations/flower/tests/stops.py [--stops 50]

A process has the server and the workers of four devices. It is killed (SIGKILL) and restarted, until its rounds are
done. In every second federation only the process is killed, and its commands continue without it. Then all updates are
in all sums. In the others, some stops kill it with its running commands, and some kill only the commands. At the end,
the model is that of a simulation without the missing updates. No device sent two updates of a round, and all ledgers
count each round once.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import DAMPER, Grid, Setting, expect, node_of, quiet

from damper_flower.rounds import Rounds
from damper_flower.server import Server
from damper_flower.worker import Worker

DEVICES, ROUNDS, SMALLEST = 4, 5, 3
KINDS = ("process", "all", "commands")


def serve(setting: Setting) -> None:
    """Runs the process that is killed."""
    nodes = {device: node_of(Worker(None, setting.device(device))) for device in range(1, DEVICES + 1)}
    rounds = Rounds(setting.device(1).plan, setting.model, setting.folder / "server", DAMPER)
    print("ready", flush=True)
    Server(rounds, wait=5.0, timeout=60.0).run(Grid(nodes))


def commands(process: int) -> list[int]:
    """Returns the running commands of a process, and their children."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in map(int, task.read_text().split()):
                found += [child, *commands(child)]
        except OSError:
            continue
    return found


def kill(process: int) -> None:
    """Kills a process of this test."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stopped(folder: Path, chance: random.Random, left: int, kinds: tuple[str, ...]) -> dict[str, int]:
    """Runs one federation with at most `left` stops. Returns the number of stops of each kind."""
    setting = Setting(folder, DEVICES, ROUNDS, SMALLEST)
    done = dict.fromkeys(KINDS, 0)
    process = None
    while True:
        if process is None or process.poll() is not None:
            process = subprocess.Popen([sys.executable, __file__, "--folder", folder], stdout=subprocess.PIPE, text=True)
            process.stdout.readline()
        if sum(done.values()) == left:
            expect(process.wait(300) == 0, "the server failed")
            break
        time.sleep(chance.uniform(0.0, 2.5))
        if process.poll() is not None:
            expect(process.returncode == 0, "the server failed")
            break
        kind = chance.choice(kinds)
        for one in [*([] if kind == "commands" else [process.pid]), *([] if kind == "process" else commands(process.pid))]:
            kill(one)
        done[kind] += 1
        if kind != "commands":
            process.wait()
            process = None
    check(setting, done)
    return done


def check(setting: Setting, done: dict[str, int]) -> None:
    """Compares the results with the expected results."""
    server = setting.folder / "server"
    absent = []
    for round_ in range(ROUNDS):
        result = json.loads((server / f"round-{round_}" / "result.json").read_bytes())
        cohort = json.loads((server / f"round-{round_}" / "cohort.json").read_bytes())
        expect(not result.get("refused"), f"{result}")
        absent += [f"{round_}:{device}" for device in range(1, DEVICES + 1) if f"node-{device}.upd" not in cohort]
    expect(len(absent) <= done["all"] + done["commands"], f"{absent} are lost in {done}")
    last = (server / f"model-{ROUNDS}.onnx").read_bytes()
    expect(last == setting.simulate(absent), f"other bits than one process without {absent}")
    expect(setting.charged(server) == ROUNDS, "the server's ledger")
    for device in range(1, DEVICES + 1):
        sent = [one for one in setting.left(device) if one[0] != "refusal"]
        expect(len({kind for kind, _ in sent}) == len(set(sent)), f"device {device} sent two updates of a round: {sent}")
        # A round that was charged and lost is not sent.
        charged, rounds = setting.charged(setting.of(device)), {kind for kind, _ in sent}
        expect(len(rounds) <= charged <= ROUNDS, f"device {device}: {charged} rounds are charged, {rounds} were sent")
        held = {f"round {round_}" for round_ in range(ROUNDS)} - {f"round {one.split(':')[0]}" for one in absent if one.endswith(f":{device}")}
        expect(held <= rounds, f"device {device}: {held - rounds} are in a sum and not in left.log")


def main() -> None:
    """Runs the test."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stops", type=int, default=9)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    quiet()
    args = parser.parse_args()
    if args.folder:
        setting = Setting(args.folder, DEVICES, ROUNDS, SMALLEST, is_made=True)
        serve(setting)
        return
    chance, done, federations, begun = random.Random(3), dict.fromkeys(KINDS, 0), 0, time.monotonic()
    while sum(done.values()) < args.stops:
        with tempfile.TemporaryDirectory() as name:
            kinds = KINDS if federations % 2 else KINDS[:1]
            found = stopped(Path(name), chance, args.stops - sum(done.values()), kinds)
        done = {kind: done[kind] + found[kind] for kind in KINDS}
        federations += 1
    print(f"{args.stops} stops ({done}) of {federations} federations: the bits of a simulation, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
