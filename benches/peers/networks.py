"""The two networks as PyTorch modules, and their shapes."""

from torch import nn

SHAPES = {"mnist": (1, 28, 28), "cifar": (3, 32, 32)}


def mnist():
    """onnx-models/mnist-cnn.onnx: 26,010 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )


def cifar():
    """onnx-models/cifar-cnn.onnx: 550,570 parameters."""
    layers, before = [], 3
    for width in (32, 64, 128):
        for _ in range(2):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.Tanh()]
            before = width
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 128), nn.Tanh(), nn.Linear(128, 10))


NETWORKS = {"mnist": mnist, "cifar": cifar}
