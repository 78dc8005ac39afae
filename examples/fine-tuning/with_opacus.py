#!/usr/bin/env python3
"""The recipe `head` in Opacus, on the features that fine_tune.py has written: python with_opacus.py fine-tuning-cache/features-200-all-*.npz"""

import sys
import time

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH, EPOCHS, EPSILON, DELTA, CLIP, LR = 8192, 40, 3.0, 1e-5, 0.1, 0.3


def main(path):
    arrays = {name: torch.from_numpy(array) for name, array in np.load(path).items()}
    data = TensorDataset(arrays["features"].float(), arrays["labels"])
    module = nn.Linear(data.tensors[0].shape[1], 2)
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    steps = int(np.ceil(EPOCHS * len(data) / BATCH))
    noise = get_noise_multiplier(target_epsilon=EPSILON, target_delta=DELTA, sample_rate=BATCH / len(data), steps=steps, accountant="prv")
    start = time.perf_counter()
    engine = PrivacyEngine(accountant="prv")
    module, optimizer, loader = engine.make_private(
        module=module, optimizer=torch.optim.Adam(module.parameters(), lr=LR), data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=noise, max_grad_norm=CLIP,
    )
    taken, mean = 0, None
    while taken < steps:
        for x, y in loader:
            if taken == steps:
                break
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimizer.step()
            taken += 1
            # The mean of the parameters over the second half, as `--average 0.5`.
            if 2 * taken > steps:
                weights = [parameter.detach().clone() for parameter in module.parameters()]
                count = taken - steps // 2
                mean = weights if mean is None else [m + (w - m) / count for m, w in zip(mean, weights)]
    seconds = time.perf_counter() - start
    logits = nn.functional.linear(arrays["features_test"].float(), *mean)
    accuracy = (logits.argmax(1) == arrays["labels_test"]).float().mean().item()
    print(f"accuracy {accuracy:.4f}, epsilon {engine.get_epsilon(DELTA):.4f}, noise {noise:.4f}, {steps} steps, {seconds:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1])
