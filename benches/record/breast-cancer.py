"""The breast-cancer table of scikit-learn at epsilon 1: 20 splits, private and not, with the interval of the mean.

    pip install numpy onnx scikit-learn
    python3 benches/record/breast-cancer.py path/to/damper
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from scipy.stats import t
from sklearn.datasets import load_breast_cancer

SPLITS = 20
COMMON = ["--test", "0.2", "--loss", "bce-with-logits", "--optimizer", "momentum", "--backend", "tract", "--workers", "1",
          "--no-checkpoint", "--quiet", "--json"]
PRIVATE = ["--epsilon", "1", "--delta", "1e-5", "--batch-size", "128", "--epochs", "28", "--lr", "0.1", "--clip", "1"]
PLAIN = ["--not-private", "--batch-size", "128", "--epochs", "200", "--lr", "0.1"]


def write_model(path, inputs):
    """Logistic regression that starts from zeros."""
    value = helper.make_tensor_value_info
    weights = [helper.make_tensor("weight", TensorProto.FLOAT, [inputs, 1], np.zeros(inputs)),
               helper.make_tensor("bias", TensorProto.FLOAT, [1], [0.0])]
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"])], "logistic",
                              [value("x", TensorProto.FLOAT, ["batch", inputs])], [value("logits", TensorProto.FLOAT, ["batch", 1])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_table(path):
    """The rows with their logarithms, scaled to [-2, 2] by the ranges that the table's description publishes: public constants here."""
    x, y = load_breast_cancer(return_X_y=True)
    x = np.log(x + x.max(0) / 100)
    low, high = x.min(0), x.max(0)
    x = 4 * (x - low) / (high - low) - 2
    np.savetxt(path, np.column_stack([x, y]), fmt="%.6f", delimiter=",")


def interval(values):
    values = 100 * np.array(values)
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.2f} ± {values.std(ddof=1):.2f}, 95 % interval of the mean {values.mean() - half:.2f} to {values.mean() + half:.2f}"


def main(damper):
    with tempfile.TemporaryDirectory() as folder:
        model, table = Path(folder, "model.onnx"), Path(folder, "table.csv")
        write_model(model, 30)
        write_table(table)
        found = {"epsilon 1": [], "not private": []}
        for split in range(1, SPLITS + 1):
            for (name, accuracies), flags in zip(found.items(), (PRIVATE, PLAIN)):
                command = [damper, "train", model, "--data", f"csv:{table}", "--out", Path(folder, f"{name} {split}"), "--seed", split,
                           "--split-seed", split, *COMMON, *flags]
                done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                accuracies.append(json.loads(done.stdout)["test_accuracy"])
        for name, accuracies in found.items():
            print(f"{name}: {interval(accuracies)}")
        print(f"difference: {interval(np.subtract(*found.values()))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
