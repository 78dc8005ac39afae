"""Sends requests and fetches replies. Each is independent, so that a fault affects only its node."""

import queue
import threading
import time
from collections.abc import Iterator
from logging import WARN

import httpx
from flwr.app import Message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore import log

from damper_flower import objects
from damper_flower.wire import Malformed

# By Flower's rule, a node has three minutes to complete an upload.
PATIENCE = 240.0
# Maximum number of nodes that are polled in a second, each once.
RATE = 20
# Maximum number of open requests of a round for a node without a reply. A SuperNode may send the reply to an earlier
# request after it has the next.
OPEN = 3


class Mailbox:
    """The requests of one round. A reply belongs to the node that was asked, and its own claim about its sender is
    ignored."""

    def __init__(self, grid: Grid, most: int) -> None:
        self.grid, self.most = grid, most
        self.came: queue.Queue[tuple[int, str, Message | Exception]] = queue.Queue()
        self.open: dict[int, list[str]] = {}
        self.ended = threading.Event()

    def replies(self, messages: list[Message], timeout: float) -> Iterator[tuple[int, Message | Exception, bool]]:
        """Sends `messages`, and yields each node's reply as it comes, or its error, for at most `timeout` seconds.

        Replies to earlier requests of the round come too. For those, the last of the three values is False.
        """
        until = time.monotonic() + timeout
        nodes = [message.metadata.dst_node_id for message in messages]
        try:
            names = list(self.grid.push_messages(messages))
        except httpx.HTTPError as error:
            log(WARN, "damper: Flower did not take the requests: %s", error)
            return
        waiting = set()
        for node, name in zip(nodes, names, strict=False):
            if not name:
                log(WARN, "damper: node %s: Flower did not take the request", node)
                continue
            self.open[node] = [*self.open.get(node, []), name][-OPEN:]
            # A node that never completes its upload blocks only its own thread.
            threading.Thread(target=self.poll, args=(node, name, max(0.5, len(nodes) / RATE)), daemon=True).start()
            waiting.add(name)
        while waiting:
            try:
                node, name, reply = self.came.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return
            yield node, reply, name in waiting
            waiting.discard(name)

    def end(self) -> None:
        """Stops waiting for replies."""
        self.ended.set()

    def poll(self, node: int, name: str, pause: float) -> None:
        """Polls for the reply to the request `name` until it is there."""
        while not self.ended.is_set() and name in self.open[node]:
            try:
                found = self.reply(name)
            except httpx.HTTPError:
                # An error of the SuperLink, not of the node.
                found = None
            except Exception as error:  # noqa: BLE001
                found = error
            if found is not None:
                self.came.put((node, name, found))
                return
            self.ended.wait(pause)

    def reply(self, name: str) -> Message | None:
        """Returns the reply to the request `name`, or None if it is not there yet. SuperLink returns it once."""
        client = self.grid._runtime_client  # noqa: SLF001: `pull_messages` puts together whatever size a node names.
        found = client.PullMessages(PullAppMessagesRequest(message_ids=[name]))
        for head, tree in zip(found.messages_list, found.message_object_trees, strict=False):
            if head.metadata.reply_to_message_id != name:
                continue
            until = time.monotonic() + PATIENCE
            try:
                message = objects.fetch(tree, lambda part: self.part(client, head.metadata.run_id, part, until), self.most)
                client.ConfirmMessageReceived(
                    ConfirmMessageReceivedRequest(
                        node=Node(node_id=SUPERLINK_NODE_ID), run_id=head.metadata.run_id, message_object_id=tree.object_id
                    )
                )
            except httpx.HTTPError as error:
                raise Malformed("its reply could not be fetched") from error
            return message
        return None

    def part(self, client: object, run: int, name: str, until: float) -> bytes:
        """Returns a part of a reply."""
        while True:
            found = client.PullObject(PullObjectRequest(node=Node(node_id=SUPERLINK_NODE_ID), run_id=run, object_id=name))
            if found.object_available:
                return found.object_content
            if not found.object_found or time.monotonic() > until or self.ended.wait(1.0):
                raise Malformed("its reply is not whole")
