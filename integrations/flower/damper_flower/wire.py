"""Bytes as arrays: what Flower's records carry.

An update is an int64 array: the number of its bytes, then the bytes, eight an integer (little-endian, zeros at the end). A model is the bytes of
its ONNX file as uint8.
"""

import numpy as np
from flwr.app import Array


def update_to_array(update: bytes) -> Array:
    """The array of an update."""
    padded = len(update).to_bytes(8, "little") + update + bytes(-len(update) % 8)
    return Array(np.frombuffer(padded, dtype="<i8").astype(np.int64))


def update_from_array(array: Array) -> bytes:
    """The update in an array that another party made: whatever it is, some bytes, which `damper aggregate` judges."""
    values = array.numpy()
    if values.dtype != np.int64 or values.ndim != 1 or values.size == 0:
        return b""
    padded = values.astype("<i8").tobytes()
    return padded[8 : 8 + max(0, int.from_bytes(padded[:8], "little", signed=True))]


def model_to_array(model: bytes) -> Array:
    """The array of a model's file."""
    return Array(np.frombuffer(model, dtype=np.uint8))


def model_from_array(array: Array) -> bytes:
    """The model's file."""
    return array.numpy().astype(np.uint8).tobytes()
