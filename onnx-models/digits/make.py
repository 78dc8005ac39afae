"""Writes the four IDX files of this folder from the data in scikit-learn.

    pip install -r ../requirements.txt && python3 make.py

Pixels 0..16 become round(255 p / 16) (halves up). In scikit-learn's order, images 0, 5, 10, ... are the held-out set
(360), the others the training set (1,437). The files are the same bytes on every run.
"""

import gzip
import pathlib
import struct

import numpy as np
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).parent
HELD_OUT_EVERY = 5
UBYTE = 0x08


def scaled_pixels(images):
    """Pixels 0..16 to 0..255."""
    return ((images.astype(np.int64) * 510 + 16) // 32).astype(np.uint8)


def idx(array):
    """The IDX bytes of a u8 array: magic, big-endian extents, elements in row-major order."""
    return struct.pack(f">HBB{array.ndim}I", 0, UBYTE, array.ndim, *array.shape) + array.tobytes()


def write(name, array):
    packed = gzip.compress(idx(np.ascontiguousarray(array)), compresslevel=9, mtime=0)
    (HERE / f"{name}.gz").write_bytes(packed)


def main():
    data = load_digits()
    images, labels = scaled_pixels(data.images), data.target.astype(np.uint8)
    assert images.shape == (1797, 8, 8) and data.images.max() == 16 and images.max() == 255
    held_out = np.arange(len(images)) % HELD_OUT_EVERY == 0
    write("train-images-idx3-ubyte", images[~held_out])
    write("train-labels-idx1-ubyte", labels[~held_out])
    write("t10k-images-idx3-ubyte", images[held_out])
    write("t10k-labels-idx1-ubyte", labels[held_out])


if __name__ == "__main__":
    main()
