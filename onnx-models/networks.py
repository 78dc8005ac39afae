"""The networks of this folder as PyTorch modules. The table in README.md describes them."""

from collections import OrderedDict

import torch
from torch import nn


class Scaled(nn.Module):
    """`(x - mean) / std` with public constants: exercises Sub and Div with operands that are not parameters."""

    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x):
        return (x - self.mean) / self.std


class Swish(nn.Module):
    """`x * sigmoid(x)`, written out, so that exporters emit Sigmoid and Mul."""

    def forward(self, x):
        return x * torch.sigmoid(x)


def named(**layers):
    """A Sequential whose parameters have descriptive names: `conv1.weight`, not `0.weight`."""
    return nn.Sequential(OrderedDict(layers))


def digits_linear():
    """Logistic regression: 650 parameters, which a Cortex-M0 with 16 KB of RAM trains."""
    return named(fc=nn.Linear(64, 10))


def digits_mlp():
    return named(fc1=nn.Linear(64, 32), act1=nn.Tanh(), fc2=nn.Linear(32, 10))


def digits_cnn():
    """Pixels 0 to 1 are centred first, followed by only one convolution. Under DP-SGD at epsilon 4 the centring gained
    3 points of held-out accuracy, and leaving out a second convolution 2 more."""
    return named(
        centred=Scaled(0.5, 0.5),
        conv=nn.Conv2d(1, 16, 3, padding=1), act=nn.Tanh(), pool=nn.AvgPool2d(2),
        flat=nn.Flatten(), fc=nn.Linear(256, 10),
    )


def mnist_cnn():
    """The network of Papernot et al. (arXiv 2007.14191), 26,010 parameters."""
    return named(
        conv1=nn.Conv2d(1, 16, 8, stride=2, padding=3), act1=nn.Tanh(), pool1=nn.MaxPool2d(2, 1),
        conv2=nn.Conv2d(16, 32, 4, stride=2), act2=nn.Tanh(), pool2=nn.MaxPool2d(2, 1),
        flat=nn.Flatten(), fc1=nn.Linear(512, 32), act3=nn.Tanh(), fc2=nn.Linear(32, 10),
    )


def sensor_cnn():
    """Three axes of an accelerometer in windows of 64 readings, four kinds of motion: the network of docs/compile.md."""
    return named(
        conv1=nn.Conv1d(3, 8, 5, stride=2, padding=2), act1=nn.ReLU(),
        conv2=nn.Conv1d(8, 16, 5, stride=2, padding=2), act2=nn.ReLU(), pool=nn.AvgPool1d(2),
        flat=nn.Flatten(), fc=nn.Linear(128, 4),
    )


def digits_cnn_groupnorm():
    return named(
        conv1=nn.Conv2d(1, 8, 3, padding=1), norm1=nn.GroupNorm(2, 8), act1=nn.ReLU(),
        conv2=nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), norm2=nn.GroupNorm(4, 16),
        act2=nn.LeakyReLU(0.1),
        depthwise=nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16),
        grouped=nn.Conv2d(16, 16, 1, groups=4), act3=Swish(), pool1=nn.AvgPool2d(2),
        conv3=nn.Conv2d(16, 24, 2, padding=1), act4=nn.ReLU(), pool2=nn.AdaptiveAvgPool2d(1),
        flat=nn.Flatten(), fc=nn.Linear(24, 10),
    )


# Larger networks, shipped without weights: `damper init` draws them. Their exports keep the names of the parameters.


def cifar_cnn():
    """The network of Papernot et al. (arXiv 2007.14191) and Tramèr and Boneh (arXiv 2011.11660), 550,570 parameters."""
    def convolutions(index, inputs, outputs):
        return {
            f"conv{index}": nn.Conv2d(inputs, outputs, 3, padding=1), f"act{index}": nn.Tanh(),
            f"conv{index + 1}": nn.Conv2d(outputs, outputs, 3, padding=1), f"act{index + 1}": nn.Tanh(),
            f"pool{index}": nn.MaxPool2d(2),
        }

    return named(
        **convolutions(1, 3, 32), **convolutions(3, 32, 64), **convolutions(5, 64, 128),
        flat=nn.Flatten(), fc1=nn.Linear(2048, 128), act7=nn.Tanh(), fc2=nn.Linear(128, 10),
    )


