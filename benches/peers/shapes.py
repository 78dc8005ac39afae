"""A made-up batch of each network, and the model that damper trains."""

import numpy as np

MODELS = {
    "mnist": "mnist-cnn",
    "cifar": "cifar-cnn",
    "resnet18": "resnet18-groupnorm",
    "wrn": "wrn-16-4-groupnorm",
    "vit": "vit-tiny",
    "bert": "bert-tiny",
    "gpt": "gpt-small",
}


def batch(network, size):
    """`x` and the labels. `x` of BERT has token ids and mask beside each other, `[size, 2, 64]`."""
    draw = np.random.default_rng(0)
    if network == "bert":
        return np.stack([draw.integers(1, 4096, (size, 64)), np.ones((size, 64), np.int64)], 1), draw.integers(2, size=size)
    if network == "gpt":
        return draw.integers(3, 259, (size, 64)), draw.integers(3, 259, (size, 64))
    shape = (1, 28, 28) if network == "mnist" else (3, 32, 32)
    return draw.random((size, *shape), dtype=np.float32), draw.integers(10, size=size)
