#!/usr/bin/env python3
"""Ten foreign apps on unmodified processes of Flower, next to an honest federation, which ends with the bits of a
simulation.

    DAMPER=target/release/damper python integrations/flower/tests/foreign.py [--apps 10] [--control]

`flwr run` starts each app, as the honest app. Its server requests everything from every node, and its client writes a
file when its code runs.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from common import Setting, expect, quiet
from damper_flower.device import REFUSAL
from foreign_apps import CANARY, WAYS, files
from network import Network

DEVICES, ROUNDS = 3, 5


def main() -> None:
    """Runs the test."""
    quiet()
    parser = argparse.ArgumentParser()
    parser.add_argument("--apps", type=int, default=len(WAYS))
    parser.add_argument("--control", action="store_true", help="one app on a SuperNode that runs apps: the canary must be written")
    parser.add_argument("--keep", type=Path, help="a new folder for all files of the run, which stays")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = args.keep or Path(name)
        folder.mkdir(exist_ok=True)
        setting = Setting(folder, DEVICES, ROUNDS, DEVICES)
        if args.control:
            control(setting)
            return
        replies = federate(setting, list(WAYS)[: args.apps])
        check(setting, replies, folder / CANARY)
    print(f"{args.apps} foreign apps beside a federation: {sum(map(len, replies))} refusals, no code ran, the bits of a simulation, "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip


def federate(setting: Setting, ways: list[str]) -> list[list[str]]:
    """Runs the honest app and the foreign apps on the same processes. Returns the replies to each foreign app."""
    digest = setting.device(1).plan.digest
    with Network(setting) as network:
        for device in range(1, DEVICES + 1):
            network.node(device, [sys.executable, "-m", "damper_flower.worker"])
        network.federate()
        outs = []
        for number, way in enumerate(ways, 1):
            outs.append(setting.folder / f"replies-{way}")
            project = network.folder / way
            for name, text in files(number, way, setting.folder / CANARY, outs[-1], digest).items():
                (project / name).parent.mkdir(parents=True, exist_ok=True)
                (project / name).write_text(text)
            expect(network.flwr("run", project, "test"), f"flwr run {way}\n{network.said()}")
            network.until(outs[-1].exists, f"the server of {way} has replies")
        network.until((setting.folder / "server" / f"model-{ROUNDS}.onnx").exists, "the last round is done")
        expect(not (network.home / "apps").exists(), "a node installed an app")
    return [json.loads(out.read_text()) for out in outs]


def control(setting: Setting) -> None:
    """A SuperNode that runs apps itself writes the canary."""
    with Network(setting) as network:
        network.node(1, None)
        project = network.folder / "import"
        for name, text in files(1, "import", setting.folder / CANARY, setting.folder / "replies", "").items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        expect(network.flwr("run", project, "test"), f"flwr run\n{network.said()}")
        network.until((setting.folder / CANARY).exists, "the canary of a SuperNode that runs apps")
        expect((network.home / "apps").exists(), "where nodes install apps")
    print("a SuperNode without a worker runs a foreign app")


def check(setting: Setting, replies: list[list[str]], canary: Path) -> None:
    """Compares the results with the expected results."""
    for found in replies:
        expect(len(found) == 4 * DEVICES and set(found) == {REFUSAL}, f"{found}")
    expect(not canary.exists(), "foreign code ran on a node")
    for device in range(1, DEVICES + 1):
        expect(setting.charged(setting.of(device)) == ROUNDS, f"device {device}'s ledger")
        refusals = [kind for kind, _ in setting.left(device)].count("refusal")
        expect(refusals == 4 * len(replies), f"device {device}: {refusals} refusals in left.log")
    last = (setting.folder / "server" / f"model-{ROUNDS}.onnx").read_bytes()
    expect(last == setting.simulate(), "other bits than one process")


if __name__ == "__main__":
    main()
