"""Bytes as arrays: what Flower's records carry.

An update is an int64 array: the number of its bytes, then the bytes, eight an integer (little-endian, zeros at the end). Trained parameters are float32
values, and none before the first round.
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


def params_to_array(params: bytes) -> Array:
    """The array of trained parameters, as `damper federation apply --out-params` wrote them."""
    return Array(np.frombuffer(params, dtype="<f4").astype(np.float32))


def params_from_array(array: Array) -> bytes:
    """The trained parameters in an array that another party made: whatever it is, some bytes, which `damper` judges."""
    values = array.numpy()
    if values.dtype != np.float32 or values.ndim != 1:
        return b"not float32"
    return values.astype("<f4").tobytes()
