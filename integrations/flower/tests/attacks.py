#!/usr/bin/env python3
"""A hostile server against devices and hostile devices against the server, in one process, with seeds.

    DAMPER=target/release/damper python integrations/flower/tests/attacks.py [--replies 1000]

1. A thousand fuzzed replies: no exception, and each round's sum is that of the honest updates.
2. A hundred crafted requests: one constant error, nothing charged, and the same log of replies for data that differ in
   one row.
3. Ten foreign apps and messages of all kinds through the Runtime API of an unmodified SuperNode. Result: one constant error,
   no code runs, and an honest request is answered.
"""

import argparse
import contextlib
import hashlib
import io
import logging
import os
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The folder in which Flower would install an app.
HOME = tempfile.mkdtemp()
os.environ["FLWR_HOME"] = HOME

import numpy as np  # noqa: E402
from common import DAMPER, Grid, Setting, expect, node_of, parts, quiet, run, serve  # noqa: E402
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.proto.message_pb2 import ObjectTree  # noqa: E402
from foreign_apps import CANARY, WAYS, fab, files  # noqa: E402
from fuzzer import Fuzzer  # noqa: E402

from damper_flower import worker as worker_module  # noqa: E402
from damper_flower.device import REFUSAL  # noqa: E402
from damper_flower.plan import PlanError  # noqa: E402
from damper_flower.rounds import Rounds, SmallCohort  # noqa: E402
from damper_flower.server import Server, read_update  # noqa: E402
from damper_flower.wire import params_to_array  # noqa: E402
from damper_flower.worker import Worker, build  # noqa: E402

REQUESTS, ROUNDS, HONEST = 100, 5, 3


def settings(folder: Path) -> None:
    """Plans that Flower does not support, and invalid flags of a worker."""
    setting = Setting(folder, HONEST, ROUNDS, HONEST)
    plan = setting.device(1).plan
    for changed, approved, words in [
        ({}, False, None), ({}, True, None), ({"members": []}, True, "no members"), ({"members": None}, True, "no members"),
        ({"aggregation": "prio"}, True, "two aggregators"), ({"noise": "shares"}, False, "approve it"), ({"noise": "shares"}, True, None),
        ({"noise": "other"}, False, "approve it"),
    ]:  # fmt: skip
        plan.content = {**plan.content, "noise": "local", "aggregation": "clear", "members": [{}], **changed}
        try:
            plan.check(approved)
            found = None
        except PlanError as error:
            found = str(error)
        expect((words is None) == (found is None) and (words or "") in (found or ""), f"{changed}, approved {approved}: {found}")
    (folder / "empty").write_bytes(b"")
    good = setting.worker(1)
    for flags, words in [
        ([*good, "--runtime", "10.0.0.1:9094"], "by TLS alone"), ([*good, "--plan", folder / "1.npz"], "no plan of a federation"),
        ([*good, "--key", folder / "none"], "No such file"), ([*good, "--superexec-auth-secret-file", folder / "empty"], "it is empty"),
        (good[:-2][2:], "--plan"), ([*good, "--node-config", "data=1"], "unrecognized arguments"),
    ]:  # fmt: skip
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                build([*map(str, flags)])
            found = ""
        except SystemExit:
            found = said.getvalue()
        expect(words in found, f"{flags}: {found}")
    worker = build([*good, "--", "--max-epsilon", "3"])
    expect(worker.device.flags == ("--max-epsilon", "3"), f"{worker.device}")
    print("plans and flags that are refused")


