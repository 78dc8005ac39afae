#!/usr/bin/env python3
"""One SuperLink, four SuperNodes and five rounds on this machine, against a simulation in one process.

    DAMPER=target/release/damper python integrations/flower/tests/federation.py [--digits] [--in-process]

Device 1 sends its update of round 0 twice, device 2 leaves in round 2, device 3 lies about its configuration in round 1, device 4 sends the update
of round 2 again in round 3. The server is asked for a sixth round. Data: MNIST in ../shared/data, else the digits of onnx-models.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MNIST = ROOT.parent / "shared" / "data" / "mnist"
DAMPER = os.environ.get("DAMPER", str(ROOT / "target" / "release" / "damper"))
BIN = Path(sys.executable).parent
DEVICES, USERS, ROWS, ROUNDS = 4, 6, 8, 5
BEHAVIOURS = {1: "doubles:0", 2: "leaves:2", 3: "lies:1", 4: "replays:3"}
# A round and a device that its sum goes without.
ABSENT = ["2:2", "1:3", "3:4"]
# The same bits in every process.
FLAGS = ["--backend", "portable", "--workers", "1"]
# A busy machine takes long to start forty processes.
SECONDS = 400


def idx(path: Path) -> np.ndarray:
    """The array in an IDX file, gzipped or not."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    dims = [int.from_bytes(raw[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(dims)).reshape(dims)


def shards(folder: Path, digits: bool) -> Path:
    """Writes each device's samples and users; the model."""
    source, model = (MNIST, "mnist-cnn.onnx") if MNIST.is_dir() and not digits else (ROOT / "onnx-models/digits", "digits-linear.onnx")
    files = {kind: next(source.glob(f"train-{kind}-*")) for kind in ("images", "labels")}
    images, labels = idx(files["images"]), idx(files["labels"])
    scale = 255.0
    for device in range(1, DEVICES + 1):
        own = slice((device - 1) * USERS * ROWS, device * USERS * ROWS)
        x = (images[own] / scale).astype(np.float32)
        shape = (len(x), 1, *x.shape[1:])
        np.savez(folder / f"{device}.npz", x=x.reshape(shape), y=labels[own].astype(np.int64))
        (folder / f"{device}.users").write_text("".join(f"user-{row % USERS}\n" for row in range(len(x))))
    return ROOT / "onnx-models" / model


def run(*args: object, **more: object) -> str:
    """A command that must succeed; its standard output."""
    done = subprocess.run([*map(str, args)], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}\n{done.stdout}{done.stderr}")
    return done.stdout


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def plan(model: Path, out: Path, clip: float) -> None:
    """A simulation's plan for the devices' users."""
    run(
        DAMPER, "federation", "plan", model, "--out", out, "--unit", "user", "--noise", "local", "--noise-multiplier", 1,
        "--sampling-rate", 0.5, "--rounds", ROUNDS, "--devices", DEVICES, "--smallest-cohort", 3, "--batch-size", 3, "--clip", clip,
        "--local-steps", 3, "--local-lr", 0.1, "--local-batch", 4, "--delta", 1e-5, "--simulation",
    )  # fmt: skip


