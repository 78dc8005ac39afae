"""Trains a task with the default settings and with its tuned settings, and prints a line of JSON for each run.

    python3 benches/defaults/run.py DAMPER FOLDER RESULTS.jsonl [--tasks NAME...] [--epsilon E...] [--seeds N] [--copy]

DAMPER is the command, and FOLDER is what tasks.py wrote. The tuned settings are in tuned.json, which tune.py wrote. Runs that RESULTS.jsonl
has already are not repeated. The runs have seeds, so they are simulations: same bits on a second try. With --copy they are runs of the
copy of DP-SGD in tune.py.
"""

import argparse
import json
import math
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "onnx-models/digits"
# Training samples, trained parameters and the sum of the layers' inputs: the public facts that the rule takes.
FACTS = {"digits": (1437, 2730, 265), "diamonds": (10000, 3717, 118), "sst2-bag": (10000, 8210, 9), "mnist-hog": (10000, 3250, 324),
         "mnist-cnn": (2000, 9226, 881), "flchain": (6299, 850, 56), "sst2-minilm": (10000, 770, 384), "cifar-hog": (10000, 3250, 324),
         "insurance": (10000, 1202, 67), "mnist-mlp": (3000, 25450, 816), "sst2-words": (4000, 16402, 9), "cifar-mlp": (5000, 21450, 388),
         "pharmacy": (8000, 2850, 106), "mnist-wide": (6000, 20746, 1737), "hog-mlp": (4000, 10730, 356),
         "sst2-large": (20000, 65570, 17)}
TEXT = {"sst2-bag", "sst2-words", "sst2-large"}  # inputs are integers
SEEDS = 101  # of the first run. The seeds of tune.py are below


def delta(samples):
    return 10.0 ** math.floor(math.log10(min(1e-5, samples**-1.1)) + 1e-9)


def defaults(task):
    samples, parameters, fan_in = FACTS[task]
    batch, epochs = min(samples, round(8 * math.sqrt(samples))), max(1, min(40, 1e6 / samples))
    steps = epochs * samples / batch
    each, clip = (min(1, 128 / math.sqrt(parameters)), 0.1) if task in TEXT else (min(0.4, 4 / math.sqrt(fan_in)), 1)
    return {"optimizer": "adam", "batch": batch, "epochs": epochs, "lr": round(each / math.sqrt(steps), 5), "clip": clip}


def accuracy(damper, folder, task, epsilon, settings, seed):
    data = f"idx:{DIGITS}" if task == "digits" else f"npz:{folder / task}.npz"
    with tempfile.TemporaryDirectory() as out:
        run = subprocess.run(
            [damper, "train", folder / f"{task}.onnx", "--data", data, "--epsilon", str(epsilon), "--delta", str(delta(FACTS[task][0])),
             "--optimizer", settings["optimizer"], "--batch-size", str(settings["batch"]), "--epochs", str(settings["epochs"]),
             "--lr", str(settings["lr"]), "--clip", str(settings["clip"]), "--seed", str(seed), "--workers", "1", "--no-checkpoint",
             "--quiet", "--json", "--out", f"{out}/run"], capture_output=True, text=True)
    report = json.loads(run.stdout)
    if report["privacy"]["samples"] != FACTS[task][0]:
        raise SystemExit(f"{task} has {report['privacy']['samples']} samples")
    return 100 * report["test_accuracy"]


def copied(folder, task):
    from tune import Copy

    return Copy(folder, task)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("damper")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("results", type=Path)
    arguments.add_argument("--tasks", nargs="+", default=list(FACTS))
    arguments.add_argument("--epsilon", nargs="+", type=int, default=[1, 3, 8])
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--copy", action="store_true")
    given = arguments.parse_args()
    tuned = json.loads((HERE / "tuned.json").read_text()) if (HERE / "tuned.json").exists() else {}
    done = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    for task in given.tasks:
        copy = copied(given.folder, task) if given.copy else None
        for epsilon in given.epsilon:
            for kind, settings in ("default", defaults(task)), ("tuned", tuned.get(task, {}).get(str(epsilon))):
                for seed in range(SEEDS, SEEDS + given.seeds) if settings else []:
                    line = {"task": task, "epsilon": epsilon, "kind": kind, "seed": seed, "settings": settings}
                    if any(all(old[key] == value for key, value in line.items()) for old in done):
                        continue
                    line["program"] = "copy" if copy else "damper"
                    line["accuracy"] = (copy.accuracy(given.damper, task, epsilon, settings, seed) if copy
                                        else accuracy(given.damper, given.folder, task, epsilon, settings, seed))
                    with given.results.open("a") as file:
                        print(json.dumps(line), file=file)


if __name__ == "__main__":
    main()
