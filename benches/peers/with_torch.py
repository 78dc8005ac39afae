"""PyTorch without privacy, Opacus by hooks and by ghost clipping, `torch.func`: `with_torch.py plain|hooks|ghost|func NETWORK BATCH`.

One step: forward, backward, clip, noise, momentum SGD, on a batch that is already in memory, on the device that PEER_DEVICE names.
"""

import os
import sys
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import candidate
from modules import NETWORKS, batch


def main():
    warnings.filterwarnings("ignore")
    kind, network, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    device = os.environ.get("PEER_DEVICE", "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    x, y = (torch.from_numpy(array).to(device) for array in batch(network, size))
    net = on(NETWORKS[network](), device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    if kind == "func":
        return serve(by_func(net, optimizer, x, y), device)
    criterion = nn.CrossEntropyLoss()
    if kind != "plain":
        from opacus import PrivacyEngine

        loader = DataLoader(TensorDataset(x, y), batch_size=size)
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

    serve(step, device)


def on(net, device):
    """The network on a device, with its tensors that are not parameters."""
    net = net.to(device)
    for module in net.modules():
        for name, value in list(vars(module).items()):
            if torch.is_tensor(value):
                setattr(module, name, value.to(device))
    return net


def serve(step, device):
    """Serves steps. On a card the answers have the peak of its memory."""
    if device == "cpu":
        return candidate.serve(step)
    candidate.serve(step, torch.cuda.synchronize, lambda: torch.cuda.max_memory_allocated() // 1024)


def by_func(net, optimizer, x, y):
    """`vmap(grad)`, and the rest by hand."""
    from torch.func import functional_call, grad, vmap

    params = dict(net.named_parameters())

    def loss(params, x, y):
        return nn.functional.cross_entropy(functional_call(net, params, (x[None],)), y[None])

    per_sample = vmap(grad(loss), (None, 0, 0))

    def step():
        grads = per_sample({name: p.detach() for name, p in params.items()}, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factors = (1 / norms).clamp(max=1)
        for name, p in params.items():
            summed = torch.einsum("n,n...->...", factors, grads[name])
            p.grad = (summed + torch.randn_like(summed)) / len(x)
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
