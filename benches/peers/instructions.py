#!/usr/bin/env python3
"""Instructions of one step of `damper train`, and of its start-up and end, by two builds: the tables of
record/instructions.md.

    benches/peers/instructions.py BEFORE AFTER

BEFORE and AFTER are commands built by `cargo build --release -p damper --no-default-features` at two commits. valgrind
counts instructions, on one thread, so other work on the machine changes nothing. The difference of a longer run and a
run of one epoch is divided by the steps between them. It includes the share of the evaluations at the ends of epochs.
"""

import concurrent.futures
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "onnx-models"
TABLE = "digits.csv"
SAME = "--noise-multiplier 3 --delta 1e-5 --seed 1 --workers 1 --backend portable --json --quiet".split()
CNN = [MODELS / "digits-cnn.onnx", "--data", f"idx:{MODELS}/digits", *"--batch-size 128 --optimizer momentum --lr 1 --clip 0.1".split()]
COLUMNS = [MODELS / "digits-mlp.onnx", "--data", f"csv:{TABLE}", *"--label-column digit --test 0.2 --split-seed 1 --batch-size 128 --clip 0.1".split()]
ADAM = "--method doppler --filter p4 --optimizer adam --lr 0.01".split()
CORRELATED = "--sampler min-separation --noise-correlation blt:1 --batch-size 32 --optimizer momentum --lr 0.5 --clip 0.1".split()
# Name, flags, and epochs of the longer run.
RUNS = [
    ("digits CNN, momentum", CNN, 2),
    ("the same, `--normalize-private`", [*CNN, "--normalize-private", "0,1"], 2),
    ("table, MLP, Adam, filter `p4`", [*COLUMNS, *ADAM, "--normalize", "0,255"], 5),
    ("the same, `--normalize-private`", [*COLUMNS, *ADAM, "--normalize-private", "0,255"], 5),
    ("digits CNN, `blt:1`, momentum", [*CNN[:3], *CORRELATED], 2),
]


def table(folder):
    """The digits as a CSV file."""
    def entries(name, header):
        return gzip.decompress((MODELS / "digits" / f"train-{name}.gz").read_bytes())[header:]

    pixels, labels = entries("images-idx3-ubyte", 16), entries("labels-idx1-ubyte", 8)
    with open(folder / TABLE, "w") as file:
        print(*(f"pixel{i}" for i in range(64)), "digit", sep=",", file=file)
        for row, label in enumerate(labels):
            print(*pixels[64 * row : 64 * row + 64], label, sep=",", file=file)


def counted(program, flags, epochs, folder):
    """Instructions, steps and the digest of the parameters of a run."""
    with tempfile.TemporaryDirectory() as out:
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, "train", *flags, *SAME]
        run = subprocess.run([*command, "--epochs", str(epochs), "--out", f"{out}/run"], cwd=folder, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{program} failed:\n{run.stderr}")
    report = json.loads(run.stdout)
    return int(re.search(r"Collected : (\d+)", run.stderr)[1]), report["steps"], report["params_digest"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    programs = [pathlib.Path(program).resolve() for program in sys.argv[1:]]
    print("| run | steps | a step before | after | change | apart from steps before | after | change | same parameters |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        table(pathlib.Path(folder))
        for name, flags, epochs in RUNS:
            figures, digests = [], []
            runs = [(program, flags, e, folder) for program in programs for e in (1, epochs)]
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                few_and_more = list(pool.map(counted, *zip(*runs)))
            for (few, first, _), (more, last, digest) in zip(few_and_more[::2], few_and_more[1::2]):
                step = (more - few) / (last - first)
                figures.append((step, few - first * step))
                digests.append(digest)
            cells = [f"{a / 1e6:,.2f} M | {b / 1e6:,.2f} M | {100 * (b / a - 1):+.2f} %" for a, b in zip(*figures)]
            print(f"| {name} | {last - first} | {' | '.join(cells)} | {'yes' if len(set(digests)) == 1 else 'no'} |", flush=True)


if __name__ == "__main__":
    main()
