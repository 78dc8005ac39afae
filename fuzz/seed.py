#!/usr/bin/env python3
"""Writes the seeds of the corpus that are synthetic or taken from the repository: `fuzz/corpus/TARGET/seed-*`.

Needs only Python. Other inputs, which fuzzing found, are in the same folders and named by their digest.
"""

import gzip
import io
import json
import pathlib
import struct
import tarfile
import zipfile
import zlib

FUZZ = pathlib.Path(__file__).resolve().parent
ROOT = FUZZ.parent


def seed(target, name, data):
    folder = FUZZ / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(data)


def fnv(data):
    """The core's digest: 64-bit FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return struct.pack("<Q", value)


def idx(values, shape, kind=0x08, code="B"):
    header = struct.pack(">BBBB", 0, 0, kind, len(shape)) + b"".join(struct.pack(">I", n) for n in shape)
    return header + b"".join(struct.pack(">" + code, value) for value in values)


def npy(descr, shape, data, order=False):
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {tuple(shape)!r}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npz(arrays, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data, method)
    return out.getvalue()


def png(rows, width, height, color):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    pixels = zlib.compress(b"".join(rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def tar(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def pickled(images):
    """A Python batch of CIFAR-10, as Python 2 pickled it."""
    out = b"\x80\x02}q\x01(U\x06labelsq\x04]q\x05(" + b"K\x07" * images + b"eU\x04dataq\x06"
    out += b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
    out += b"(K\x01K" + bytes([images]) + b"M\x00\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b"
    out += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<I", images * 3072)
    return out + bytes(images * 3072) + b"tbu."


def models():
    for name in ["digits-linear", "cifar-cnn", "cifar-cnn5", "digits-mlp"]:
        seed("model", name, (ROOT / "onnx-models" / f"{name}.onnx").read_bytes())


def networks():
    # Chains of operators on [N, 4, 4], by their numbers.
    for number, head in enumerate([b"\x00\x01\x00\x03\x04\x04", b"\x01\x00\x00\x02\x03\x02\x02\x02\x00\x02\x04\x03"]):
        seed("network", f"chain-{number}", head + bytes((37 * i + 11 * number) % 256 for i in range(120)))


def data():
    images, labels = idx(range(3 * 4), [3, 2, 2]), idx([1, 0, 9], [3])
    for how in [0x00, 0x05, 0x50, 0xE5]:
        seed("idx", f"plain-{how:02x}", struct.pack("<BH", how, len(images)) + images + labels)
    zipped = gzip.compress(images, mtime=0)
    seed("idx", "gzip", struct.pack("<BH", 0, len(zipped)) + zipped + gzip.compress(labels, mtime=0))
    for code, kind in [("b", 0x09), ("h", 0x0B), ("i", 0x0C), ("f", 0x0D), ("d", 0x0E)]:
        wide = idx([1, 2, 3, 4], [2, 1, 2], kind, code)
        seed("idx", f"type-{kind:02x}", struct.pack("<BH", 0, len(wide)) + wide + idx([1, 0], [2]))

    rows = b"a,b,c,d,label\n1,2,3,4,0\n0.5,-1e3,7,8,1\n1,1,1,1,2\n"
    for how in [0x00, 0x04, 0x06, 0x44, 0x01, 0x30]:
        seed("csv", f"header-{how:02x}", bytes([how, 0, 0]) + rows)
    seed("csv", "quoted", bytes([0x10, 2, 1]) + b'"1","2,5",nan\n3,inf,4\n\n5,6\n')
    seed("csv", "gzip", bytes([0, 0, 0]) + gzip.compress(rows, mtime=0))

    features = struct.pack("<8f", *range(8))
    arrays = {"x": npy("<f4", [2, 2, 2], features), "y": npy("<i8", [2], struct.pack("<2q", 1, 0))}
    split = {"x_train": arrays["x"], "y_train": arrays["y"], "x_test": arrays["x"], "y_test": arrays["y"]}
    inputs = dict(arrays, z=npy("|u1", [2, 2, 2], bytes(range(8))))
    for name, how, what in [("plain", 0x04, arrays), ("split", 0x05, split), ("inputs", 0x0C, inputs)]:
        seed("npz", name, bytes([how]) + npz(what))
        seed("npz", f"{name}-stored", bytes([how]) + npz(what, zipfile.ZIP_STORED))
    odd = {"x": npy("<f8", [2, 1], struct.pack("<2d", 1, float("nan")), True), "y": npy("|b1", [2], b"\0\1")}
    seed("npz", "fortran", bytes([0x10]) + npz(odd))

    for how in [0x04, 0x0C]:
        seed("npy", f"plain-{how:02x}", struct.pack("<BH", how, len(arrays["x"])) + arrays["x"] + arrays["y"])

    pixel = png([bytes([0, 10, 20, 30, 40, 50, 60])] * 2, 2, 2, 2)
    seed("images", "rgb", bytes([0]) + pixel)
    seed("images", "grey", bytes([0x05]) + png([bytes([0, 10, 20])] * 2, 2, 2, 0))
    batch = bytes([3]) + bytes(range(256)) * 12
    seed("cifar", "batch", bytes([0, 0]) + batch)
    seed("cifar", "tar", bytes([0, 0]) + tar("cifar-10-batches-bin/data_batch_1.bin", batch[:3073]))
    seed("cifar", "pickle", bytes([0, 2]) + pickled(1))
    seed("cifar", "coarse", bytes([0, 1]) + bytes([1]) + batch)

    table = b"text\tlabel\na good film\t1\na bad film\t0\nfilm\t1\n"
    for how, what in [(0x00, 0x00), (0x08, 0x04), (0x10, 0x0C), (0x00, 0x40)]:
        seed("text", f"rows-{how:02x}-{what:02x}", bytes([how, what]) + table.replace(b"\t", b"," if what & 64 else b"\t"))
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [
            {"id": 0, "content": "[PAD]", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2, "good": 3}, "unk_token": "[UNK]"},
    }
    seed("text", "tokenizer", bytes([0, 1]) + json.dumps(tokenizer).encode())
    pieces = dict(tokenizer, model={"type": "BPE", "vocab": {"a": 0, "g": 1, "o": 2, "oo": 3}, "merges": ["o o"],
                                    "unk_token": None})
    seed("text", "pieces", bytes([0, 5]) + json.dumps(pieces).encode())


def records():
    event = {"sampling_rate_numerator": 2**45, "noise_multiplier": 1.1, "times": 1000}
    for accountant in ["pld", "rdp"]:
        other = dict(event, noise_multiplier=0.9, times=1)
        seed("events", accountant, json.dumps({"delta": 1e-5, "accountant": accountant, "events": [event, other]}).encode())
    run = {
        "label": "a", "budget": 3.0, "purpose": "tuning", "chosen": ["lr = 1"], "repeat": 1, "seed": None, "flags": ["--lr", "1"],
        "model": "00", "damper": "0.1.0", "test_accuracy": 0.9, "test_loss": 0.3, "epsilon": 2.9, "delta": 1e-5,
        "noise_multiplier": 1.0, "steps": 10, "seconds": 1.5, "backend": "tract", "params_digest": "00", "parameters": 650,
        "training": {"clip": 1.0},
    }
    seed("runs", "one", json.dumps(run).encode() + b"\n")
    seed("runs", "cut", json.dumps(run).encode() + b"\n" + json.dumps(run).encode()[:50])
    for name, lines in [("published", "-9/11\n1/11,1/11"), ("order", "0.5,-0.25\n1,0.5,1e-3"), ("empty", "\n1")]:
        seed("filter", name, lines.encode())


def updates():
    def update(device, units, word=4, dim=None):
        header = b"DAMPERUP" + struct.pack("<IIQQ", 1, word, 7, device)
        header += struct.pack("<6If", 2, 1 if word == 4 else 2, len(units) if dim is None else dim, 16, 60, 1 << 17, 0.5)
        return header + b"".join(struct.pack("<i" if word == 4 else "<q", unit) for unit in units)

    whole = [update(3, [1, -2, 2**31 - 1]), update(4, [0, 5, -(2**31)]), update(0, [1, 2, 3], 8), update(5, [1], dim=9)]
    for number, body in enumerate(whole):
        seed("update", f"{number}", body + fnv(body))
    parts = b"".join(struct.pack("<BH", 0, len(body)) + body for body in whole)
    seed("aggregate", "several", parts)
    seed("aggregate", "twice", 2 * (struct.pack("<BH", 0, len(whole[0])) + whole[0]))


def packs():
    for name in ["further", "wide"]:
        pack = (ROOT / "replay/src/vectors" / f"{name}.pack").read_bytes()
        seed("pack", name, pack)
        seed("host_pack", name, pack)


if __name__ == "__main__":
    models()
    networks()
    data()
    records()
    updates()
    packs()
