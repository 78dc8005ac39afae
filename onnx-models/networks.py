"""The networks of this folder as PyTorch modules; the table in README.md says what each is for."""

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
    """A Sequential whose parameters have speaking names: `conv1.weight`, not `0.weight`."""
    return nn.Sequential(OrderedDict(layers))


def digits_mlp():
    return named(fc1=nn.Linear(64, 32), act1=nn.Tanh(), fc2=nn.Linear(32, 10))


def digits_cnn():
    """Pixels 0 to 1 are centred first, and one convolution has to do: under DP-SGD at epsilon 4 the centring gave 3
    points of held-out accuracy, and leaving out a second convolution 2 more."""
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


# From here on: networks that only tests read.


class Reshaped(nn.Module):
    """Flattens by `reshape`: a fixed-batch export then holds the batch size in a constant."""

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


class Recurrent(nn.Module):
    """GRU over the rows of an image: an operator without a rule."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 6, batch_first=True)
        self.fc = nn.Linear(6, 10)

    def forward(self, x):
        return self.fc(self.gru(x.squeeze(1))[0][:, -1])


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
    """Fully convolutional: height and width can stay symbolic."""
    return named(
        conv=nn.Conv2d(1, 4, 3), act=nn.Tanh(), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), fc=nn.Linear(4, 10)
    )


def no_parameters():
    return named(pool=nn.AvgPool2d(2), flat=nn.Flatten(), softmax=nn.Softmax(-1))
