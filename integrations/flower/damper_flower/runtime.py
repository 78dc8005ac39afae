"""The Runtime API of a SuperNode that runs with `--isolation process`: claims tasks, fetches their messages, and sends
replies.

A task comes with the app that `flwr run` shipped. The app is dropped here: no code writes, imports or runs it.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import httpx
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import SubStatus
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.proto.task_pb2 import Task
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.interceptors.http.utils import add_headers
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata

from damper_flower import objects
from damper_flower.wire import Malformed

# The SuperNode gives up a task after a minute without a heartbeat.
HEARTBEAT = 10.0
SECONDS_OF_CALL = 30.0

Answer = TypeVar("Answer")


class Stopped(Exception):
    """The process must end."""


class Gone(Exception):
    """The SuperNode no longer has the task: it was restarted, or gave up the task."""


class Superseded(Exception):
    """The SuperNode has another task. It handles messages in sequence, so it gave up this task's message before it had
    all parts."""

    def __init__(self, claim: "Claim") -> None:
        super().__init__("another task")
        self.claim = claim


class Version:
    """Sends Flower's version to the SuperNode, as its own programs do."""

    def __init__(self) -> None:
        self.headers = dict(RuntimeVersionMetadata.from_local_component("flwr-clientapp").as_metadata())

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Adds the headers of one request."""
        add_headers(context.request, self.headers)
        return call_next(context)


class Runtime:
    """Address of the SuperNode. Without certificates it must be on this machine."""

    def __init__(self, address: str, certificates: bytes | None, secret: bytes | None) -> None:
        self.address, self.certificates = address, certificates
        own = [SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"})] if secret else []
        self.client = self.connect(own)

    def connect(self, interceptors: list) -> RuntimeHttpClient:
        """Creates a separate client."""
        return RuntimeHttpClient.from_server_address(
            self.address, self.certificates is None, self.certificates, [Version(), *interceptors], retry_invoker=None
        )

    def claim(self) -> "Claim | None":
        """Claims the oldest waiting task of any kind. Returns None if no task waits."""
        found = self.client.AcquireTask(AcquireTaskRequest(supported_task_types=list(TaskType)))
        if not found.HasField("task") or not found.token:
            return None
        return Claim(self, found.task, self.connect([RuntimeTokenHttpInterceptor(found.token)]))

    def close(self) -> None:
        """Disconnects."""
        self.client.close()


class Claim:
    """A task that this process claimed, with its heartbeat."""

    def __init__(self, runtime: Runtime, task: Task, client: RuntimeHttpClient) -> None:
        self.runtime, self.task, self.client = runtime, task, client
        self.node = Node()
        self.ended = threading.Event()
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self) -> None:
        """Sends heartbeats until the task has ended."""
        while not self.ended.wait(HEARTBEAT):
            try:
                self.client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            except (httpx.HTTPError, ValueError, RuntimeError):
                continue

    def call(self, act: Callable[[object], Answer], request: object) -> Answer:
        """Returns the answer of the SuperNode. Repeats the request if it does not answer."""
        until = time.monotonic() + SECONDS_OF_CALL
        while True:
            try:
                return act(request)
            except httpx.HTTPStatusError as error:
                if error.response.status_code in (401, 403, 404):
                    raise Gone from error
                if error.response.status_code < 500 or time.monotonic() > until:
                    raise
            except httpx.TransportError:
                if time.monotonic() > until:
                    raise
            if self.ended.wait(0.5):
                raise Gone

    def message(self, most: int, stopped: Callable[[float], bool]) -> tuple[Message, Message | None]:
        """Returns the message of the task: its metadata from the SuperNode, and the whole message. The latter is None
        if it is damaged or has more than `most` bytes."""
        # Starts the task. The rest of the answer is the server's: the app, and its settings.
        self.node = Node(node_id=self.call(self.client.PullTaskInput, PullTaskInputRequest()).context.node_id)
        while not (found := self.call(self.client.PullMessages, PullAppMessagesRequest())).messages_list:
            self.wait(stopped)
        head, tree = message_from_proto(found.messages_list[0]), found.message_object_trees[0]
        head.metadata.__dict__["_message_id"] = tree.object_id
        try:
            # The SuperNode would take a reply before it has all parts for the reply to the next message.
            whole = objects.fetch(tree, lambda name: self.object(name, stopped), most, drains=True)
        except (Gone, Superseded, Stopped):
            raise
        except Exception:  # noqa: BLE001
            whole = None
        self.confirm(tree)
        return head, whole

    def object(self, name: str, stopped: Callable[[float], bool]) -> bytes:
        """Returns a part of the message."""
        while True:
            found = self.call(self.client.PullObject, PullObjectRequest(node=self.node, run_id=self.task.run_id, object_id=name))
            if found.object_available:
                return found.object_content
            if not found.object_found:
                raise Malformed("a message without all its parts")
            self.wait(stopped)

    def wait(self, stopped: Callable[[float], bool]) -> None:
        """Waits for the SuperNode, which creates a task before it has the message and its parts."""
        if stopped(0.5):
            raise Stopped
        if (newer := self.runtime.claim()) is not None:
            raise Superseded(newer)

    def confirm(self, tree: ObjectTree) -> None:
        """Lets the SuperNode delete the message."""
        request = ConfirmMessageReceivedRequest(node=self.node, run_id=self.task.run_id, message_object_id=tree.object_id)
        self.call(self.client.ConfirmMessageReceived, request)

    def reply(self, message: Message) -> None:
        """Sends the reply to the SuperNode."""
        message.metadata.__dict__["_message_id"] = message.object_id
        with no_object_id_recompute():
            tree, parts = get_object_tree(message), get_all_nested_objects(message)
            proto = message_to_proto(remove_content_from_message(message))
            pushed = self.call(self.client.PushMessages, PushAppMessagesRequest(messages_list=[proto], message_object_trees=[tree]))
            for name in pushed.objects_to_push:
                request = PushObjectRequest(
                    node=self.node, run_id=self.task.run_id, object_id=name, object_content=parts[name].deflate(), session_id=pushed.session_id
                )
                self.call(self.client.PushObject, request)

    def end(self) -> None:
        """Ends the task after its reply was sent."""
        self.call(self.client.PushTaskOutput, PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details=""))

    def give_up(self) -> None:
        """Ends the task without a reply. The SuperNode does not wait for it."""
        try:
            self.call(self.client.PushTaskOutput, PushTaskOutputRequest(sub_status=SubStatus.FAILED, details=""))
        except (Gone, httpx.HTTPError):
            return

    def drop(self) -> None:
        """Drops the task. Without its end, the SuperNode reports to the server within a minute that the node does not reply.
        """
        self.ended.set()
        self.client.close()
