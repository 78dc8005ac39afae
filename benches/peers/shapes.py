"""A synthetic batch of each network, and the model that damper trains."""

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
# Rank of adapters.
RANK = 8
# Networks of real sizes, by `real.py`: the model, and words for damper-peer. Physical batches divide a batch of 8, so
# no row is padding.
REAL = {
    "bert-base-head": ("bert-base", ["rows=8", "only=*classifier*"]),
    "bert-base-lora": ("bert-base", ["rows=8", f"lora={RANK}:*query*,*value*", "train=*classifier*"]),
    "bert-base": ("bert-base", ["rows=4"]),
    "vit-b16": ("vit-b16", ["rows=2"]),
    "gpt2": ("gpt2", ["rows=1", "loss=causal-lm"]),
}


def batch(network, size):
    """`x` and the labels. `x` of BERT has token ids and then the mask, `[size, 2, tokens]`."""
    draw = np.random.default_rng(0)
    if network.startswith("bert"):
        words, tokens = (4096, 64) if network == "bert" else (30522, 128)
        return np.stack([draw.integers(1, words, (size, tokens)), np.ones((size, tokens), np.int64)], 1), draw.integers(2, size=size)
    if network == "gpt":
        return draw.integers(3, 259, (size, 64)), draw.integers(3, 259, (size, 64))
    if network == "gpt2":
        ids = draw.integers(50257, size=(size, 128))
        return ids, ids
    if network == "vit-b16":
        return draw.random((size, 3, 224, 224), dtype=np.float32), draw.integers(1000, size=size)
    shape = (1, 28, 28) if network == "mnist" else (3, 32, 32)
    return draw.random((size, *shape), dtype=np.float32), draw.integers(10, size=size)
