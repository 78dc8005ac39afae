"""The server: requests a round's updates from devices, stores each, runs `damper aggregate` to charge the round and add
them, and updates the model."""

import json
import time
from logging import INFO, WARN

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from damper_flower.mailbox import Mailbox
from damper_flower.rounds import Rounds, SmallCohort
from damper_flower.wire import Malformed, params_to_array, update_from_array


class Unfinished(Exception):
    """A round did not get enough updates."""

    def __init__(self, round_: int, attempts: int) -> None:
        super().__init__(
            f"round {round_} got too few updates in {attempts} attempts, and is not charged; run again to ask for it again, or give it up: skip={round_}"
        )


class Server:
    """Rounds over a grid.

    `wait` is the time in seconds until all devices' nodes are there, and between attempts. `timeout` is the time for
    the replies of one attempt.
    """

    def __init__(self, rounds: Rounds, wait: float = 60.0, timeout: float = 600.0, attempts: int = 100) -> None:
        self.rounds, self.plan = rounds, rounds.plan
        self.wait, self.timeout, self.attempts = wait, timeout, attempts

    def run(self, grid: Grid, most: int = 0) -> None:
        """Runs all remaining rounds, or `most` of them. A stopped run continues at the same point."""
        done = 0
        while not most or done < most:
            round_ = self.rounds.next()
            if round_ >= self.plan.rounds:
                log(WARN, "damper: the budget is spent: all %s rounds of the plan are done", self.plan.rounds)
                return
            self.round(grid, round_)
            done += 1

    def round(self, grid: Grid, round_: int) -> None:
        """Runs one round. Each attempt sends the same request."""
        mailbox = Mailbox(grid, self.plan.most_message)
        try:
            found = self.added(mailbox, round_)
        finally:
            mailbox.end()
        for one in found.get("refused", []):
            log(WARN, "damper: round %s: left out: %s", round_, one["reason"])
        self.rounds.move(round_)
        figures = {f"epsilon_{party}": epsilon for party, epsilon in found["epsilon"].items() if epsilon is not None}
        figures |= {"accepted": found["devices"], "refused": len(found.get("refused", [])), "delta": found["delta"]}
        log(INFO, "damper: round %s: %s", round_, json.dumps({**figures, "rounds_charged": found["rounds_charged"]}))

    def added(self, mailbox: Mailbox, round_: int) -> dict:
        """Returns the answer of `damper aggregate` for the round, when there are enough updates."""
        again = False
        for attempt in range(1, self.attempts + 1):
            if not self.rounds.is_closed(round_):
                self.ask(mailbox, round_, again)
            try:
                return self.rounds.add(round_)
            except SmallCohort as error:
                # A node may send a valid update after an invalid update.
                again = error.is_judged
                log(WARN, "damper: round %s, attempt %s of %s: not charged: %s", round_, attempt, self.attempts, error)
                if attempt < self.attempts:
                    time.sleep(self.wait / 10)
        raise Unfinished(round_, self.attempts)

    def ask(self, mailbox: Mailbox, round_: int, again: bool) -> None:
        """Requests missing updates from the nodes, or from all nodes if `again`, and stores valid updates."""
        there = {node for node in self.nodes(mailbox.grid) if again or not self.rounds.file(round_, node).exists()}
        if not there:
            return
        for node, reply, is_current in mailbox.replies(self.requests(round_, sorted(there)), self.timeout):
            try:
                update = read_update(reply, self.plan.most_update)
            except Exception as error:  # noqa: BLE001
                log(WARN, "damper: round %s: node %s: no update: %s", round_, node, plain(error))
                if is_current:
                    there.discard(node)
                continue
            self.rounds.keep(round_, node, update)
            there.discard(node)
        for node in sorted(there):
            log(WARN, "damper: round %s: node %s: no update: it did not reply within %s s", round_, node, self.timeout)

    def requests(self, round_: int, nodes: list[int]) -> list[Message]:
        """Returns the requests to the nodes. Each contains the result of the node's update in the previous round."""
        begins, taken = self.rounds.begins(round_), self.rounds.taken(round_ - 1)
        arrays = ArrayRecord({"params": params_to_array(begins.read_bytes() if begins else b"")})
        made = []
        for node in nodes:
            config = ConfigRecord({"round": round_, "federation": self.plan.digest})
            if node in taken:
                config["taken"], config["taken_round"] = taken[node], round_ - 1
            content = RecordDict({"arrays": arrays, "config": config})
            made.append(Message(content, dst_node_id=node, message_type=MessageType.TRAIN, group_id=str(round_)))
        return made

    def nodes(self, grid: Grid) -> list[int]:
        """Returns the present nodes, when they are as many as the plan's devices or after `wait` seconds."""
        until = time.monotonic() + self.wait
        while len(nodes := sorted(grid.get_node_ids())) < self.plan.devices and time.monotonic() < until:
            time.sleep(0.5)
        return nodes


def read_update(reply: Message | Exception, most: int) -> bytes:
    """Returns the only update in a reply. Other content is ignored."""
    if isinstance(reply, Exception):
        raise reply
    if reply.has_error():
        raise Malformed(f"it answered: {reply.error.reason}")
    arrays = reply.content.get("arrays")
    if not isinstance(arrays, ArrayRecord) or "update" not in arrays:
        raise Malformed("no record with an update")
    return update_from_array(arrays["update"], most)


def plain(error: Exception) -> str:
    """Formats an error as one line. Another party may have written it."""
    text = str(error) or type(error).__name__
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200]
