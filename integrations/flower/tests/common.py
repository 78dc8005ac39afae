"""Shared parts of the tests: devices with their own data, a plan with their keys, workers, and a grid in this process.
"""

import gzip
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))

from flwr.app import Message  # noqa: E402
from flwr.proto.message_pb2 import ObjectTree  # noqa: E402
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from damper_flower import objects  # noqa: E402
from damper_flower.device import Device  # noqa: E402
from damper_flower.plan import Plan  # noqa: E402
from damper_flower.worker import Worker  # noqa: E402

# Sender of these messages.
TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1

MNIST = ROOT.parent / "shared" / "data" / "mnist"
DIGITS = ROOT / "onnx-models" / "digits"
DAMPER = os.environ.get("DAMPER", str(ROOT / "target" / "release" / "damper"))
USERS, ROWS = 6, 8
# Flags for the same bits in every process.
FLAGS = ["--backend", "portable", "--workers", "1"]
SEED = 7


def run(*args: object, **more: object) -> str:
    """Runs a command that must succeed, and returns its standard output."""
    done = subprocess.run([*map(str, args)], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}\n{done.stdout}{done.stderr}")
    return done.stdout


def quiet() -> None:
    """Keeps Flower's log from the terminal, unless this process has --verbose."""
    if "--verbose" in sys.argv:
        sys.argv.remove("--verbose")
        return
    for handler in logging.getLogger("flwr").handlers:
        handler.setLevel(logging.CRITICAL + 1)


def expect(holds: bool, what: str) -> None:
    """Ends the test if a condition is false."""
    if not holds:
        sys.exit(what)


def idx(path: Path) -> np.ndarray:
    """Returns the array in an IDX file, gzipped or not."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    dims = [int.from_bytes(raw[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(dims)).reshape(dims)


class Setting:
    """A folder with a simulation of `devices`: their samples, users, keys and approvals, and the plan."""

    def __init__(self, folder: Path, devices: int, rounds: int, smallest: int, digits: bool = True, is_made: bool = False) -> None:
        self.folder, self.devices, self.rounds, self.smallest = folder, devices, rounds, smallest
        source, model = (MNIST, "mnist-cnn.onnx") if MNIST.is_dir() and not digits else (DIGITS, "digits-linear.onnx")
        self.model = ROOT / "onnx-models" / ("digits-linear.onnx" if source is DIGITS else model)
        self.plan = folder / "federation.json"
        if is_made:
            return
        images, labels = (idx(next(source.glob(f"train-{kind}-*"))) for kind in ("images", "labels"))
        for device in range(1, devices + 1):
            own = slice((device - 1) * USERS * ROWS, device * USERS * ROWS)
            x = (images[own] / 255.0).astype(np.float32)
            np.savez(folder / f"{device}.npz", x=x.reshape(len(x), 1, *x.shape[1:]), y=labels[own].astype(np.int64))
            (folder / f"{device}.users").write_text("".join(f"user-{row % USERS}\n" for row in range(len(x))))
        keys = [json.loads(run(DAMPER, "federation", "key", "--out", self.key(device), "--json")) for device in range(1, devices + 1)]
        (folder / "members").write_text("".join(f"{key['public']} device-{device}\n" for device, key in enumerate(keys, 1)))
        self.planned("federation.json", 0.5)

    def planned(self, name: str, clip: float, *more: object) -> Path:
        """Writes a plan for the devices' users, which their owners approve."""
        out = self.folder / name
        run(
            DAMPER, "federation", "plan", self.model, "--out", out, "--unit", "user", "--noise", "local", "--noise-multiplier", 1,
            "--sampling-rate", 0.5, "--rounds", self.rounds, "--members", self.folder / "members", "--smallest-cohort", self.smallest,
            "--batch-size", 3, "--clip", clip, "--local-steps", 3, "--local-lr", 0.1, "--local-batch", 4, "--delta", 1e-5, "--simulation", *more,
        )  # fmt: skip
        for device in range(1, self.devices + 1):
            self.approve(device, name)
        return out

    def approve(self, device: int, name: str = "federation.json") -> None:
        """Approves a plan as the owner of a device."""
        self.of(device, name).mkdir(mode=0o700)
        run(DAMPER, "federation", "approve", self.folder / name, "--ledger", self.of(device, name) / "ledger")

    def key(self, device: int) -> Path:
        """Returns a device's private key."""
        return self.folder / f"{device}.key"

    def of(self, device: int, plan: str = "federation.json") -> Path:
        """Returns a device's folder for a plan."""
        return self.folder / f"node-{device}{'' if plan == 'federation.json' else f'-{plan}'}"

    def device(self, number: int, plan: str = "federation.json") -> Device:
        """Returns a device."""
        return Device(
            Plan(self.folder / plan), self.model, f"npz:{self.folder / str(number)}.npz", self.of(number, plan), number, self.key(number),
            self.folder / f"{number}.users", SEED, DAMPER, tuple(FLAGS),
        )  # fmt: skip

    def worker(self, number: int) -> list[str]:
        """Returns a device's command line of damper-flower-worker."""
        device = self.device(number)
        named = {"plan": device.plan.file, "model": device.model, "data": device.data, "device": number, "key": device.key, "folder": device.folder}
        named |= {"users": device.users, "seed": SEED, "damper": DAMPER}
        return [word for name, value in named.items() for word in (f"--{name}", str(value))]

    def simulate(self, absent: Iterable[str] = ()) -> bytes:
        """Returns the last model of a simulation in one process."""
        out = self.folder / "simulated.onnx"
        left_out = [word for one in absent for word in ("--absent", one)]
        run(
            DAMPER, "federation", "simulate", self.plan, self.model, "--out", out, "--seed", SEED, "--data", f"npz:{self.folder}/{{device}}.npz",
            "--users", f"{self.folder}/{{device}}.users", *left_out, *FLAGS,
        )  # fmt: skip
        return out.read_bytes()

    def charged(self, folder: Path) -> int:
        """Returns the number of rounds that a ledger charges."""
        ledger = folder / "ledger" / "ledger.json"
        return json.loads(ledger.read_bytes())["ledger"]["paid"] if ledger.exists() else 0

    def left(self, device: int) -> list[tuple[str, str]]:
        """Returns the replies that left a device: for each, the round, or `refusal`, and the digest."""
        log = self.of(device) / "left.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(found[1], found[2]) for line in lines if (found := re.fullmatch(r"\S+ (round \d+|refusal) ([0-9a-f]{64}) \d+", line))]


