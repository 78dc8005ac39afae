"""The ClientApp: a device's round.

Its --node-config has `federation` and `model` (the device's own copies of the plan and its model), `device` (its number, from 1), `data` (KIND:PATH), `folder`
(private: the ledger and the updates that were sent), and if needed `users`, `seed` (of a simulation), `flags` (more flags of `damper federation update`),
`approve_shares` (true: the owner lets the server read updates whose noise is a share) and `damper` (the command).
"""

import hashlib
import json
import shlex
from collections.abc import Callable
from logging import ERROR
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from damper_flower import approval
from damper_flower.command import damper
from damper_flower.wire import params_from_array, update_to_array

app = ClientApp()


def plan_digest(plan: Path) -> str:
    """SHA-256 of a plan's file."""
    return hashlib.sha256(plan.read_bytes()).hexdigest()


def make_update(context: Context, message: Message) -> tuple[bytes, dict]:
    """The update of the round that the server asks for, and what `damper` says of it."""
    node, asked = context.node_config, message.content["config"]
    plan, folder = Path(str(node["federation"])), Path(str(node["folder"]))
    if asked["federation"] != plan_digest(plan):
        raise ValueError(f"the server's plan is not {plan}; both must have the same, and nothing was computed")
    approval.check(json.loads(plan.read_bytes())["federation"], node.get("approve_shares"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    round_ = int(asked["round"])
    out, sent = folder / f"{round_}.upd", params_from_array(message.content["arrays"]["params"])
    args = ["federation", "update", plan, node["model"], "--data", node["data"], "--device", node["device"]]
    args += ["--round", round_, "--ledger", folder / "ledger", "--out", out]
    # Before the first round the server has none to send.
    if sent or round_ > 0:
        params = folder / "round.params"
        params.write_bytes(sent)
        args += ["--params", params]
    args += ["--users", node["users"]] if "users" in node else []
    args += ["--seed", node["seed"]] if "seed" in node else []
    said = damper(str(node.get("damper", "damper")), *args, *shlex.split(str(node.get("flags", ""))))
    return out.read_bytes(), {**said, "params": hashlib.sha256(sent).hexdigest()}


def reply(message: Message, said: dict, *updates: bytes) -> Message:
    """The reply that carries updates, one as a rule."""
    arrays = ArrayRecord({f"update{number or ''}": update_to_array(one) for number, one in enumerate(updates)})
    config = ConfigRecord({"device": said["device"], "params": said["params"]})
    return Message(RecordDict({"arrays": arrays, "config": config}), reply_to=message)


class NoUpdate(Exception):
    """All that the server is told of a round that failed here: one text, whatever was wrong. What was may depend on rows."""

    def __init__(self) -> None:
        super().__init__("this device made no update; its own log says why")


def answer(context: Context, message: Message, act: Callable[[Context, Message], Message]) -> Message:
    """What `act` replies. Whatever it fails with stays on the device, in its log."""
    try:
        return act(context, message)
    except Exception as error:  # noqa: BLE001
        log(ERROR, "damper: %s", error)
    # Outside of the handler: the exception has no other behind it.
    raise NoUpdate


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round."""

    def act(context: Context, message: Message) -> Message:
        update, said = make_update(context, message)
        return reply(message, said, update)

    return answer(context, message, act)
