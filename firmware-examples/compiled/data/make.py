"""Writes digits/ and images/, both in the format of MNIST. The folder digits/ has the first 200 of the 8x8
digits of `onnx-models/digits` (its README has source and licence). The folder images/ has the first 24 of them as images of 28x28,
each pixel three by three with a border of two."""

import gzip
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[2] / "onnx-models/digits"


def content(name, header):
    return gzip.decompress((DIGITS / f"train-{name}-ubyte.gz").read_bytes())[header:]


def write(folder, images, side, labels):
    count = len(labels)
    (HERE / folder).mkdir(exist_ok=True)
    head = struct.pack(">IIII", 0x803, count, side, side)
    (HERE / folder / "train-images-idx3-ubyte").write_bytes(head + images)
    (HERE / folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


def enlarged(image):
    rows = [bytes(28)] * 2
    for start in range(0, 64, 8):
        row = bytes(pixel for pixel in image[start:start + 8] for _ in range(3))
        rows += [bytes(2) + row + bytes(2)] * 3
    return b"".join(rows + [bytes(28)] * 2)


pixels, labels = content("images-idx3", 16), content("labels-idx1", 8)
write("digits", pixels[:200 * 64], 8, labels[:200])
write("images", b"".join(enlarged(pixels[at * 64:at * 64 + 64]) for at in range(24)), 28, labels[:24])
