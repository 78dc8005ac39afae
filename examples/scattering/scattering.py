"""ScatterNet as a fixed part of an ONNX model, after Tramèr & Boneh (arXiv 2011.11660).

    scattering.py encoder  writes the encoder: pixels [N, C, H, W] to normalised features [N, 81 C, H/4, W/4]
    scattering.py features runs the encoder over the data once and writes an .npz for `damper train --data npz:...`
    scattering.py head     writes a head without training: linear, the paper's CNN, or a smaller CNN
    scattering.py join     puts a trained head after the encoder: one .onnx from pixels to logits
"""

import argparse
import gzip
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D  # kymatio.torch needs an old SciPy
from torch import nn

J, L = 2, 8
CHANNELS = 1 + J * L + L * L  # of one input channel: orders 0, 1 and 2


class Scattering(nn.Module):
    """kymatio's Scattering2D(J=2, L=8) with its filters, [N, C, H, W] to [N, 81 C, H/4, W/4].

    Its circular convolutions are products with matrices of the Fourier transform, which ONNX can compute without
    complex numbers. Downsampling is in these matrices.
    """

    def __init__(self, height, width):
        super().__init__()
        kymatio = ScatteringTorch2D(J=J, L=L, shape=(height, width))
        sides = {"rows": (height, kymatio._M_padded), "columns": (width, kymatio._N_padded)}
        for axis, (side, padded) in sides.items():
            before = (padded - side) // 2
            reflect = np.pad(np.arange(side), (before, padded - side - before), mode="reflect")
            self.register_buffer(f"reflect_{axis}", torch.tensor(np.eye(side)[reflect]).float())
            self.constant(f"forward.{axis}", np.fft.fft(np.eye(padded)))
            for j in range(J):  # back from the Fourier domain, at each 2^j-th position
                self.constant(f"back.{j}.{axis}", np.fft.ifft(np.eye(padded))[:: 2**j])
        for j in range(J):
            waves = [psi["levels"][0] for psi in kymatio.psi if psi["j"] == j]
            self.register_buffer(f"waves_{j}", torch.tensor(np.stack(waves)).squeeze(-1).float())
            # The low pass is a product of a matrix along the rows and a matrix along the columns.
            low = np.asarray(kymatio.phi["levels"][j], dtype=np.float64).squeeze()
            rows, columns = low[:, 0] / np.sqrt(low[0, 0]), low[0] / np.sqrt(low[0, 0])
            assert np.abs(np.outer(rows, columns) - low).max() < 1e-6
            for axis, along in ("rows", rows), ("columns", columns):
                # kymatio drops one output at either end, which the padding produced.
                smooth = np.fft.ifft(along[:, None] * np.fft.fft(np.eye(len(along)), axis=0), axis=0).real
                self.register_buffer(f"low_{j}_{axis}", torch.tensor(smooth[:: 2 ** (J - j)][1:-1]).float())

    def constant(self, name, matrix):
        for part, values in ("re", matrix.real), ("im", matrix.imag):
            self.register_buffer(f"{name}.{part}".replace(".", "_"), torch.tensor(values.copy()).float())

    def transform(self, name, re, im=None):
        """M [re + i im] N', of the matrices of the rows and of the columns."""
        a, b, c, d = (getattr(self, f"{name}_{axis}_{part}") for axis in ("rows", "columns") for part in ("re", "im"))
        re, im = (a @ re, b @ re) if im is None else (a @ re - b @ im, b @ re + a @ im)
        return re @ c.T - im @ d.T, re @ d.T + im @ c.T

    def modulus(self, waves, j, re, im):
        re, im = self.transform(f"back_{j}", re * waves, im * waves)
        return torch.sqrt(re * re + im * im)

    def smooth(self, j, x):
        return getattr(self, f"low_{j}_rows") @ x @ getattr(self, f"low_{j}_columns").T

    def forward(self, x):
        channels, rows, columns = x.shape[1], self.forward_rows_re.shape[0], self.forward_columns_re.shape[0]
        x = self.reflect_rows @ x @ self.reflect_columns.T
        re, im = self.transform("forward", x)
        re, im = re.reshape(-1, channels, 1, rows, columns), im.reshape(-1, channels, 1, rows, columns)
        fine, coarse = (self.modulus(waves, j, re, im) for j, waves in enumerate((self.waves_0, self.waves_1)))
        re, im = (part.reshape(-1, channels * L, 1, rows, columns) for part in self.transform("forward", fine))
        second = self.smooth(1, self.modulus(self.waves_1, 1, re, im))
        h, w = second.shape[-2:]
        parts = [self.smooth(0, x).reshape(-1, channels, 1, h, w), self.smooth(0, fine), self.smooth(1, coarse)]
        parts.append(second.reshape(-1, channels, L * L, h, w))
        return torch.cat(parts, dim=2).reshape(-1, channels * CHANNELS, h, w)