def parts(message: Message) -> tuple[ObjectTree, dict[str, bytes]]:
    """Returns a message in Flower's format: the tree of its parts, and each part by its hash."""
    return get_object_tree(message), {name: part.deflate() for name, part in get_all_nested_objects(message).items()}


class Claim:
    """A task with a message, as seen by a worker, without a SuperNode."""

    def __init__(self, message: Message) -> None:
        self.head, self.given, self.ended = message, None, False
        self.tree, self.parts = parts(message)

    def message(self, most: int, _stopped: object) -> tuple[Message, Message | None]:
        """Returns the message, through the function that fetches it from a SuperNode."""
        try:
            return self.head, objects.fetch(self.tree, self.parts.__getitem__, most)
        except Exception:  # noqa: BLE001
            return self.head, None

    def reply(self, message: Message) -> None:
        """Takes the reply."""
        self.given = message

    def end(self) -> None:
        """Ends the task."""
        self.ended = True

    def drop(self) -> None:
        """Drops the task."""


def serve(worker: Worker, message: Message) -> Message:
    """Returns the worker's reply to a message."""
    claim = Claim(message)
    worker.serve(claim)
    expect(claim.ended and claim.given is not None, "the worker gave no reply")
    return claim.given


class Grid:
    """A grid in this process. Each node is a function from a message to the head, the tree and the parts of its reply.
    """

    def __init__(self, nodes: dict[int, Callable[[Message], tuple]]) -> None:
        self.nodes, self.sent = nodes, {}
        self._runtime_client = SimpleNamespace(
            PullMessages=self.pull, PullObject=self.object, ConfirmMessageReceived=lambda _: None
        )

    def get_node_ids(self) -> list[int]:
        """Returns all nodes."""
        return list(self.nodes)

    def push_messages(self, messages: list[Message]) -> list[str]:
        """Runs each node on its message."""
        names = []
        for message in messages:
            name = message.metadata.__dict__["_message_id"] = message.object_id
            self.sent[name] = self.nodes[message.metadata.dst_node_id](message)
            names.append(name)
        return names

    def pull(self, request: object) -> SimpleNamespace:
        """Returns the replies to the messages of a request, each once."""
        found = [self.sent[name] for name in request.message_ids if self.sent.get(name)]
        return SimpleNamespace(messages_list=[head for head, _, _ in found], message_object_trees=[tree for _, tree, _ in found])

    def object(self, request: object) -> SimpleNamespace:
        """Returns a part of a reply."""
        for _, _, held in filter(None, list(self.sent.values())):
            if request.object_id in held:
                return SimpleNamespace(object_found=True, object_available=True, object_content=held[request.object_id])
        return SimpleNamespace(object_found=False, object_available=False, object_content=b"")


def reply_of(message: Message) -> tuple:
    """Returns the head, the tree and the parts of a reply."""
    tree, held = parts(message)
    head = SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=message.metadata.reply_to_message_id, run_id=1))
    return head, tree, held


def node_of(worker: Worker) -> Callable[[Message], tuple]:
    """Returns a node of the grid with a worker."""
    return lambda message: reply_of(serve(worker, message))

