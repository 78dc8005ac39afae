"""Typical modules of users: `CASES` is `{name: (make, inputs, labels, loss)}`, with inputs as arrays for 24 samples."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import damper

N = 24


def images(channels=1, size=8):
    return np.random.default_rng(0).standard_normal((N, channels, size, size)).astype(np.float32)


def sequences(length=6, width=8):
    return np.random.default_rng(1).standard_normal((N, length, width)).astype(np.float32)


def tokens(length=7, vocabulary=20):
    return np.random.default_rng(2).integers(0, vocabulary, (N, length))


def classes(count=4):
    return np.random.default_rng(3).integers(0, count, N)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4)
    )


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(h)))


def resnet():
    """With BatchNorm replaced by GroupNorm."""
    return damper.fix(
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(8, 4),
        )
    )


class ViT(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 5, width))
        layer = nn.TransformerEncoderLayer(width, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x)[:, 0]))


class Encoder(nn.Module):
    """PyTorch's encoder, with dropout."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 4)

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids)).mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rnn = kind(8, 12, batch_first=True, **options)
        width = 12 * (2 if options.get("bidirectional") else 1)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Bag(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(20, 8, **options), nn.Linear(8, 4)

    def forward(self, ids):
        return self.head(self.bag(ids))


class WeightedBag(Bag):
    """Each id has its own weight."""

    def forward(self, ids, weights):
        return self.head(self.bag(ids, per_sample_weights=weights))


class Adapted(nn.Module):
    """A frozen layer with a hand-written low-rank adapter."""

    def __init__(self, rank=2):
        super().__init__()
        self.base, self.head = nn.Linear(64, 16), nn.Linear(16, 4)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Parameter(0.1 * torch.randn(rank, 64)), nn.Parameter(0.1 * torch.randn(16, rank))

    def forward(self, x):
        x = x.flatten(1)
        return self.head(torch.tanh(self.base(x) + x @ self.down.T @ self.up.T))


class GPT(nn.Module):
    """The output layer shares the embedding's weight, and the causal mask is a buffer."""

    def __init__(self, vocabulary=20, width=16, length=7):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).bool())

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~self.mask, -1e9)
        x = x + self.out(scores.softmax(-1) @ v)
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(self.norm3(x))


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.full((64,), 0.1))
        self.register_buffer("std", torch.full((64,), 2.0))
        self.net = mlp()

    def forward(self, x):
        return self.net((x.flatten(1) - self.mean) / self.std)


def frozen():
    net = cnn()
    for parameter in net[0].parameters():
        parameter.requires_grad_(False)
    return net


class Shared(nn.Module):
    """One linear layer and one norm, each applied twice. Both this norm and a second norm start with the value 1."""

    def __init__(self):
        super().__init__()
        self.first, self.both, self.norm, self.last_norm = nn.Linear(64, 16), nn.Linear(16, 16), nn.LayerNorm(16), nn.LayerNorm(16)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = self.first(x.flatten(1))
        for _ in range(2):
            x = F.gelu(self.norm(self.both(x)))
        return self.head(self.last_norm(x))


def conv1d():
    return nn.Sequential(nn.Conv1d(6, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 8, 3, stride=2), nn.AvgPool1d(2), nn.Flatten(), nn.LazyLinear(4))


def depthwise():
    return nn.Sequential(
        nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6, padding=1), nn.GroupNorm(2, 6), nn.SiLU(), nn.Conv2d(6, 8, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.table, self.head = nn.Linear(64, 8), nn.Embedding(20, 8), nn.Linear(16, 4)

    def forward(self, image, ids):
        return self.head(torch.cat([self.image(image.flatten(1)).tanh(), self.table(ids).sum(1)], 1))


class OwnLoss(nn.Module):
    """An autoencoder that computes its loss, [N], from its inputs alone."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(64, 8), nn.Linear(8, 64)

    def forward(self, x):
        x = x.flatten(1)
        return ((self.decode(self.encode(x).tanh()) - x) ** 2).mean(1)


def regression():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Softplus(), nn.Linear(8, 2))


def mixture():
    """Scale parameters without a dot in their names, a learned temperature, a norm without weights."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.temperature = nn.Parameter(torch.ones(64)), nn.Parameter(torch.ones(1))
            self.norm, self.head = nn.LayerNorm(64, elementwise_affine=False), nn.Linear(64, 4)

        def forward(self, x):
            return self.head(self.norm(x.flatten(1) * self.gate)) / self.temperature

    return Scaled()


def unused():
    net = mlp()
    net.register_parameter("spare", nn.Parameter(torch.randn(3)))
    return net


y, values = classes(), np.random.default_rng(4).standard_normal((N, 2)).astype(np.float32)
CASES = {
    "mlp": (mlp, images(), y, None),
    "cnn": (cnn, images(), y, nn.CrossEntropyLoss()),
    "resnet": (resnet, images(3), y, None),
    "vit": (ViT, images(3), y, None),
    "encoder": (Encoder, tokens(), y, None),
    "lstm": (lambda: Recurrent(nn.LSTM), sequences(), y, None),
    "lstm-stacked": (lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), sequences(), y, None),
    "gru": (lambda: Recurrent(nn.GRU), sequences(), y, None),
    "rnn": (lambda: Recurrent(nn.RNN), sequences(), y, None),
    "bag-mean": (Bag, tokens(), y, None),
    "bag-sum": (lambda: Bag(mode="sum"), tokens(), y, None),
    "bag-max": (lambda: Bag(mode="max"), tokens(), y, None),
    "bag-padded": (lambda: Bag(padding_idx=-1), tokens(), y, None),
    "bag-weighted": (lambda: WeightedBag(mode="sum"), (tokens(), sequences(7, 1)[..., 0]), y, None),
    "gpt": (GPT, tokens(), np.roll(tokens(), -1, 1), "softmax-cross-entropy"),
    "buffered": (Buffered, images(), y, None),
    "frozen": (frozen, images(), y, None),
    "adapted": (Adapted, images(), y, None),
    "shared": (Shared, images(), y, None),
    "conv1d": (conv1d, np.random.default_rng(5).standard_normal((N, 6, 17)).astype(np.float32), y, None),
    "depthwise": (depthwise, images(3), y, None),
    "two-inputs": (TwoInputs, (images(), tokens()), y, None),
    "two-by-name": (TwoInputs, {"ids": tokens(), "image": images()}, y, None),
    "own-loss": (OwnLoss, images(), None, "output"),
    "regression": (regression, images(), values, nn.MSELoss()),
    "mixture": (mixture, images(), y, None),
    "unused": (unused, images(), y, None),
}


def tensors(inputs):
    """Returns inputs in call form: `(args, kwargs)`."""
    if isinstance(inputs, dict):
        return (), {name: torch.from_numpy(value) for name, value in inputs.items()}
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    return tuple(torch.from_numpy(value) for value in parts), {}