def mirrored(channels):
    """The channels of the scattered mirror image, as channels of the scattered image. The filters' angles are (3 - l)
    pi / 8."""
    angle = (6 - np.arange(L)) % L
    first = [1 + j * L + angle for j in range(J)]
    second = 1 + J * L + (angle[:, None] * L + angle).ravel()
    return np.concatenate([CHANNELS * c + np.concatenate([[0], *first, second]) for c in range(channels)])


class Encoder(nn.Module):
    """Scales pixels by public constants, scatters, and normalises without parameters, at no cost in privacy.

    Either each group of channels of each sample has mean 0 and variance 1, or each channel is scaled by its mean and
    standard deviation over public images. `opponent`: colours become R + G + B, R - B and R - 2 G + B. `mirror`: the
    features are the average over an image and its mirror image, up to the positions of the outputs. The right half
    repeats the left half and is dropped. `whiten`: the channels are multiplied by the power -1/4 of their covariance
    over the public images, plus a tenth of its mean eigenvalue.
    """

    def __init__(self, shape, groups, mean, std, opponent=False, mirror=False, public=None, whiten=False):
        super().__init__()
        channels, height, width = shape
        self.scattering, self.groups, self.mean, self.std = Scattering(height, width), groups, mean, std
        self.mirror = torch.tensor(mirrored(channels)) if mirror else None
        colours = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, -1.0], [1.0, -2.0, 1.0]])
        self.register_buffer("colours", colours / colours.norm(dim=1, keepdim=True) if opponent else None)
        if public is not None:
            with torch.no_grad():
                x = self.scatter(torch.tensor(public).float() / 255)
            self.register_buffer("center", x.mean((0, 2, 3), keepdim=True))
            self.register_buffer("scale", x.std((0, 2, 3), keepdim=True))
        self.register_buffer("white", self.whitener(self.normalise(x)) if whiten else None)

    def whitener(self, x):
        x = x.double().transpose(0, 1).flatten(1)
        covariance = torch.cov(x, correction=0)
        if self.mirror is not None:  # the public images and their mirror images
            covariance = (covariance + covariance[self.mirror][:, self.mirror]) / 2
        values, vectors = torch.linalg.eigh(covariance)
        return (vectors * (values.clamp(min=0) + values.mean() / 10) ** -0.25 @ vectors.T).float()

    def scatter(self, x):
        x = (x - self.mean) / self.std
        if self.colours is not None:
            x = (self.colours @ x.flatten(2)).reshape(-1, *x.shape[1:])
        return self.scattering(x)

    def normalise(self, x):
        if not self.groups:
            return (x - self.center) / self.scale
        shape = x.shape[1:]
        x = x.reshape(-1, self.groups, shape.numel() // self.groups)
        x = x - x.mean(2, keepdim=True)
        return (x / torch.sqrt((x * x).mean(2, keepdim=True) + 1e-5)).reshape(-1, *shape)

    def forward(self, x):
        x = self.normalise(self.scatter(x))
        if self.mirror is not None:
            half = (x.shape[3] + 1) // 2
            x = (x[..., :half] + x[:, self.mirror].flip(3)[..., :half]) / 2
        return x if self.white is None else (self.white @ x.flatten(2)).reshape(x.shape)


def crops(files, height, width):
    """Crops of photographs at four scales, every half a crop."""
    from PIL import Image
    parts = []
    for file in files:
        photo = Image.open(file).convert("RGB")
        for h in (height * 3 // 2, height * 2, height * 3, height * 4):
            a = np.asarray(photo.resize((round(photo.width * h / photo.height), h), Image.LANCZOS)).transpose(2, 0, 1)
            parts += [a[:, i : i + height, j : j + width] for i in range(0, h - height + 1, height // 2)
                      for j in range(0, a.shape[2] - width + 1, width // 2)]
    return np.stack(parts)


def digits(name, height, width):
    """Public digits at the size of MNIST's, 20 of 28 pixels."""
    inner = [side * 5 // 7 for side in (height, width)]
    x = nn.functional.interpolate(torch.tensor(images(name)[0]).float(), inner, mode="bilinear").round().byte()
    (a, b), (c, d) = ((side // 2, side - side // 2) for side in (height - inner[0], width - inner[1]))
    return nn.functional.pad(x, (c, d, a, b)).numpy()


def linear(channels, height, width, classes):
    """One layer, which starts from zeros."""
    layer = nn.Linear(channels * height * width, classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def cnn(channels, height, width, classes):
    """The paper's CNN on the features of 32×32 images: two convolutions, tanh, a max pool, a linear layer."""
    return nn.Sequential(nn.Conv2d(channels, 64, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, padding=1), nn.Tanh(),
                         nn.Flatten(), nn.Linear(64 * (height // 2) * (width // 2), classes))


def pointwise(channels, height, width, classes):
    """A smaller CNN: a convolution of 1×1 with 128 channels, tanh, an average pool, a linear layer."""
    return nn.Sequential(nn.Conv2d(channels, 128, 1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
                         nn.Linear(128 * (height // 2) * (width // 2), classes))


def export(module, shape, path, names):
    x = torch.rand(2, *shape)
    torch.onnx.export(module.eval(), (x,), path, dynamo=False, opset_version=17, do_constant_folding=True, input_names=[names[0]],
                      output_names=[names[1]], dynamic_axes={name: {0: "batch"} for name in names})


def write_encoder(shape, groups, mean, std, path, **options):
    export(Encoder(shape, groups, mean, std, **options), shape, path, ("x", "features"))


def write_head(kind, shape, classes, seed, path):
    torch.manual_seed(seed)
    export(nn.Sequential(*{"linear": linear, "cnn": cnn, "pointwise": pointwise}[kind](*shape, classes)), shape, path, ("features", "logits"))


def join(encoder, head, path):
    """Joins both files. The head's parameters are called `head/...`, so `damper train JOINED.onnx --only 'head/*'`
    trains only them."""
    first, second = onnx.load(encoder), onnx.load(head)
    second = onnx.compose.add_prefix(second, "head/", rename_inputs=False, rename_outputs=False)
    second.ir_version = first.ir_version
    (features,), (given,) = first.graph.output, second.graph.input
    onnx.save(onnx.compose.merge_models(first, second, io_map=[(features.name, given.name)]), path)


def idx(path):
    with gzip.open(path) as file:
        header = file.read(4)
        shape = [int.from_bytes(file.read(4), "big") for _ in range(header[3])]
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def images(folder):
    """Pixels [N, C, H, W] and labels of a split: MNIST's two files by the prefix of their names, or a folder for each
    class."""
    if not Path(folder).is_dir():
        return idx(f"{folder}-images-idx3-ubyte.gz")[:, None], idx(f"{folder}-labels-idx1-ubyte.gz")
    from PIL import Image
    classes = sorted(path for path in Path(folder).iterdir() if path.is_dir())
    files = [(path, label) for label, name in enumerate(classes) for path in sorted(name.iterdir())]
    return np.stack([np.asarray(Image.open(path)).transpose(2, 0, 1) for path, _ in files]), np.array([label for _, label in files])


def write_features(encoder, splits, path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(encoder, options, providers=["CPUExecutionProvider"])
    arrays = {}
    for split, folder in splits.items():
        x, y = images(folder)
        parts = [session.run(None, {"x": x[i : i + 64].astype(np.float32) / 255})[0] for i in range(0, len(x), 64)]
        arrays |= {f"x_{split}": np.concatenate(parts), f"y_{split}": y.astype(np.int64)}
    np.savez(path, **arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    shape = {"type": lambda text: tuple(map(int, text.split(","))), "metavar": "C,H,W", "required": True}
    encoder = commands.add_parser("encoder")
    encoder.add_argument("--shape", help="of an image", **shape)
    encoder.add_argument("--groups", type=int, help="groups of channels that are normalised in each sample, a divisor of 81 C")
    public = encoder.add_mutually_exclusive_group()
    public.add_argument("--public", nargs="+", metavar="FILE",
                        help="public photographs, for --whiten; without --groups, each channel is scaled by constants from them")
    public.add_argument("--digits", help="the same with public digits: what the names of two files begin with, as MNIST's")
    encoder.add_argument("--opponent", action="store_true", help="colours become R + G + B, R - B and R - 2 G + B")
    encoder.add_argument("--mirror", action="store_true", help="averages over an image and its mirror image: half the features")
    encoder.add_argument("--whiten", action="store_true", help="partly whitens the channels, by their covariance over the public images")
    encoder.add_argument("--mean", type=float, default=0.0, help="public constant: pixels become (x - mean) / std")
    encoder.add_argument("--std", type=float, default=1.0)
    features = commands.add_parser("features")
    features.add_argument("encoder")
    features.add_argument("--train", required=True, help="a folder of classes, or what MNIST's two files begin with")
    features.add_argument("--test", required=True)
    features.add_argument("--threads", type=int, default=0)
    head = commands.add_parser("head")
    head.add_argument("kind", choices=["linear", "cnn", "pointwise"])
    head.add_argument("--shape", help="of the features", **shape)
    head.add_argument("--classes", type=int, default=10)
    head.add_argument("--seed", type=int, default=0, help="of a CNN's first parameters, public")
    joined = commands.add_parser("join")
    joined.add_argument("encoder")
    joined.add_argument("head")
    for command in encoder, features, head, joined:
        command.add_argument("--out", required=True)
    args = parser.parse_args()
    match args.command:
        case "encoder":
            public = crops(args.public, *args.shape[1:]) if args.public else digits(args.digits, *args.shape[1:]) if args.digits else None
            if public is None and (args.whiten or not args.groups):
                parser.error("give --public or --digits with --whiten, and if there is no --groups")
            write_encoder(args.shape, args.groups, args.mean, args.std, args.out, opponent=args.opponent, mirror=args.mirror, public=public,
                          whiten=args.whiten)
        case "features": write_features(args.encoder, {"train": args.train, "test": args.test}, args.out, args.threads)
        case "head": write_head(args.kind, args.shape, args.classes, args.seed, args.out)
        case "join": join(args.encoder, args.head, args.out)


if __name__ == "__main__":
    main()
