"""A device's round: `damper federation update` turns a request of the server into an update, or the request is
rejected.

All settings are the owner's. The device reads only three things from a request: the digest of the plan, the number of
a round and the values of trained parameters. It reads no path, flag or program.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from logging import ERROR, INFO
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.supercore import log

from damper_flower import files
from damper_flower.command import Command
from damper_flower.plan import Plan
from damper_flower.runtime import Stopped
from damper_flower.wire import Malformed, params_from_array, update_to_array

# The only answer to a request without an update, for any reason. The reason may depend on rows.
REFUSAL = "this device made no update; its own log says why"
# Margin in seconds after the plan's delay before a reply is sent, in which the command ends.
MARGIN = 2.0
POLL = 0.2
# Keys of a request. The last two report the result of the previous update.
KEYS = {"federation": str, "round": int, "taken": bool, "taken_round": int}


class Late(Exception):
    """The command is still running at the end of the plan's delay."""

    def __init__(self) -> None:
        super().__init__("the update is not ready at the time at which the plan has replies leave; plan a longer delay")


@dataclass(frozen=True)
class Request:
    """A request of a server."""

    round: int
    params: bytes
    taken: bool | None = None
    taken_round: int | None = None


def read_request(plan: Plan, message: Message) -> Request:
    """Reads the request in a message of another party."""
    if message.metadata.message_type != MessageType.TRAIN:
        raise Malformed("a message of another type")
    if not message.has_content() or set(message.content) != {"arrays", "config"}:
        raise Malformed("other records")
    arrays, config = message.content["arrays"], message.content["config"]
    if not isinstance(arrays, ArrayRecord) or not isinstance(config, ConfigRecord):
        raise Malformed("records of other types")
    if set(arrays) != {"params"} or not {"federation", "round"} <= set(config) <= set(KEYS):
        raise Malformed("other keys")
    if any(type(config[key]) is not KEYS[key] for key in config):
        raise Malformed("values of other types")
    if config["federation"] != plan.digest:
        raise Malformed("another plan; the server and this device must have the same file")
    if not 0 <= config["round"] < plan.rounds:
        raise Malformed("a round that the plan has not")
    params = params_from_array(arrays["params"], plan.parameters)
    # Before the first round the server has no parameters to send.
    if len(params) != 4 * plan.parameters and (params or config["round"] > 0):
        raise Malformed("parameters of another number")
    return Request(config["round"], params, config.get("taken"), config.get("taken_round"))


@dataclass
class Device:
    """A device of a federation: its files and settings. `flags` are additional arguments of `damper federation update`.
    """

    plan: Plan
    model: Path
    data: str
    folder: Path
    number: int
    key: Path
    users: Path | None = None
    seed: int | None = None
    program: str = "damper"
    flags: tuple[str, ...] = ()

    @property
    def delay(self) -> float:
        """Seconds from the arrival of a request to each reply, including errors. 0 if the plan has no delay."""
        return self.plan.delay + MARGIN if self.plan.delay else 0.0

    def answer(self, message: Message, until: float | None, stopped: Callable[[float], bool]) -> tuple[int, bytes] | None:
        """Returns the round and the update for `message`, or None for any failure, which stays in this device's log.

        `until` is the time of the reply, by the monotonic clock. `stopped` waits for a number of seconds and returns
        True if the process must end.
        """
        try:
            request = read_request(self.plan, message)
            if request.taken is not None:
                log(INFO, "damper: round %s: the server says that this update was%s taken", request.taken_round, "" if request.taken else " not")
            return request.round, self.update(request, until, stopped)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001
            log(ERROR, "damper: no update: %s", error)
            return None

    def update(self, request: Request, until: float | None, stopped: Callable[[float], bool]) -> bytes:
        """Returns the bytes of the update. The command charges the round, and returns the stored bytes for the same
        request."""

        def give_up(seconds: float = POLL) -> bool:
            if stopped(seconds):
                raise Stopped
            if until is not None and time.monotonic() > until:
                raise Late
            return False

        # A command that another process left here must end first.
        lock = files.lock(files.folder(self.folder) / "lock", give_up)
        try:
            return self.made(request, give_up, lock)
        finally:
            os.close(lock)

    def made(self, request: Request, give_up: Callable[[float], bool], lock: int) -> bytes:
        """Returns the bytes of the update, under the lock of the folder."""
        out = self.folder / "update"
        args = ["federation", "update", self.plan.file, self.model, "--data", self.data, "--device", self.number, "--key", self.key]
        args += ["--round", request.round, "--ledger", self.folder / "ledger", "--out", out]
        if request.params:
            params = self.folder / "round.params"
            files.write(params, request.params)
            args += ["--params", params]
        args += ["--users", self.users] if self.users else []
        args += ["--seed", self.seed] if self.seed is not None else []
        command = Command(self.program, *args, *self.flags, lock=lock)
        while not command.ended(POLL):
            give_up(0.0)
        said = command.answer()
        update = out.read_bytes()
        if len(update) > self.plan.most_update:
            raise Malformed("the update is too large")
        again = ", as it was sent before" if said.get("resent") else ""
        log(INFO, "damper: round %s: an update of %s bytes%s", request.round, len(update), again)
        return update


def content(update: bytes) -> RecordDict:
    """Returns the content of a reply: one update."""
    return RecordDict({"arrays": ArrayRecord({"update": update_to_array(update)})})
