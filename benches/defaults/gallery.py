"""Trains each dev task with the default settings at ε = 3, and writes its curve and figures as CSV for the gallery.

    python3 benches/defaults/gallery.py DAMPER FOLDER benches/record/gallery.csv [RUNS]

DAMPER is the command, and FOLDER is what tasks.py wrote. Each task has RUNS runs, 3 by default. They have seeds, so they are simulations: same bits on a second try.
"""

import csv
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from run import DIGITS, SEEDS

TASKS = ["digits", "mnist-cnn", "mnist-hog", "cifar-hog", "diamonds", "flchain", "sst2-bag", "sst2-minilm"]
HEAD = ["task", "seed", "step", "epsilon", "accuracy", "seconds", "majority"]


def majority(folder, task):
    """The accuracy of the most frequent class of the test rows."""
    if task == "digits":
        labels = np.frombuffer(gzip.open(DIGITS / "t10k-labels-idx1-ubyte.gz").read()[8:], np.uint8)
    else:
        labels = np.load(folder / f"{task}.npz")["y_test"]
    return f"{100 * np.bincount(labels).max() / len(labels):.2f}"


def rows(damper, folder, task, seed, guess):
    data = f"idx:{DIGITS}" if task == "digits" else f"npz:{folder / task}.npz"
    with tempfile.TemporaryDirectory() as out:
        run = subprocess.run([damper, "train", folder / f"{task}.onnx", data, "--epsilon", "3", "--eval-every", "2", "--seed", str(seed),
                              "--quiet", "--json", "--out", f"{out}/run"], capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"{task}: {run.stderr}")
        seconds = json.loads(run.stdout)["seconds"]
        with open(f"{out}/run/metrics.csv", newline="") as file:
            return [[task, seed, at["step"], f"{float(at['epsilon']):.4f}", f"{100 * float(at['test_accuracy']):.2f}", f"{seconds:.0f}", guess]
                    for at in csv.DictReader(file)]


def main():
    damper, folder, results = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    with results.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for seed in range(SEEDS, SEEDS + runs):
            for task in TASKS:
                writer.writerows(rows(damper, folder, task, seed, majority(folder, task)))
                file.flush()


if __name__ == "__main__":
    main()
