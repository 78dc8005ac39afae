"""What the tests share."""

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Runs without `out` go to a temporary folder, and weights are the same in every run."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    torch.set_num_threads(1)


def separable(n=400, width=12, classes=3, seed=0):
    """Samples of `classes` clusters: `[n, width]` and `[n]`."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, width))
    y = rng.integers(0, classes, n)
    x = centres[y] + rng.standard_normal((n, width))
    return x.astype(np.float32), y.astype(np.int64)


def mlp(width=12, classes=3):
    return torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.Tanh(), torch.nn.Linear(16, classes))


QUICK = {"noise_multiplier": 1.0, "delta": 1e-5, "epochs": 1, "batch_size": 64, "lr": 0.5, "progress": False}
