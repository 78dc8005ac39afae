"""Messages in Flower's format: objects named by their hashes. They are fetched and assembled within limits, whatever
another party sent."""

import json
from collections.abc import Callable

from flwr.app import Message
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import get_object_head_values_from_object_content, get_object_id, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from damper_flower.wire import Malformed

# A message of this integration has seven objects, and one for each 5 MB of an array.
MOST_OBJECTS = 4096


def fetch(tree: ObjectTree, pull: Callable[[str], bytes], most: int, drains: bool = False) -> Message:
    """Returns the message at the root of `tree`, of at most `most` bytes.

    Each object must have the hash in its name. With `drains`, all objects are pulled before an invalid object is
    rejected.
    """
    names = list(dict.fromkeys(node.object_id for node in iterate_object_tree(tree)))
    problem = "a message of too many parts" if len(names) > MOST_OBJECTS else None
    contents: dict[str, bytes] = {}
    left = most
    for name in names:
        if problem and not drains:
            break
        content = pull(name)
        left -= len(content)
        if left < 0:
            problem = "a message that is too large"
        elif get_object_id(content) != name:
            problem = "a damaged message"
        if not problem:
            contents[name] = content
    if problem:
        raise Malformed(problem)
    check_arrays(contents, most)
    found = inflate_object_from_contents(tree.object_id, contents)
    if not isinstance(found, Message):
        raise Malformed("no message")
    return found


def check_arrays(contents: dict[str, bytes], most: int) -> None:
    """Fails for arrays that name a part so often that they are larger than `most`."""
    for content in contents.values():
        kind, parts, _ = get_object_head_values_from_object_content(content)
        if kind == "Array":
            named = json.loads(content[content.index(b"\0") + 1 :])["arraychunk_ids"]
            if sum(len(contents[parts[number]]) for number in named) > most:
                raise Malformed("an array that is too large")
