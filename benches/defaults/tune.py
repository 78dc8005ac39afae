"""Searches the best settings of a task at each epsilon over a grid, and writes them into tuned.json.

    python3 benches/defaults/tune.py DAMPER FOLDER LOG [NAME...]

The grid has 28 settings: SGD with lr * clip of 1/4 to 16, and Adam with three rates. There are four pairs of batch size and epochs, and
for both also a clip of 1. CNNs have six of the settings, with the batch size and epochs of the rule. Each setting is tried with one seed,
and the best two with another. The best mean on the test rows wins, which favours the tuned setting. What tuned.json has already is not
repeated. CNNs train through damper. The other networks train in the copy of DP-SGD in NumPy below, which is several times as fast.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import run  # noqa: E402

CNNS = {"digits", "mnist-cnn", "mnist-wide"}


def grid(task):
    base = run.defaults(task)
    batch, epochs = base["batch"], base["epochs"]
    if task in CNNS:
        yield {**base, "lr": round(2 * base["lr"], 5)}
        yield {**base, "lr": round(base["lr"] / 2, 5)}
        for product in 0.5, 1, 2, 4:
            yield {**base, "optimizer": "sgd", "clip": 0.1, "lr": product / 0.1}
        return
    for batch_now, epochs_now, factors, products in ((batch, epochs, (0.15, 1 / 3, 1), (0.25, 0.5, 1, 2, 4, 8, 16)),
                                                     (2 * batch, 2 * epochs, (1 / 3, 1), (1, 4)),
                                                     (batch // 2, epochs, (1 / 3, 1), (1, 4)),
                                                     (batch, epochs / 3, (1 / 3, 1), (1, 4))):
        common = {"batch": batch_now, "epochs": round(epochs_now, 2), "clip": 0.1}
        root = (epochs_now * run.FACTS[task][0] / batch_now) ** 0.5
        for factor in factors:
            yield {"optimizer": "adam", **common, "lr": round(factor / root, 5)}
        for product in products:
            yield {"optimizer": "sgd", **common, "lr": product / 0.1}
    common = {"batch": batch, "epochs": epochs, "clip": 1}
    for product in 0.5, 2, 8:
        yield {"optimizer": "sgd", **common, "lr": product}
    for factor in (0.1, 0.2, 0.5):
        yield {"optimizer": "adam", **common, "lr": round(factor / (epochs * run.FACTS[task][0] / batch) ** 0.5, 5)}


@functools.cache
def noise_multiplier(damper, epsilon, delta, samples, batch, steps):
    made = subprocess.run([damper, "calibrate", "--epsilon", str(epsilon), "--delta", str(delta), "--samples", str(samples),
                           "--batch-size", str(batch), "--steps", str(steps), "--json"], capture_output=True, text=True, check=True)
    return json.loads(made.stdout)["noise_multiplier"]


def bags(ids, mask, table):
    """The weight of each embedding in the mean of a text, sparse."""
    from scipy.sparse import csr_array

    weights = (mask / mask.sum(1, keepdims=True)).astype(np.float32)
    places = np.repeat(np.arange(len(ids)), ids.shape[1]), ids.ravel()
    return csr_array((weights.ravel(), places), shape=(len(ids), table))


class Copy:
    """DP-SGD on linear layers with tanh between them. A bag of embeddings is a linear layer without bias or tanh."""

    def __init__(self, folder, task):
        data = np.load(folder / f"{task}.npz")
        self.bag = "ids_train" in data
        self.y, self.y_test = data["y_train"], data["y_test"]
        named = {part.name: onnx.numpy_helper.to_array(part) for part in onnx.load(folder / f"{task}.onnx").graph.initializer}
        arrays = [array for array in named.values() if array.dtype == np.float32]
        if self.bag:
            arrays = [arrays[0].T, None, *arrays[1:]]
        self.x, self.x_test = (bags(data[f"ids_{part}"], data[f"mask_{part}"], arrays[0].shape[1]) if self.bag else data[f"x_{part}"]
                               for part in ("train", "test"))
        self.layers = list(zip(arrays[::2], arrays[1::2]))

    def forward(self, layers, x):
        inputs = []
        for place, (weight, bias) in enumerate(layers):
            inputs.append(x)
            x = x @ weight.T + (0 if bias is None else bias)
            if place + 1 < len(layers) and not self.bag:
                x = np.tanh(x)
        return inputs, x

    def clipped_sum(self, layers, rows, clip):
        inputs, logits = self.forward(layers, self.x[rows])
        part = np.exp(logits - logits.max(1, keepdims=True))
        part /= part.sum(1, keepdims=True)
        part[np.arange(len(rows)), self.y[rows]] -= 1
        parts = [part]
        for place in range(len(layers) - 1, 0, -1):
            part = part @ layers[place][0]
            if not self.bag:
                part = part * (1 - inputs[place] ** 2)
            parts.insert(0, part)
        squares = sum((part**2).sum(1) * ((given * given).sum(1) + (bias is not None)) for part, given, (_, bias) in zip(parts, inputs, layers))
        factor = (clip / np.maximum(np.sqrt(squares), clip))[:, None].astype(np.float32)
        return [((part * factor).T @ given, None if bias is None else (part * factor).sum(0))
                for part, given, (_, bias) in zip(parts, inputs, layers)]

    def accuracy(self, damper, task, epsilon, settings, seed):
        random, samples = np.random.default_rng(seed), len(self.y)
        batch, steps = settings["batch"], max(1, round(settings["epochs"] * samples / settings["batch"]))
        sigma = noise_multiplier(damper, epsilon, run.delta(samples), samples, batch, steps)
        values = [array.copy() for layer in self.layers for array in layer if array is not None]
        moments = [[np.zeros_like(value), np.zeros_like(value)] for value in values]
        for step in range(1, steps + 1):
            layers = self.pairs(values)
            total = self.clipped_sum(layers, np.flatnonzero(random.random(samples) < batch / samples), settings["clip"])
            for value, moment, part in zip(values, moments, (part for pair in total for part in pair if part is not None)):
                noise = random.standard_normal(part.shape, dtype=np.float32) * np.float32(sigma * settings["clip"])
                update = (part + noise) / np.float32(batch)
                if settings["optimizer"] == "adam":
                    moment[0] = 0.9 * moment[0] + 0.1 * update
                    moment[1] = 0.999 * moment[1] + 0.001 * update**2
                    update = moment[0] / (1 - 0.9**step) / (np.sqrt(moment[1] / (1 - 0.999**step)) + 1e-8)
                value -= np.float32(settings["lr"]) * update
        return 100 * float((self.forward(self.pairs(values), self.x_test)[1].argmax(1) == self.y_test).mean())

    def pairs(self, values):
        rest = iter(values)
        return [(next(rest), None if bias is None else next(rest)) for _, bias in self.layers]


def stored(path):
    return json.loads(path.read_text()) if path.exists() else {}


def main():
    damper, folder, log = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    path = run.HERE / "tuned.json"
    for task in sys.argv[4:] or run.FACTS:
        copy = None if task in CNNS else Copy(folder, task)
        for epsilon in 1, 3, 8:
            if str(epsilon) in stored(path).get(task, {}):
                continue

            def tried(settings, seed, epsilon=epsilon):
                if copy:
                    return copy.accuracy(damper, task, epsilon, settings, seed)
                return run.accuracy(damper, folder, task, epsilon, settings, seed)

            found = sorted(((tried(settings, 1), settings) for settings in grid(task)), key=lambda pair: -pair[0])
            best = max((accuracy + tried(settings, 2), settings["lr"], settings) for accuracy, settings in found[:2])
            with log.open("a") as file:
                for accuracy, settings in found:
                    print(json.dumps({"task": task, "epsilon": epsilon, "accuracy": accuracy, "settings": settings}), file=file)
            tuned = stored(path)
            tuned.setdefault(task, {})[str(epsilon)] = best[2]
            path.write_text(json.dumps(tuned, indent=1) + "\n")


if __name__ == "__main__":
    main()
