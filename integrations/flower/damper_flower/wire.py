"""Bytes as arrays: what Flower's records carry.

An update is an int64 array: the number of its bytes, then the bytes, eight an integer (little-endian, zeros at the end). Trained parameters are float32
values, and none before the first round. Another party's array is never given to NumPy: its bytes must be those of this header and of so many values.
"""

from io import BytesIO

import numpy as np
from flwr.app import Array

STYPE = "numpy.ndarray"
TYPES = {"int64": ("<i8", 8), "float32": ("<f4", 4)}


class Malformed(ValueError):
    """What another party sent is nothing that damper sends. Its words name no value that came from there."""


def header(dtype: str, values: int) -> bytes:
    """The header of NumPy's format for a vector."""
    out = BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": TYPES[dtype][0], "fortran_order": False, "shape": (values,)})
    return out.getvalue()


def to_array(dtype: str, raw: bytes) -> Array:
    """The vector with these little-endian values."""
    values = len(raw) // TYPES[dtype][1]
    return Array(dtype=dtype, shape=(values,), stype=STYPE, data=header(dtype, values) + raw)


def from_array(array: object, dtype: str, most: int) -> bytes:
    """The little-endian values of a vector that another party made, `most` at most."""
    if not isinstance(array, Array) or array.stype != STYPE or array.dtype != dtype:
        raise Malformed(f"no array of {dtype}")
    if len(array.shape) != 1 or type(array.shape[0]) is not int or not 0 <= array.shape[0] <= most:
        raise Malformed("an array of another shape")
    start, size = header(dtype, array.shape[0]), array.shape[0] * TYPES[dtype][1]
    if not isinstance(array.data, bytes) or len(array.data) != len(start) + size or not array.data.startswith(start):
        raise Malformed("a damaged array")
    return array.data[len(start) :]


def update_to_array(update: bytes) -> Array:
    """The array of an update."""
    return to_array("int64", len(update).to_bytes(8, "little") + update + bytes(-len(update) % 8))


def update_from_array(array: object, most: int) -> bytes:
    """The update, of `most` bytes at most, in an array that another party made. `damper aggregate` judges the bytes."""
    raw = from_array(array, "int64", most // 8 + 2)
    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or len(raw) != 8 + size + -size % 8 or any(raw[8 + size :]):
        raise Malformed("an update of another length")
    return raw[8 : 8 + size]


def params_to_array(params: bytes) -> Array:
    """The array of trained parameters, as `damper federation apply --out-params` wrote them."""
    return to_array("float32", params)


def params_from_array(array: object, most: int) -> bytes:
    """The trained parameters, `most` at most, in an array that another party made."""
    return from_array(array, "float32", most)