def cifar_cnn5():
    """The 5-layer CNN of DOPPLER, DiSK and DP-PMLF, 619,876 parameters: a hundred outputs, for CIFAR-10, too."""
    layers, channels = {}, [3, 32, 64, 128, 256]
    for index, (inputs, outputs) in enumerate(zip(channels, channels[1:]), 1):
        layers[f"conv{index}"] = nn.Conv2d(inputs, outputs, 3, padding=1)
        layers[f"act{index}"] = nn.Tanh()
        layers[f"norm{index}"] = nn.GroupNorm(16, outputs)
        if index <= 3:
            layers[f"pool{index}"] = nn.MaxPool2d(2)
    return named(**layers, conv5=nn.Conv2d(256, 100, 3, padding=1), act5=nn.Tanh(), pool5=nn.AvgPool2d(4), flat=nn.Flatten())


class BasicBlock(nn.Module):
    """Two 3×3 convolutions, each followed by a norm, and the input added (He et al., arXiv 1512.03385)."""

    def __init__(self, inputs, outputs, stride, groups):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(groups, outputs)
        self.short = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.short = named(conv=nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm=nn.GroupNorm(groups, outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.short(x))


def resnet18_groupnorm():
    """ResNet-18 for 32×32 images (first convolution 3×3, no first pool) with GroupNorm in groups of 32."""
    layers, inputs = {}, 64
    for stage, outputs in enumerate([64, 128, 256, 512], 1):
        for block in range(2):
            stride = 2 if stage > 1 and block == 0 else 1
            layers[f"block{stage}{'ab'[block]}"] = BasicBlock(inputs, outputs, stride, 32)
            inputs = outputs
    return named(
        conv=nn.Conv2d(3, 64, 3, padding=1, bias=False), norm=nn.GroupNorm(32, 64), act=nn.ReLU(), **layers,
        pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), fc=nn.Linear(512, 10),
    )


class PreActivation(nn.Module):
    """Norms before the convolutions (Zagoruyko and Komodakis, arXiv 1605.07146)."""

    def __init__(self, inputs, outputs, stride, groups):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.GroupNorm(groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride != 1 or inputs != outputs else None

    def forward(self, x):
        y = torch.relu(self.norm1(x))
        short = x if self.short is None else self.short(y)
        return self.conv2(torch.relu(self.norm2(self.conv1(y)))) + short


def wrn_16_4_groupnorm():
    """WRN-16-4 with GroupNorm in 16 groups, as De et al. (arXiv 2204.13650) train it, without weight standardisation."""
    layers, inputs = {}, 16
    for stage, outputs in enumerate([64, 128, 256], 1):
        for block in range(2):
            stride = 2 if stage > 1 and block == 0 else 1
            layers[f"block{stage}{'ab'[block]}"] = PreActivation(inputs, outputs, stride, 16)
            inputs = outputs
    return named(
        conv=nn.Conv2d(3, 16, 3, padding=1, bias=False), **layers,
        norm=nn.GroupNorm(16, 256), act=nn.ReLU(), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), fc=nn.Linear(256, 10),
    )


class Attention(nn.Module):
    """Self-attention of several heads, written out. `mask` is added to the scores."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask=None):
        # Fixed, so that the file has no shape arithmetic.
        tokens, width = int(x.shape[1]), int(x.shape[2])
        size = width // self.heads

        def split(y):
            return y.reshape(-1, tokens, self.heads, size).transpose(1, 2)

        scores = split(self.query(x)) @ split(self.key(x)).transpose(2, 3) * size**-0.5
        if mask is not None:
            scores = scores + mask
        mixed = torch.softmax(scores, -1) @ split(self.value(x))
        return self.out(mixed.transpose(1, 2).reshape(-1, tokens, width))


class Block(nn.Module):
    """A transformer layer. The norms are before the branches, or (`post`) after the sums."""

    def __init__(self, width, heads, eps, gelu="none", post=False):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps)
        self.fc1 = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU(gelu)
        self.fc2 = nn.Linear(4 * width, width)
        self.post = post

    def forward(self, x, mask=None):
        if self.post:
            x = self.norm1(x + self.attention(x, mask))
            return self.norm2(x + self.fc2(self.gelu(self.fc1(x))))
        x = x + self.attention(self.norm1(x), mask)
        return x + self.fc2(self.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    """ViT-Ti (Dosovitskiy et al., arXiv 2010.11929 and Touvron et al., arXiv 2012.12877) for 32×32 images in patches of
    4×4."""

    def __init__(self, width=192, depth=12, heads=3):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 65, width))
        self.blocks = nn.ModuleList(Block(width, heads, 1e-6) for _ in range(depth))
        self.norm = nn.LayerNorm(width, 1e-6)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Bert(nn.Module):
    """BERT-tiny (Turc et al., arXiv 1908.08962: 2 layers, width 128) with a classifier on the first token. Token 0 is
    padding, and there are no segments. The vocabulary is that of `text/wordpiece.json`."""

    def __init__(self, tokens=64, vocabulary=4096, width=128, classes=2):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(Block(width, 2, 1e-12, post=True) for _ in range(2))
        self.pool = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, input_ids, attention_mask):
        mask = (1 - attention_mask[:, None, None, :].to(self.words.weight.dtype)) * torch.finfo(torch.float32).min
        x = self.norm(self.words(input_ids) + self.positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.classifier(torch.tanh(self.pool(x[:, 0])))


class Gpt(nn.Module):
    """Small GPT-2 layers (Radford et al. 2019) over the bytes of `text/bytes.json` (0 padding, 1 begin, 2 end, 3 + b
    byte b). The output layer is the embedding."""

    def __init__(self, tokens=64, vocabulary=259, width=128, depth=4, heads=4):
        super().__init__()
        self.bytes = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.blocks = nn.ModuleList(Block(width, heads, 1e-5, "tanh") for _ in range(depth))
        self.norm = nn.LayerNorm(width, 1e-5)
        self.register_buffer("mask", torch.full((tokens, tokens), float("-inf")).triu(1))

    def forward(self, input_ids):
        x = self.bytes(input_ids) + self.positions
        for block in self.blocks:
            x = block(x, self.mask)
        return self.norm(x) @ self.bytes.weight.T


# The networks from here on are only for tests.


class Reshaped(nn.Module):
    """Flattens by `reshape`, so a fixed-batch export holds the batch size in a constant."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(torch.tanh(self.conv(x)).reshape(x.shape[0], -1))


