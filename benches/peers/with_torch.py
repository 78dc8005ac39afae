"""PyTorch without privacy, and Opacus by hooks and by ghost clipping: `with_torch.py plain|hooks|ghost NETWORK BATCH`.

One step: forward, backward, clip, noise, momentum SGD, on a batch that is already in memory.
"""

import sys
import warnings

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import candidate
from networks import NETWORKS, SHAPES


def main():
    warnings.filterwarnings("ignore")
    kind, network, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.rand(batch, *SHAPES[network])
    y = torch.randint(10, (batch,))
    net = NETWORKS[network]()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    if kind != "plain":
        loader = DataLoader(TensorDataset(x, y), batch_size=batch)
        options = {"module": net, "optimizer": optimizer, "data_loader": loader, "noise_multiplier": 1.0,
                   "max_grad_norm": 1.0, "poisson_sampling": False}
        engine = PrivacyEngine()
        if kind == "hooks":
            net, optimizer, _ = engine.make_private(**options)
        else:
            net, optimizer, criterion, _ = engine.make_private(
                **options, criterion=criterion, grad_sample_mode="ghost"
            )

    def step():
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    candidate.serve(step)


if __name__ == "__main__":
    main()
