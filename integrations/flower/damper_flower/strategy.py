"""The Strategy: asks the devices for a round's updates, has `damper aggregate` charge the round and add them, and moves the model."""

import hashlib
import json
import shlex
import time
from collections.abc import Iterable
from logging import INFO, WARN
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from damper_flower import approval
from damper_flower.command import Refused, damper
from damper_flower.wire import params_from_array, params_to_array, update_from_array


class Federation(Strategy):
    """Rounds of a plan that `damper federation plan` wrote.

    `model` is the plan's. `folder` is the server's: its ledger, each round's updates, sum and trained parameters, and the models. A run that stopped goes on from there. Devices that fail,
    that answer with something else, or whose update does not fit the plan are named in the log, and the others are added.
    """

    def __init__(
        self,
        plan: Path,
        model: Path,
        folder: Path,
        program: str = "damper",
        flags: str = "",
        wait: float = 60.0,
        approve_shares: bool = False,
    ) -> None:
        self.plan, self.model, self.folder, self.program, self.flags = plan, model, folder, program, shlex.split(flags)
        self.digest = hashlib.sha256(plan.read_bytes()).hexdigest()
        self.settings = json.loads(plan.read_bytes())["federation"]
        approval.check(self.settings, approve_shares)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.first = self.charged()
        self.wait = wait
        self.asked = ""

    def charged(self) -> int:
        """Rounds that the server's ledger counts."""
        ledger = self.folder / "ledger" / "ledger.json"
        return json.loads(ledger.read_bytes())["ledger"]["paid"] if ledger.exists() else 0

    def newest(self) -> ArrayRecord:
        """The trained parameters to go on with: the newest that a round made; none before the first, which begins with the model's."""
        made = [round_ for round_ in range(self.first + 1) if self.params(round_).exists()]
        return ArrayRecord({"params": params_to_array(self.params(made[-1]).read_bytes() if made else b"")})

    def params(self, round_: int) -> Path:
        """The file of the trained parameters with which `round_` begins."""
        return self.folder / f"{round_}.params"

    def moved(self, round_: int) -> Path:
        """The file of the model with these parameters."""
        return self.folder / f"model-{round_}.onnx"

    def summary(self) -> None:
        """Says what is run."""
        plan = self.settings
        log(INFO, "\tdamper: %s of %s rounds are charged, the unit is a %s", self.first, plan["rounds"], plan["unit"])

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Asks all devices; none once the budget is spent."""
        round_ = self.first + server_round - 1
        if round_ >= self.settings["rounds"]:
            return []
        asked = ConfigRecord({**config, "round": round_, "federation": self.digest})
        sent = params_from_array(arrays["params"])
        self.asked = hashlib.sha256(sent).hexdigest()
        if sent:
            self.params(round_).write_bytes(sent)
        content = RecordDict({"arrays": arrays, "config": asked})
        return [Message(content, dst_node_id=node, message_type=MessageType.TRAIN) for node in self.nodes(grid)]

    def nodes(self, grid: Grid) -> list[int]:
        """The nodes that are there, once they are as many as the plan's devices or `wait` seconds are over."""
        until = time.monotonic() + self.wait
        while len(nodes := sorted(grid.get_node_ids())) < self.settings["devices"] and time.monotonic() < until:
            time.sleep(0.5)
        return nodes

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Adds what fits. The round is charged, on the disk, before the model moves."""
        round_ = self.first + server_round - 1
        if round_ >= self.settings["rounds"]:
            log(WARN, "damper: the budget is spent: all %s rounds of the plan are charged", self.settings["rounds"])
            return None, MetricRecord({"budget_spent": 1})
        files, refused = self.receive(round_, replies)
        # With no update the round is charged all the same: whatever devices sent may have been read on its way.
        paths = files or [self.write(round_, "none.upd", b"")]
        total = self.folder / f"{round_}.sum"
        args = ["--federation", self.plan, "--round", round_, "--ledger", self.folder / "ledger", "--out", total]
        try:
            found = damper(self.program, "aggregate", *paths, *args)
        except Refused as error:
            log(WARN, "damper: round %s: %s", round_, error)
            return None, MetricRecord({"accepted": 0, "rounds_charged": self.charged()})
        for one in found.get("refused", []):
            log(WARN, "damper: round %s: %s", round_, one["reason"])
        next_ = self.params(round_ + 1)
        apply = ["federation", "apply", self.plan, self.model, "--sum", total, "--out-params", next_, "--out", self.moved(round_ + 1)]
        apply += ["--params", self.params(round_)] if self.params(round_).exists() else []
        damper(self.program, *apply, *self.flags)
        metrics = {
            "accepted": found["devices"],
            "refused": refused + len(found.get("refused", [])),
            **{f"epsilon_{party}": epsilon for party, epsilon in found["epsilon"].items() if epsilon is not None},
            "delta": found["delta"],
            "rounds_charged": found["rounds_charged"],
        }
        return ArrayRecord({"params": params_to_array(next_.read_bytes())}), MetricRecord(metrics)

    def receive(self, round_: int, replies: Iterable[Message]) -> tuple[list[Path], int]:
        """Writes the updates of the replies to files named by node; the files, and how many replies had none that fits."""
        files: list[Path] = []
        refused = 0
        for message in sorted(replies, key=lambda message: message.metadata.src_node_id):
            node = message.metadata.src_node_id
            if message.has_error():
                log(WARN, "damper: round %s: node %s: no update: %s", round_, node, message.error.reason)
                refused += 1
                continue
            try:
                params = message.content["config"]["params"]
                arrays = [array for name, array in message.content["arrays"].items() if name.startswith("update")]
            except KeyError as error:
                log(WARN, "damper: round %s: node %s: no update: its reply has no %s", round_, node, error)
                refused += 1
                continue
            if params != self.asked:
                log(WARN, "damper: round %s: node %s: its update is of other parameters; left out", round_, node)
                refused += 1
                continue
            for number, array in enumerate(arrays):
                name = f"node-{node}{f'-{number}' if number else ''}.upd"
                files.append(self.write(round_, name, update_from_array(array)))
        return files, refused

    def write(self, round_: int, name: str, update: bytes) -> Path:
        """Writes an update to the round's folder."""
        folder = self.folder / f"round-{round_}"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / name).write_bytes(update)
        return folder / name

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Asks nobody: figures of devices' samples would have to be paid for."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """There is nothing."""
        return None
