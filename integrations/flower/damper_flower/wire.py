"""Conversion of bytes to arrays of Flower's records.

An update is an int64 array: the number of its bytes, then the bytes, eight in an integer (little-endian, zeros at the
end). Trained parameters are float32 values, and none before the first round. NumPy never parses another party's array:
its bytes must be this header and the matching number of values.
"""

from io import BytesIO

import numpy as np
from flwr.app import Array

STYPE = "numpy.ndarray"
TYPES = {"int64": ("<i8", 8), "float32": ("<f4", 4)}


class Malformed(ValueError):
    """Data of another party that damper never sends. The error contains no value from that data."""


def header(dtype: str, values: int) -> bytes:
    """Returns the header of NumPy's format for a vector."""
    out = BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": TYPES[dtype][0], "fortran_order": False, "shape": (values,)})
    return out.getvalue()


def to_array(dtype: str, raw: bytes) -> Array:
    """Returns the vector with these little-endian values."""
    values = len(raw) // TYPES[dtype][1]
    return Array(dtype=dtype, shape=(values,), stype=STYPE, data=header(dtype, values) + raw)


def from_array(array: object, dtype: str, most: int) -> bytes:
    """Returns at most `most` little-endian values of a vector from another party."""
    if not isinstance(array, Array) or array.stype != STYPE or array.dtype != dtype:
        raise Malformed(f"no array of {dtype}")
    if len(array.shape) != 1 or type(array.shape[0]) is not int or not 0 <= array.shape[0] <= most:
        raise Malformed("an array of another shape")
    start, size = header(dtype, array.shape[0]), array.shape[0] * TYPES[dtype][1]
    if not isinstance(array.data, bytes) or len(array.data) != len(start) + size or not array.data.startswith(start):
        raise Malformed("a damaged array")
    return array.data[len(start) :]


def update_to_array(update: bytes) -> Array:
    """Returns the array of an update."""
    return to_array("int64", len(update).to_bytes(8, "little") + update + bytes(-len(update) % 8))


def update_from_array(array: object, most: int) -> bytes:
    """Returns the update, of at most `most` bytes, in an array of another party. `damper aggregate` checks the bytes.
    """
    raw = from_array(array, "int64", most // 8 + 2)
    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or len(raw) != 8 + size + -size % 8 or any(raw[8 + size :]):
        raise Malformed("an update of another length")
    return raw[8 : 8 + size]


def params_to_array(params: bytes) -> Array:
    """Returns the array of trained parameters, as `damper federation apply --out-params` wrote them."""
    return to_array("float32", params)


def params_from_array(array: object, most: int) -> bytes:
    """Returns at most `most` trained parameters in an array of another party."""
    return from_array(array, "float32", most)
