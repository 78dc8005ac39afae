"""The networks as PyTorch modules, and a batch of each. The modules are those that the models were exported from."""

import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "onnx-models"))
import networks as shipped  # noqa: E402 (of onnx-models)

from shapes import batch  # noqa: E402, F401


class Plus(nn.Module):
    """`x` plus a parameter, because Opacus only takes per-sample gradients of whole modules."""

    def __init__(self, shape):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(shape))

    def forward(self, x):
        return x + self.value


class Token(nn.Module):
    """`x` with a trained token in front."""

    def __init__(self, width):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, x):
        return torch.cat([self.value.expand(x.shape[0], -1, -1), x], 1)


class ViT(shipped.ViT):
    def __init__(self):
        super().__init__()
        del self.token, self.positions
        self.token, self.positions = Token(192), Plus((1, 65, 192))

    def forward(self, x):
        x = self.positions(self.token(self.patches(x).flatten(2).transpose(1, 2)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Bert(shipped.Bert):
    def __init__(self):
        super().__init__()
        del self.positions
        self.positions = Plus((1, 64, 128))

    def forward(self, x):
        # Contiguous, which Opacus' ghost clipping requires.
        ids, mask = (part.contiguous() for part in x.unbind(1))
        mask = (1 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        x = self.norm(self.positions(self.words(ids)))
        for block in self.blocks:
            x = block(x, mask)
        return self.classifier(torch.tanh(self.pool(x[:, 0])))


class Gpt(shipped.Gpt):
    """Its output layer is a module, so that hooks see it. Its weight is the embedding."""

    def __init__(self):
        super().__init__()
        del self.positions
        self.positions = Plus((1, 64, 128))
        self.out = nn.Linear(128, 259, bias=False)
        self.out.weight = self.bytes.weight

    def forward(self, ids):
        x = self.positions(self.bytes(ids))
        for block in self.blocks:
            x = block(x, self.mask)
        return self.out(self.norm(x)).transpose(1, 2)


NETWORKS = {
    "mnist": shipped.mnist_cnn,
    "cifar": shipped.cifar_cnn,
    "resnet18": shipped.resnet18_groupnorm,
    "wrn": shipped.wrn_16_4_groupnorm,
    "vit": ViT,
    "bert": Bert,
    "gpt": Gpt,
}
