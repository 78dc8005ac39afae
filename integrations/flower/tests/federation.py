#!/usr/bin/env python3
"""Four devices and five rounds on this machine, against a simulation in one process.

    DAMPER=target/release/damper python integrations/flower/tests/federation.py [--digits] [--in-process]

With Flower's own processes there are a SuperLink and four SuperNodes with TLS and authentication, each with a worker.
Or all runs in one process, without them. Device 1 sends its update of round 0 twice. Device 2 leaves in round 2.
Device 3 sends the update of another plan in round 1. Device 4 sends the update of round 2 again in round 3. Data:
MNIST in ../shared/data, else the digits of onnx-models.
"""

import argparse
import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from common import DAMPER, HERE, Grid, Setting, expect, node_of, quiet, run
from damper_flower.rounds import Rounds
from damper_flower.server import Server
from misbehaving import Misbehaving
from network import Network

DEVICES, ROUNDS, SMALLEST = 4, 5, 3
BEHAVIOURS = {1: "doubles:0", 2: "leaves:2", 3: "lies:1", 4: "replays:3"}
# Rounds, and the device that is missing in the sum.
ABSENT = ["2:2", "1:3", "3:4"]


def in_process(setting: Setting) -> str:
    """Runs the parts of the worker and the server in this process, and returns the log."""
    nodes = {}
    for device, behaviour in BEHAVIOURS.items():
        os.environ["DAMPER_TEST_BEHAVIOUR"] = behaviour
        nodes[device] = node_of(Misbehaving(None, setting.device(device)))
    log = setting.folder / "log"
    logging.getLogger("flwr").addHandler(logging.FileHandler(log))
    rounds = Rounds(setting.device(1).plan, setting.model, setting.folder / "server", DAMPER)
    Server(rounds, wait=5.0, timeout=60.0).run(Grid(nodes))
    return log.read_text()


def by_flower(setting: Setting) -> str:
    """Runs Flower's processes, and returns the log of the server."""
    with Network(setting) as network:
        for device, behaviour in BEHAVIOURS.items():
            worker = [sys.executable, HERE / "misbehaving.py"]
            network.node(device, worker, DAMPER_TEST_BEHAVIOUR=behaviour)
        network.federate()
        network.until((setting.folder / "server" / f"model-{ROUNDS}.onnx").exists, "the last round is done")
        network.until(lambda: "budget is spent" in logs(network), "the server ended")
        return logs(network)


def logs(network: Network) -> str:
    """Returns the log of the server, which Flower stores."""
    from network import BIN

    listed = json.loads(run(BIN / "flwr", "ls", "test", "--format", "json", env=network.environment))
    number = listed["runs"][0]["run-id"]
    return run(BIN / "flwr", "log", number, "test", "--show", env=network.environment)


def main() -> None:
    """Runs the test."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", action="store_true", help="the digits, if MNIST is there too")
    parser.add_argument("--in-process", action="store_true", help="without SuperLink and SuperNodes: the parts alone")
    parser.add_argument("--keep", type=Path, help="a new folder for all files of the run, which stays")
    quiet()
    args = parser.parse_args()
    # If this process is stopped, it also stops its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as name:
        folder = args.keep or Path(name)
        folder.mkdir(exist_ok=True)
        setting = Setting(folder, DEVICES, ROUNDS, SMALLEST, args.digits)
        os.environ["DAMPER_TEST_OTHER"] = str(setting.planned("other.json", 1.0))
        begun = time.monotonic()
        log = in_process(setting) if args.in_process else by_flower(setting)
        seconds = time.monotonic() - begun
        check(setting, log)
        nodes = "workers in one process" if args.in_process else "SuperNodes"
        print(f"{ROUNDS} rounds of {DEVICES} {nodes} on {setting.model.stem}: the bits of a simulation, {seconds:.0f} s")


def check(setting: Setting, log: str) -> None:
    """Compares the results with the expected results."""
    server, said = setting.folder / "server", f"\n{log[-12000:]}"
    last = (server / f"model-{ROUNDS}.onnx").read_bytes()
    expect("budget is spent" in log, f"the server did not stop{said}")
    for words in (["round 2: node", "no update: "], ["round 1: left out", "node-"], ["round 3: left out", "node-"]):
        found = [line for line in log.splitlines() if all(word in line for word in words)]
        expect(len(found) == 1, f"{words}: {len(found)} lines{said}")
    expect(setting.charged(server) == ROUNDS, "the server's ledger")
    epsilon = json.loads(run(DAMPER, "epsilon", setting.plan, "--json"))
    for party, whole in epsilon["epsilon"].items():
        so_far = sorted({float(found) for found in re.findall(rf'"epsilon_{party}": ([0-9.]+)', log)})
        expect(len(so_far) == ROUNDS and so_far[-1] == whole, f"epsilon so far {so_far} for {party}, of all rounds {epsilon}")
    expect(epsilon["unit"] == "user", f"{epsilon}")
    expect(last == setting.simulate(ABSENT), f"other bits than one process{said}")
    expect(last != setting.model.read_bytes(), "the model did not move")
    for device in BEHAVIOURS:
        left = setting.left(device)
        # A round without a device costs that device nothing.
        charged = setting.charged(setting.of(device))
        expect(len(left) == ROUNDS and charged == ROUNDS - (device in (2, 3)), f"device {device}: {charged} rounds charged, {left}")
    expect([kind for kind, _ in setting.left(2)].count("refusal") == 1, "the refusal is not in left.log")


if __name__ == "__main__":
    main()