def cohorts(folder: Path) -> None:
    """A round with too few updates is not charged. A fixed cohort stays, whatever comes after it. Repeated calls have
    no further effect."""
    setting = Setting(folder, HONEST + 1, ROUNDS, HONEST)
    rounds = Rounds(setting.device(1).plan, setting.model, folder / "server", DAMPER)
    asked = request(rounds.plan.digest, 0, params_to_array(b""))

    def keep(device: int) -> None:
        reply = serve(Worker(None, setting.device(device)), asked)
        rounds.keep(0, device, read_update(reply, rounds.plan.most_update))

    def small(is_judged: bool) -> None:
        try:
            rounds.add(0)
            sys.exit("a small cohort is added")
        except SmallCohort as error:
            expect(error.is_judged is is_judged, str(error))
        expect(setting.charged(folder / "server") == 0 and not rounds.is_closed(0), "a small cohort is charged")

    keep(1)
    keep(2)
    small(is_judged=False)
    rounds.keep(0, 3, b"no update")
    small(is_judged=True)
    keep(3)
    first, total = rounds.add(0), rounds.sum(0).read_bytes()
    # Stopped before it could write the result, and a late update.
    (rounds.of(0) / "result.json").unlink()
    keep(4)
    again = rounds.add(0)
    expect(first == again and first["devices"] == HONEST and total == rounds.sum(0).read_bytes(), f"{first}, then {again}")
    expect(rounds.taken(0) == dict.fromkeys((1, 2, 3), True), f"{rounds.taken(0)}")
    expect(rounds.next() == 0, "the round is done before the model moved")
    rounds.move(0)
    made = rounds.params(1).read_bytes()
    rounds.move(0)
    expect(rounds.next() == 1 and made == rounds.params(1).read_bytes() and setting.charged(folder / "server") == 1, "a round is done twice")
    # A round that is given up: the next starts with the same parameters.
    rounds.skip(1)
    expect(rounds.next() == 2 and rounds.begins(2) == rounds.params(1) == rounds.begins(1), "a round that is given up")
    fresh = Rounds(rounds.plan, setting.model, folder / "fresh", DAMPER)
    fresh.skip(0)
    words = np.frombuffer(fresh.begins(1).read_bytes(), "<f4")
    expect(fresh.next() == 1 and len(words) == rounds.plan.parameters and np.isfinite(words).all(), "the first round is given up")
    print("cohorts are fixed, and too small ones are not charged")


# ------------------------------------------------------------------------------------------------ replies


