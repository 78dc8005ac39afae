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
import modules
from shapes import REAL, batch


def main():
    warnings.filterwarnings("ignore")
    kind, network, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    device = os.environ.get("PEER_DEVICE", "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    x, y = (torch.from_numpy(array).to(device) for array in batch(network, size))
    if network == "gpt2":
        # The next token of each. The last token has none.
        y = torch.cat([y[:, 1:], torch.full_like(y[:, :1], -100)], 1)
    net = on(make(network), device)
    if network == "gpt2" and kind == "ghost":
        # Opacus refuses a weight with two uses here.
        net.net.lm_head.weight = nn.Parameter(net.net.lm_head.weight.detach().clone())
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.01, momentum=0.9)
    if kind == "func":
        return serve(by_func(net, optimizer, x, y, network), device, network)
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
        out = net(x)
        # Ghost clipping needs the tokens of each sample.
        shape = {"shape": out.shape} if kind == "ghost" and network == "gpt2" else {}
        criterion(*flat(network, out, y), **shape).backward()
        optimizer.step()

    serve(step, device, network)


def make(network):
    if network not in REAL:
        return modules.NETWORKS[network]()
    import real

    return real.NETWORKS[network]()


def flat(network, out, y):
    """Logits and labels, for GPT-2 with a token a row."""
    return (out.flatten(0, 1), y.flatten()) if network == "gpt2" else (out, y)


def on(net, device):
    """The network on a device, with its tensors that are not parameters."""
    net = net.to(device)
    for module in net.modules():
        for name, value in list(vars(module).items()):
            if torch.is_tensor(value):
                setattr(module, name, value.to(device))
    return net


def serve(step, device, network):
    """Serves steps. On a card the answers have the peak of its memory."""
    warm = 1 if network in REAL else 2
    if device == "cpu":
        return candidate.serve(step, warm=warm)
    candidate.serve(step, torch.cuda.synchronize, lambda: torch.cuda.max_memory_allocated() // 1024, warm)


def by_func(net, optimizer, x, y, network):
    """`vmap(grad)`, and the rest by hand."""
    from torch.func import functional_call, grad, vmap

    params = {name: p for name, p in net.named_parameters() if p.requires_grad}

    def loss(params, x, y):
        return nn.functional.cross_entropy(*flat(network, functional_call(net, params, (x[None],)), y[None]))

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