def app(folder: Path, settings: dict) -> Path:
    """The integration with the test's ClientApp, as a Flower app."""
    made = folder / "app"
    shutil.copytree(HERE.parent / "damper_flower", made / "damper_flower", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("misbehaving.py", "logged.py"):
        shutil.copy(HERE / name, made / "damper_flower")
    text = (HERE.parent / "pyproject.toml").read_text()
    text = text.replace("client_app:app", "misbehaving:app").replace("server_app:app", "logged:app")
    head, _ = text.split("[tool.flwr.app.config]")
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    (made / "pyproject.toml").write_text(f"{head}[tool.flwr.app.config]\n{lines}")
    return made


def federate(folder: Path, settings: dict) -> str:
    """Runs SuperLink, SuperNodes and the app until the server has said that the budget is spent; the log."""
    port, home = free_port(), folder / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "test"\n[superlink.test]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    environment = {
        **os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}", "DAMPER_FLOWER_LOG": str(folder / "server.log"),
    }  # fmt: skip
    log, said = folder / "log", folder / "server.log"
    said.touch()
    started = []
    with log.open("w") as out:
        def start(*args: object) -> None:
            started.append(subprocess.Popen([*map(str, args)], stdout=out, stderr=out, env=environment, cwd=folder))

        try:
            start(BIN / "flower-superlink", "--insecure", "--port", port, "--disable-runtime-dependency-installation")
            for device in BEHAVIOURS:
                config = " ".join(f"{key}={json.dumps(value)}" for key, value in node_config(folder, device, settings["model"]).items())
                start(
                    BIN / "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", free_port(),
                    "--node-config", config,
                )  # fmt: skip
            made = app(folder, settings)
            until = time.monotonic() + SECONDS
            while subprocess.run([BIN / "flwr", "run", made, "test"], stdout=out, stderr=out, env=environment, check=False).returncode:
                if time.monotonic() > until:
                    break
                time.sleep(1)
            while "Strategy execution finished" not in said.read_text() and time.monotonic() < until:
                if any(one.poll() is not None for one in started):
                    break
                time.sleep(0.5)
        finally:
            for one in reversed(started):
                one.terminate()
            for one in started:
                try:
                    one.wait(10)
                except subprocess.TimeoutExpired:
                    one.kill()
    # If the server said nothing, whatever else was said.
    return said.read_text() or log.read_text()


def in_process(folder: Path, settings: dict) -> str:
    """The app's ClientApps and its Strategy in this process, without Flower's processes; the log."""
    import logging

    sys.path.insert(0, str(app(folder, settings)))
    from damper_flower.misbehaving import app as client
    from damper_flower.strategy import Federation
    from flwr.app import Context, Error, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1

    class Nodes:
        """A grid that calls the ClientApps itself."""

        def get_node_ids(self) -> list[int]:
            return list(BEHAVIOURS)

        def send_and_receive(self, messages: list[Message], timeout: float) -> list[Message]:
            return [self.call(message) for message in messages]

        def call(self, message: Message) -> Message:
            device = message.metadata.dst_node_id
            context = Context(1, device, node_config(folder, device, settings["model"]), RecordDict(), {})
            try:
                return client(message, context)
            except RuntimeError as error:
                return Message(Error(code=1, reason=str(error)), reply_to=message)

    log = folder / "log"
    logging.getLogger("flwr").addHandler(logging.FileHandler(log))
    strategy = Federation(
        Path(settings["federation"]), Path(settings["model"]), Path(settings["folder"]), settings["damper"], settings["flags"]
    )
    strategy.start(Nodes(), strategy.newest(), num_rounds=settings["rounds"])
    return log.read_text()


def node_config(folder: Path, device: int, model: str) -> dict:
    """What a device's --node-config has."""
    return {
        "federation": str(folder / "federation.json"), "model": model, "other": str(folder / "other.json"), "device": device, "seed": 7,
        "data": f"npz:{folder / str(device)}.npz", "users": str(folder / f"{device}.users"), "folder": str(folder / f"node-{device}"),
        "flags": " ".join(FLAGS), "damper": DAMPER, "behaviour": BEHAVIOURS[device],
    }  # fmt: skip