class Operators(nn.Module):
    """The operators that the shipped networks do not use: Sub, Div, Softmax, LogSoftmax, Transpose, MatMul between
    batched values and with a rank-3 operand, a scalar parameter, a parameter used elementwise."""

    def __init__(self):
        super().__init__()
        self.scaled = Scaled(0.5, 0.25)
        self.query = nn.Linear(8, 6)
        self.key = nn.Linear(8, 6, bias=False)
        self.shift = nn.Parameter(torch.randn(8) * 0.1)
        self.temperature = nn.Parameter(torch.tensor(2.0))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        rows = self.scaled(x).squeeze(1) - self.shift
        scores = self.query(rows) @ self.key(rows).transpose(1, 2) / self.temperature
        mixed = torch.softmax(scores, -1) @ rows
        return torch.log_softmax(self.fc(mixed.flatten(1)), -1)


class Recurrences(nn.Module):
    """Two layers of LSTM in both directions, a GRU on all their states, and an RNN on those, over the rows of an image."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 6, batch_first=True)
        self.rnn = nn.RNN(6, 4, nonlinearity="relu", batch_first=True)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        states, (_, cells) = self.lstm(x.squeeze(1))
        states, _ = self.rnn(self.gru(states)[0])
        return self.fc(torch.cat([states[:, -1], states[:, 0] + cells[-1][:, :4]], dim=1))


def batchnorm():
    """BatchNorm after the activation, so that no exporter folds it into the convolution, and with running statistics
    as after some training."""
    net = named(
        conv=nn.Conv2d(1, 4, 3), act=nn.ReLU(), norm=nn.BatchNorm2d(4), flat=nn.Flatten(), fc=nn.Linear(144, 10)
    )
    nn.init.normal_(net.norm.running_mean)
    nn.init.uniform_(net.norm.running_var, 0.5, 2.0)
    return net


def instancenorm():
    return named(
        conv=nn.Conv2d(1, 4, 3), norm=nn.InstanceNorm2d(4, affine=True), act=nn.ReLU(),
        flat=nn.Flatten(), fc=nn.Linear(144, 10),
    )


def merged_norms():
    """Two GroupNorms of one width at their initial values, which exporters merge."""
    return named(
        conv1=nn.Conv2d(1, 8, 3, padding=1), norm1=nn.GroupNorm(2, 8), act1=nn.Tanh(),
        conv2=nn.Conv2d(8, 8, 3, stride=2, padding=1), norm2=nn.GroupNorm(4, 8), act2=nn.Tanh(),
        flat=nn.Flatten(), fc=nn.Linear(128, 10),
    )


def dynamic_axis():
    """Fully convolutional, so height and width can stay symbolic."""
    return named(
        conv=nn.Conv2d(1, 4, 3), act=nn.Tanh(), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), fc=nn.Linear(4, 10)
    )


def no_parameters():
    return named(pool=nn.AvgPool2d(2), flat=nn.Flatten(), softmax=nn.Softmax(-1))
