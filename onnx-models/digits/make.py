"""Writes the four IDX files of this folder from the copy of the data that scikit-learn carries.

    pip install -r ../requirements.txt && python3 make.py

Pixels 0..16 become round(255 p / 16) (halves up). The first 1,437 images in scikit-learn's order are the training
set, the last 360 the held-out set. The files are the same bytes on every run.
"""

import gzip
import pathlib
import struct

import numpy as np
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).parent
TRAIN = 1437
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
    write("train-images-idx3-ubyte", images[:TRAIN])
    write("train-labels-idx1-ubyte", labels[:TRAIN])
    write("t10k-images-idx3-ubyte", images[TRAIN:])
    write("t10k-labels-idx1-ubyte", labels[TRAIN:])


if __name__ == "__main__":
    main()