def main() -> None:
    """The test."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", action="store_true", help="the digits, if MNIST is there too")
    parser.add_argument("--in-process", action="store_true", help="without SuperLink and SuperNodes: the app's parts alone")
    parser.add_argument("--keep", type=Path, help="a new folder for all files of the run, which stays")
    args = parser.parse_args()
    # Stopped, it takes its processes along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    refusals()
    with tempfile.TemporaryDirectory() as name:
        folder = args.keep or Path(name)
        folder.mkdir(exist_ok=True)
        model = shards(folder, args.digits)
        plan(model, folder / "federation.json", 0.5)
        plan(model, folder / "other.json", 1.0)
        settings = {
            "damper": DAMPER, "federation": str(folder / "federation.json"), "model": str(model), "folder": str(folder / "server"),
            "flags": "", "rounds": ROUNDS + 1, "wait": 300.0, "timeout": 600.0,
        }  # fmt: skip
        begun = time.monotonic()
        log = in_process(folder, settings) if args.in_process else federate(folder, settings)
        seconds = time.monotonic() - begun
        check(folder, model, log)
        nodes = "ClientApps in one process" if args.in_process else "SuperNodes"
        print(f"{ROUNDS} rounds of {DEVICES} {nodes} on {model.stem}: the bits of a simulation, {seconds:.0f} s")


def refusals() -> None:
    """What the server is told of a failure: one text, of whatever on the device."""
    sys.path.insert(0, str(HERE.parent))
    from damper_flower.client_app import answer

    told = set()
    for secret in ("row 7 (counted from 0): the label 'ill'", "column 'hiv' is missing"):
        def fail(_context: object, _message: object, secret: str = secret) -> None:
            raise ValueError(secret)

        try:
            answer(None, None, fail)
        except Exception as error:
            told.add((type(error).__name__, str(error), str(error.__cause__), str(error.__context__)))
    if len(told) != 1 or told.pop()[2:] != ("None", "None"):
        sys.exit("the server is told what is wrong on a device")
    check_approval()
    # The rounds import the app's own copy.
    sys.path.remove(str(HERE.parent))
    for module in [module for module in sys.modules if module.split(".")[0] == "damper_flower"]:
        del sys.modules[module]


def check_approval() -> None:
    """Flower's server reads updates, so shares of noise want the owner's word on both sides."""
    from damper_flower import approval

    for noise, approved, is_refused in [
        ("local", None, False), ("local", False, False), ("shares", None, True), ("shares", False, True), ("shares", "true", True), ("shares", True, False),
    ]:  # fmt: skip
        try:
            approval.check({"noise": noise}, approved)
            found = False
        except approval.NotApproved:
            found = True
        if found != is_refused:
            sys.exit(f"noise {noise}, approved {approved}: refused {found}")


def check(folder: Path, model: Path, log: str) -> None:
    """Compares what happened with what had to."""
    def expect(holds: bool, what: str) -> None:
        if not holds:
            sys.exit(f"{what}\n{log[-12000:]}")

    server = folder / "server"
    last = server / f"model-{ROUNDS}.onnx"
    expect(last.exists(), "the last round has no model")
    expect("budget is spent" in log, "the sixth round did not stop")
    for words in (
        ["added once", "node-"],
        ["no update: ", "round 2"],
        ["its run is", "federation.json"],
        ["its round is 2", "federation.json"],
    ):
        found = [line for line in log.splitlines() if all(word in line for word in words)]
        expect(len(found) == 1, f"{words}: {len(found)} lines")
    ledger = json.loads((server / "ledger" / "ledger.json").read_bytes())["ledger"]
    expect((ledger["paid"], ledger["budget"]) == (ROUNDS, ROUNDS), f"{ledger}")
    epsilon = json.loads(run(DAMPER, "epsilon", folder / "federation.json", "--json"))
    for party, whole in epsilon["epsilon"].items():
        so_far = sorted({float(found) for found in re.findall(rf"'epsilon_{party}': ([0-9.]+)", log)})
        expect(len(so_far) == ROUNDS and so_far[-1] == whole, f"epsilon so far {so_far} for {party}, of all rounds {epsilon}")
    expect(epsilon["unit"] == "user", f"{epsilon}")
    absent = [word for one in ABSENT for word in ("--absent", one)]
    run(
        DAMPER, "federation", "simulate", folder / "federation.json", model, "--out", folder / "simulated.onnx", "--seed", 7,
        "--data", f"npz:{folder}/{{device}}.npz", "--users", f"{folder}/{{device}}.users", *absent, *FLAGS,
    )  # fmt: skip
    expect(last.read_bytes() == (folder / "simulated.onnx").read_bytes(), "other bits than one process")
    expect(last.read_bytes() != model.read_bytes(), "the model did not move")


if __name__ == "__main__":
    main()
