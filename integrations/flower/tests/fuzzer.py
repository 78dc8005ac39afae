"""Replies that no honest node sends."""

import json
import os
import pickle
import random
from pathlib import Path

import numpy as np
from common import reply_of
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import get_object_id

from damper_flower.wire import header, to_array, update_to_array


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.canary}",)


class Fuzzer:
    """Generates replies that no honest node sends. `honest` is an update of the round, if there is one yet."""

    def __init__(self, seed: int, canary: Path) -> None:
        self.random, self.canary, self.honest = random.Random(seed), canary, b""
        self.made = 0

    def update(self) -> bytes:
        """Returns bytes in place of an update."""
        pick, honest = self.random.randrange(6), bytearray(self.honest or self.random.randbytes(900))
        if pick == 0:
            return self.random.randbytes(self.random.choice([0, 1, 7, 60, 700, 5000]))
        if pick == 1:
            return bytes(honest[: self.random.randrange(len(honest))])
        if pick == 2:
            # A copy of another node's update.
            return bytes(honest)
        if pick == 3:
            return bytes(honest + self.random.randbytes(9))
        for _ in range(self.random.randrange(1, 4)):
            honest[self.random.randrange(len(honest))] ^= 1 << self.random.randrange(8)
        return bytes(honest)

    def array(self, good: Array) -> Array:
        """Returns an array that is not `good`."""
        raw = pickle.dumps(Bomb(self.canary))
        objects = np.array([Bomb(self.canary)], dtype=object)
        return self.random.choice([
            lambda: Array(good.dtype, good.shape, "pickle", raw),
            lambda: Array(good.dtype, good.shape, "torch.Tensor", good.data),
            lambda: Array("object", (1,), good.stype, header("int64", 1) + raw),
            lambda: Array(good.dtype, good.shape, good.stype, raw),
            lambda: Array(good.dtype, good.shape, good.stype, good.data[: self.random.randrange(len(good.data))]),
            lambda: Array(good.dtype, good.shape, good.stype, good.data + b"x"),
            lambda: Array(good.dtype, (), good.stype, good.data),
            lambda: Array(good.dtype.upper(), good.shape, good.stype, good.data),
            lambda: Array(good.dtype, (-1,), good.stype, good.data),
            lambda: Array(good.dtype, (1, *good.shape), good.stype, good.data),
            lambda: Array(good.dtype, (2**62,), good.stype, good.data),
            lambda: Array("float64", good.shape, good.stype, good.data),
            lambda: Array(str(objects.dtype), objects.shape, good.stype, pickle.dumps(objects)),
            lambda: Array(np.full(9, -1, np.int64)),
            lambda: Array(np.full(9, 2**62, np.int64)),
            lambda: Array(np.zeros((3, 3))),
            lambda: Array(np.array([8, 0, 7], np.int64)),
            lambda: to_array(good.dtype, bytes(8 * 200_000)),
            lambda: to_array(good.dtype, bytes(8)),
        ])()  # fmt: skip

    def content(self) -> RecordDict:
        """Returns records that no honest node sends."""
        array, update = self.array(update_to_array(self.honest or b"update")), update_to_array(self.update())
        return self.random.choice([
            lambda: RecordDict(),
            lambda: RecordDict({"arrays": ArrayRecord()}),
            lambda: RecordDict({"arrays": ConfigRecord({"update": b"update"})}),
            lambda: RecordDict({"arrays": MetricRecord({"update": 1.0})}),
            lambda: RecordDict({"other": ArrayRecord({"update": update})}),
            lambda: RecordDict({"arrays": ArrayRecord({"Update": update, "update ": update})}),
            lambda: RecordDict({"config": ConfigRecord({"device": [1, 2], "params": b"", "x" * 99: "y" * 9999})}),
            lambda: RecordDict({"arrays": ArrayRecord({"update": array})}),
            lambda: RecordDict({"arrays": ArrayRecord({"update": array, "update1": update})}),
            lambda: RecordDict({"arrays": ArrayRecord({f"update{number}": update for number in range(20)})}),
            lambda: RecordDict({"arrays": ArrayRecord({"update": update}), "config": ConfigRecord({"device": -1})}),
            lambda: RecordDict({"arrays": ArrayRecord({"update": update})}),
            lambda: RecordDict({"arrays": ArrayRecord({"update": update})}),
        ])()  # fmt: skip

    def reply(self, asked: Message) -> tuple:
        """Returns the head, the tree and the parts of a reply. One in three is damaged in transit."""
        self.made += 1
        if self.random.randrange(6) == 0:
            text = self.random.choice(["", "a\nb\x1b[31m", "damper: round 0: {}\n" * 99, "ü" * 9999])
            message = Message(Error(self.random.choice([0, 2, 5, 99]), text), reply_to=asked)
        else:
            message = Message(self.content(), reply_to=asked)
        # Its claim about its sender is false.
        message.metadata.__dict__["_src_node_id"] = self.random.choice([10, 0, 1, 2**40])
        head, tree, held = reply_of(message)
        if self.random.randrange(3) == 0:
            tree, held = self.damage(tree, held)
        return head, tree, held

    def damage(self, tree: ObjectTree, held: dict[str, bytes]) -> tuple[ObjectTree, dict[str, bytes]]:
        """Damages the parts of a message."""
        name = self.random.choice(sorted(held))
        pick = self.random.randrange(8)
        if pick == 0:
            held[name] = self.random.randbytes(50)
        elif pick == 1:
            del held[name]
        elif pick == 2:
            changed = bytearray(held[name])
            changed[self.random.randrange(len(changed))] ^= 255
            held[name] = bytes(changed)
        elif pick == 3:
            return self.root(self.random.choice([b"", b"\0", b"Message  0\0", b"Message x y\0", b"ArrayRecord  2\0{}", b"Other  0\0"]), [])
        elif pick == 4:
            # Deeper than any record.
            for _ in range(60):
                tree = ObjectTree(object_id=tree.object_id, children=[tree])
        elif pick == 5:
            tree = ObjectTree(object_id=tree.object_id, children=[ObjectTree(object_id=f"{number:064x}") for number in range(5000)])
        elif pick == 6:
            return self.bomb()
        else:
            return self.root(b"Message %s 0\0" % name.encode(), [tree], held)
        return tree, held

    def root(self, content: bytes, children: list[ObjectTree], held: dict[str, bytes] | None = None) -> tuple:
        """Returns a message with the root `content`."""
        name = get_object_id(content)
        return ObjectTree(object_id=name, children=children), {name: content, **(held or {})}

    def bomb(self) -> tuple[ObjectTree, dict[str, bytes]]:
        """Returns an array of a gigabyte, in a hundred kilobytes of data."""
        chunk = b"ArrayChunk  100000\0" + bytes(100_000)
        body = json.dumps({"dtype": "int64", "shape": [1], "stype": "numpy.ndarray", "arraychunk_ids": [0] * 10_000}).encode()
        array = b"Array %s %d\0" % (get_object_id(chunk).encode(), len(body)) + body
        leaf = ObjectTree(object_id=get_object_id(chunk))
        return self.root(array, [leaf], {get_object_id(chunk): chunk})