def replies(folder: Path, count: int) -> None:
    """Fuzzed replies of `count` nodes over all rounds, next to three honest nodes."""
    setting = Setting(folder, HONEST, ROUNDS, HONEST)
    fuzzer = Fuzzer(1, folder / CANARY)
    nodes: dict[int, object] = {}
    honest = {10 * number: node_of(Worker(None, setting.device(number))) for number in range(1, HONEST + 1)}

    def node(number: int) -> object:
        def answer(message: Message) -> tuple:
            made = honest[number](message)
            if number == 10:
                fuzzer.honest = (setting.of(1) / "update").read_bytes()
            return made

        return answer if number in honest else fuzzer.reply

    # Honest nodes in the middle: later nodes copy their updates.
    for number in range(1, count // ROUNDS + HONEST + 1):
        nodes[number] = node(number)
    log = Lines()
    Server(Rounds(setting.device(1).plan, setting.model, folder / "server", DAMPER), wait=1.0, timeout=60.0, attempts=1).run(Grid(nodes))
    expect(fuzzer.made == count, f"{fuzzer.made} replies")
    for round_ in range(ROUNDS):
        kept = [folder / "server" / f"round-{round_}" / f"node-{number}.upd" for number in honest]
        own, alone = folder / "server" / f"{round_}.sum", folder / f"alone-{round_}.sum"
        args = ["--federation", setting.plan, "--round", round_, "--ledger", folder / f"alone-{round_}", "--out", alone, "--json"]
        run(DAMPER, "aggregate", *kept, *args, *(["--params", folder / "server" / f"{round_}.params"] if round_ else []))
        expect(own.read_bytes() == alone.read_bytes(), f"round {round_}: the sum is not that of the honest updates")
        named = {number for number in nodes if any(f"round {round_}" in line and f"node {number}:" in line for line in log.lines)}
        named |= {number for number in nodes if any(f"round {round_}: left out" in line and f"node-{number}.upd" in line for line in log.lines)}
        expect(len(named - set(honest)) >= (len(nodes) - len(honest)) * 3 // 4, f"round {round_}: {len(named)} of {len(nodes)} nodes are named")
    expect(all("\n" not in line and len(line) < 600 for line in log.lines), "a line of the log is another party's")
    expect((folder / "server" / f"model-{ROUNDS}.onnx").read_bytes() == setting.simulate(), "other bits than one process")
    expect(not (folder / CANARY).exists(), "code ran")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    expect(megabytes < 700, f"{megabytes} MB")
    print(f"{count} fuzzed replies: no exception, {ROUNDS} sums of the honest updates alone")


class Lines(logging.Handler):
    """Collects log messages."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        logging.getLogger("flwr").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Stores a message."""
        self.lines.append(record.getMessage())


# ------------------------------------------------------------------------------------------------ requests


def request(plan: str, round_: object, params: Array, more: dict | None = None, kind: str = "train", **records: object) -> Message:
    """Returns a request with arbitrary content."""
    config = ConfigRecord({"round": round_, "federation": plan, **(more or {})})
    content = RecordDict({"arrays": ArrayRecord({"params": params}), "config": config, **records})
    return Message(content, dst_node_id=1, message_type=kind)


def crafted(setting: Setting, canary: Path, seed: int) -> list[Message]:
    """Returns a hundred requests that no honest server sends."""
    plan = setting.device(1).plan
    fuzzer, chance = Fuzzer(seed, canary), random.Random(seed)
    of, size = plan.digest, plan.parameters
    good, none = params_to_array(np.zeros(size, "<f4").tobytes()), params_to_array(b"")

    def values(changed: object) -> Array:
        made = np.zeros(size, "<f4")
        made[chance.randrange(size)] = changed
        return params_to_array(made.tobytes())

    made = [request(of, 0, values(bad)) for bad in (np.nan, np.inf, -np.inf)]
    made += [request(of, round_, none) for round_ in (1, 4)]
    made += [request(of, round_, good) for round_ in (-1, 5, 2**31, 2**32, 2**62, True, 0.0, "0", b"0", [0], "0; touch canary")]
    made += [request(other, 0, none) for other in ("", "0" * 64, of.upper(), of[:-1], f"{of} ", 7, [of], of.encode())]
    made += [request(of, 0, params_to_array(bytes(4 * count))) for count in (1, size - 1, size + 1, 2 * size)]
    made += [request(of, 0, none, more) for more in (
        {"damper": f"touch {canary}"}, {"flags": "--help"}, {"model": "/etc/passwd"}, {"data": "npz:/etc/passwd"}, {"folder": "/tmp"}, {"seed": 1},
        {"device": 2}, {"key": "/etc/passwd"}, {"taken": 1}, {"taken": [True]}, {"taken_round": "0"}, {"x" * 9999: "y" * 99999},
    )]  # fmt: skip
    made += [request(of, 0, none, kind=kind) for kind in ("evaluate", "query", "train.other", "evaluate.x", "query.y")]
    made += [request(of, 0, none, other=record) for record in (ConfigRecord(), MetricRecord({"a": 1.0}), ArrayRecord())]
    array, config = ArrayRecord({"params": none}), ConfigRecord({"round": 0, "federation": of})
    contents = [
        {}, {"arrays": array}, {"config": config}, {"arrays": config, "config": config}, {"arrays": array, "config": array},
        {"arrays": ArrayRecord({"a": none}), "config": config}, {"arrays": ArrayRecord({"params": none, "more": good}), "config": config},
        {"arrays": ArrayRecord(), "config": config}, {"arrays": array, "config": ConfigRecord()}, {"arrays": MetricRecord({"params": 1}), "config": config},
    ]  # fmt: skip
    made += [Message(RecordDict(content), 1, "train") for content in contents]
    made += [Message(RecordDict(), 1, kind) for kind in ("train", "query")]
    made += [request(of, 0, fuzzer.array(chance.choice([good, none]))) for _ in range(REQUESTS - len(made))]
    return made[:REQUESTS]


def requests(folder: Path) -> None:
    """Crafted requests to the workers of devices with data that differ in one row."""
    setting = Setting(folder, HONEST, ROUNDS, HONEST)
    canary = folder / CANARY
    with np.load(folder / "1.npz") as own:
        changed = {name: own[name].copy() for name in ("x", "y")}
    changed["x"][3], changed["y"][3] = changed["x"][3] * 0 + 1, (changed["y"][3] + 1) % 10
    asked = crafted(setting, canary, 2)
    expect(len(asked) == REQUESTS, f"{len(asked)} requests")
    transcripts = []
    for _ in range(2):
        worker = Worker(None, setting.device(1))
        for number, message in enumerate(asked):
            reply = serve(worker, message)
            expect(reply.has_error() and not reply.has_content(), f"request {number} is answered")
            expect((reply.error.code, reply.error.reason) == (2, REFUSAL), f"request {number}: {reply.error}")
        expect(setting.charged(setting.of(1)) == 0, "a round is charged")
        expect([kind for kind, _ in setting.left(1)] == ["refusal"] * REQUESTS, "left.log is not that of refusals")
        transcripts.append(setting.left(1))
        honest = serve(worker, request(worker.device.plan.digest, 0, params_to_array(b"")))
        expect(honest.has_content() and set(honest.content) == {"arrays"}, "the honest request is not answered")
        expect(setting.charged(setting.of(1)) == 1, "the honest request is not charged")
        again = serve(worker, request(worker.device.plan.digest, 0, params_to_array(b"")))
        expect(again.content == honest.content, "an update is sent twice with other bytes")
        # Two workers on one folder, as after a stop that left a command.
        for round_ in range(1, ROUNDS):
            asked_twice = request(worker.device.plan.digest, round_, params_to_array(bytes(4 * worker.device.plan.parameters)))
            with ThreadPoolExecutor(2) as pool:
                both = list(pool.map(serve, [Worker(None, setting.device(1)), worker], [asked_twice] * 2))
            expect(all(reply.has_content() for reply in both) and both[0].content == both[1].content, f"round {round_}: two updates")
        # The other data set starts again.
        np.savez(folder / "1.npz", **changed)
        shutil.rmtree(setting.of(1))
        setting.approve(1)
    expect(transcripts[0] == transcripts[1], "the transcripts depend on a row")
    expect(not canary.exists(), "code ran")
    print(f"{REQUESTS} crafted requests: one refusal, nothing charged")


# ------------------------------------------------------------------------------------------------ apps


class Node:
    """The Runtime API of an unmodified SuperNode, and the function by which a SuperNode receives messages."""

    def __init__(self, secret: bytes) -> None:
        import uvicorn
        from flwr.supercore.object_store import ObjectStoreFactory
        from flwr.supernode.main import create_app
        from flwr.supernode.nodestate import NodeStateFactory
        from network import free_port

        self.port = free_port()
        factory = NodeStateFactory(objectstore_factory=ObjectStoreFactory())
        self.state, self.store = factory.state(), factory.objectstore_factory.store()
        self.state.set_node_id(1)
        config = uvicorn.Config(create_app(factory, secret), host="127.0.0.1", port=self.port, log_level="error")
        self.server = uvicorn.Server(config)
        self.server.install_signal_handlers = lambda: None
        threading.Thread(target=self.server.run, daemon=True).start()
        while not self.server.started:
            time.sleep(0.05)

    def ask(self, message: Message, run_id: int, app: bytes, kind: str, is_stopped: bool = False, is_slow: bool = False) -> Message | None:
        """Returns the reply to a message of a run with the app `app`. None for a run that is stopped before the node
        has all parts."""
        from flwr.supercore.fab import Fab
        from flwr.supercore.run import Run, RunNotRunningException
        from flwr.supernode.start_client_internal import _pull_and_store_message

        def pull(_: int, name: str) -> bytes:
            if is_stopped:
                raise RunNotRunningException
            return held[name]

        class Slow:
            """A store that receives each part slowly. A huge message has many parts."""

            preregister, delete = self.store.preregister, self.store.delete

            def put(_, name: str, content: bytes) -> None:
                time.sleep(0.5)
                self.store.put(name, content)

        message.metadata.__dict__.update(_run_id=run_id, _src_node_id=1, _dst_node_id=1)
        message.metadata.__dict__["_message_id"] = message.object_id
        tree, held = parts(message)
        fab_hash = hashlib.sha256(app).hexdigest()
        of_run = Run.create_empty(run_id)
        of_run.fab_id, of_run.fab_version, of_run.fab_hash, of_run.series_id, of_run.primary_task_type = "a/b", "1.0.0", fab_hash, run_id, kind
        head = Message(RecordDict(), 1, message.metadata.message_type)
        head.metadata.__dict__.update(message.metadata.__dict__)
        _pull_and_store_message(
            self.state, Slow() if is_slow else self.store, {}, lambda: (head, tree), lambda _: of_run, lambda *_: Fab(fab_hash, app, {}),
            pull, lambda *_: None, None,
        )  # fmt: skip
        if is_stopped:
            return None
        expect(not self.state.get_messages_legacy(is_reply=True), "a reply before the node has all parts") if is_slow else None
        until = time.monotonic() + 60
        while not (found := self.state.get_messages_legacy(is_reply=True)):
            expect(time.monotonic() < until, "the worker does not reply")
            time.sleep(0.02)
        (reply,) = found
        duration = self.state.get_message_processing_duration(reply.metadata.reply_to_message_id)
        if not reply.has_error():
            tree = self.store.get_object_tree(reply.metadata.message_id)
            while any(self.store.get(node.object_id) == b"" for node in walk(tree)):
                time.sleep(0.02)
        self.state.delete_messages(message_ids=[reply.metadata.message_id, reply.metadata.reply_to_message_id])
        reply.__dict__["duration"] = duration
        return reply


def walk(tree: ObjectTree) -> list[ObjectTree]:
    """Returns all nodes of a tree."""
    return [tree, *(one for child in tree.children for one in walk(child))]


def apps(folder: Path) -> None:
    """Foreign apps and messages of all kinds, through the Runtime API, with an honest request of another app."""
    from damper_flower.runtime import Runtime

    setting = Setting(folder, HONEST, ROUNDS, HONEST)
    canary = folder / CANARY
    device = setting.device(1)
    secret = os.urandom(32)
    node = Node(secret)
    worker = Worker(Runtime(f"127.0.0.1:{node.port}", None, secret), device)
    worker_module.POLL = 0.02
    running = threading.Thread(target=worker.run)
    running.start()
    asked = 0
    try:
        for number, way in enumerate(WAYS, 1):
            app = fab(files(number, way, canary, folder / "out", device.plan.digest))
            for kind in ("query", "evaluate", "train.other", "train"):
                more = {"damper": f"touch {canary}"} if kind == "train" else {}
                message = request(device.plan.digest, 0, params_to_array(b""), more, kind)
                reply = node.ask(message, number, app, "flwr-agentapp" if way == "train" else "flwr-serverapp")
                expect(reply.has_error() and reply.error.reason == REFUSAL, f"{way}, {kind}: {reply}")
                asked += 1
        huge = node.ask(request(device.plan.digest, 0, params_to_array(bytes(12_000_000))), 51, app, "flwr-serverapp", is_slow=True)
        expect(huge.has_error() and huge.error.reason == REFUSAL, "a huge request is not refused")
        expect(setting.charged(setting.of(1)) == 0, "a round is charged")
        # A SuperNode drops the task of such a message, and continues with the next.
        node.ask(request(device.plan.digest, 4, params_to_array(b"")), 50, app, "flwr-serverapp", is_stopped=True)
        time.sleep(1.0)
        honest = node.ask(request(device.plan.digest, 0, params_to_array(b"")), 99, fab(files(99, "import", canary, folder / "out", "")), "flwr-serverapp")
        expect(not honest.has_error(), "the honest request is not answered")
        expect(setting.charged(setting.of(1)) == 1, "the honest request is not charged")
        tokenless = Worker(Runtime(f"127.0.0.1:{node.port}", None, b"another secret"), device)
        try:
            tokenless.runtime.claim()
            sys.exit("a process without the secret claims tasks")
        except Exception as error:  # noqa: BLE001
            expect("401" in str(error), str(error))
        delayed(setting, node, secret, worker, running)
    finally:
        worker.stop()
        running.join(30)
        node.server.should_exit = True
    expect(not running.is_alive(), "the worker does not end")
    expect(not canary.exists() and not any(Path(HOME).iterdir()), "an app was installed or run")
    print(f"{len(WAYS)} foreign apps, {asked} messages through a SuperNode's Runtime API: one refusal, no code ran")


def delayed(setting: Setting, node: Node, secret: bytes, worker: Worker, running: threading.Thread) -> None:
    """With a delay in the plan, updates and errors take the same time by the SuperNode's own clock."""
    from damper_flower.runtime import Runtime

    worker.stop()
    running.join(30)
    setting.planned("slow.json", 0.5, "--reply-seconds", 1)
    device = setting.device(1, "slow.json")
    slow = Worker(Runtime(f"127.0.0.1:{node.port}", None, secret), device)
    thread = threading.Thread(target=slow.run)
    thread.start()
    try:
        app = fab(files(98, "import", setting.folder / CANARY, setting.folder / "out", ""))
        replies = []
        for message in (
            request(device.plan.digest, 0, params_to_array(b"")), request(device.plan.digest, 0, params_to_array(b""), {"x": 1}),
            request(device.plan.digest, 0, params_to_array(b""), kind="query"),
        ):  # fmt: skip
            replies.append(node.ask(message, 98, app, "flwr-serverapp"))
        took = [reply.__dict__["duration"] for reply in replies]
        expect([reply.has_error() for reply in replies] == [False, True, True], "the honest request alone is answered")
        expect(all(abs(seconds - device.delay) < 0.25 for seconds in took), f"replies took {took} s, not {device.delay}")
    finally:
        slow.stop()
        thread.join(30)


def main() -> None:
    """Runs all tests."""
    quiet()
    parser = argparse.ArgumentParser()
    parser.add_argument("--replies", type=int, default=1000, help="fuzzed replies, 150 or more, a multiple of five")
    count = parser.parse_args().replies
    for part in (settings, cohorts, lambda folder: replies(folder, count), requests, apps):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            part(Path(name))
        print(f"  {time.monotonic() - begun:.0f} s")
    shutil.rmtree(HOME)


if __name__ == "__main__":
    main()
