#!/usr/bin/env python3
"""Flower's own processes, stopped and restarted over six rounds, against an uninterrupted simulation.

    DAMPER=target/release/damper python integrations/flower/tests/restarts.py

A worker is killed, another ends by SIGTERM, a SuperNode is killed, and the ServerApp is killed and restarted by
`flwr run`. All devices must be in all sums.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from common import Setting, expect, quiet
from network import Network
from stops import commands, kill

DEVICES, ROUNDS = 3, 6


def main() -> None:
    """Runs the test."""
    quiet()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=Path, help="a new folder for all files of the run, which stays")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = args.keep or Path(name)
        folder.mkdir(exist_ok=True)
        setting = Setting(folder, DEVICES, ROUNDS, DEVICES)
        federate(setting)
        last = (setting.folder / "server" / f"model-{ROUNDS}.onnx").read_bytes()
        expect(last == setting.simulate(), "other bits than one process")
        for device in range(1, DEVICES + 1):
            sent = {one for one in setting.left(device) if one[0] != "refusal"}
            expect(len(sent) == ROUNDS == setting.charged(setting.of(device)), f"device {device}: {sent}")
    print(f"a worker, a SuperNode and a server stopped in {ROUNDS} rounds: the bits of a simulation, {time.monotonic() - begun:.0f} s")


def federate(setting: Setting) -> None:
    """Runs the federation with its stops."""
    server = setting.folder / "server"
    worker = [sys.executable, "-m", "damper_flower.worker"]
    with Network(setting) as network:
        for device in range(1, DEVICES + 1):
            network.node(device, worker)
        network.federate(timeout=30.0, wait=30.0)

        def begins(round_: int) -> None:
            network.until((server / f"{round_}.params").exists, f"round {round_} begins")

        begins(1)
        network.again("worker 1", signal.SIGKILL)
        begins(2)
        expect(network.again("worker 2", signal.SIGTERM) == 0, "a worker that is told to end fails")
        begins(3)
        network.again("node 3", signal.SIGKILL)
        begins(4)
        superlink = network.started["superlink"].pid
        killed = [one for one in commands(superlink) if b"flwr-serverapp" in Path(f"/proc/{one}/cmdline").read_bytes()]
        expect(bool(killed), "there is a ServerApp")
        for one in killed:
            kill(one)
        network.federate(timeout=30.0, wait=30.0)
        network.until((server / f"model-{ROUNDS}.onnx").exists, "the last round is done")


if __name__ == "__main__":
    main()
