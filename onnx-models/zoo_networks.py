"""Small networks that are in no package, as users write them."""

import dataclasses

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, LENGTH, CLASSES = 50, 16, 8, 5


@dataclasses.dataclass
class Network:
    """`inputs` are functions of the number of rows, by name. `packed`: forward takes `*inputs`."""

    make: object
    inputs: dict
    class_axis: int = -1
    batch_norm: bool = False
    packed: bool = False
    opset: int | None = None


def noise(*shape):
    return lambda rows: torch.randn(rows, *shape)


def ids(*shape, below=VOCABULARY, start=4):
    return lambda rows: torch.randint(start, below, (rows, *shape))


class UNet(nn.Module):
    def __init__(self, transposed):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())  # noqa: E731
        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 32)
        if transposed:
            self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        else:
            self.up2 = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(32, 16, 1))
            self.up1 = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 1))
        self.join2, self.join1, self.head = block(32, 16), block(16, 8), nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        x = self.up2(self.middle(F.max_pool2d(two, 2)))
        x = self.up1(self.join2(torch.cat([x, two], 1)))
        return self.head(self.join1(torch.cat([x, one], 1)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.rnn = kind(WIDTH, WIDTH, batch_first=True, **options)
        self.head = nn.Linear(WIDTH * (2 if options.get("bidirectional") else 1), CLASSES)

    def forward(self, input_ids):
        return self.head(self.rnn(self.embedding(input_ids))[0][:, -1])


class Unrolled(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell, self.head = kind(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], WIDTH)
        if isinstance(self.cell, nn.LSTMCell):
            state = (state, state)
        for step in range(LENGTH):
            state = self.cell(x[:, step], state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class GCN(nn.Module):
    """Dense adjacency, normalised by degrees."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.head = nn.Linear(6, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x, adjacency):
        adjacency = adjacency.abs() + torch.eye(LENGTH)
        scale = adjacency.sum(-1).pow(-0.5)
        adjacency = scale[:, :, None] * adjacency * scale[:, None, :]
        x = F.relu(adjacency @ self.one(x))
        x = F.relu(adjacency @ self.two(x))
        return self.head(x.mean(1))


class FTTransformer(nn.Module):
    """A token a column: numbers by a weight and a bias for each column, categories by tables."""

    def __init__(self, numbers=4, sizes=(5, 7)):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(numbers, WIDTH)), nn.Parameter(torch.randn(numbers, WIDTH))
        self.register_buffer("offsets", torch.tensor([0, *sizes[:-1]]).cumsum(0))
        self.table, self.cls = nn.Embedding(sum(sizes), WIDTH), nn.Parameter(torch.randn(WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x, categories):
        tokens = x[..., None] * self.weight + self.bias
        tokens = torch.cat([self.cls.expand(x.shape[0], 1, -1), tokens, self.table(categories + self.offsets)], 1)
        return self.head(F.relu(self.norm(self.encoder(tokens)[:, 0])))


class DLRM(nn.Module):
    """Tables and a dense part, their products in pairs."""

    def __init__(self, sizes=(5, 7, 9)):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, WIDTH) for size in sizes)
        self.bottom = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(WIDTH + 6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))

    def forward(self, x, categories):
        dense = self.bottom(x)
        rows = torch.stack([dense] + [table(categories[:, at]) for at, table in enumerate(self.tables)], 1)
        products = rows @ rows.transpose(1, 2)
        first, second = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([dense, products[:, first, second]], 1))


class MoE(nn.Module):
    """The two best of four experts, each computed for every token."""

    def __init__(self, dense):
        super().__init__()
        self.dense, self.gate = dense, nn.Linear(WIDTH, 4)
        expert = lambda: nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))  # noqa: E731
        self.experts, self.head = nn.ModuleList(expert() for _ in range(4)), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        if not self.dense:
            best = weights.topk(2, -1).values[..., -1:]
            weights = torch.where(weights >= best, weights, 0.0)
            weights = weights / weights.sum(-1, keepdim=True)
        outputs = torch.stack([expert(x) for expert in self.experts], -1)
        return self.head((outputs * weights[..., None, :]).sum(-1).mean(1))


class Shared(nn.Module):
    """One layer twice."""

    def __init__(self):
        super().__init__()
        self.first, self.twice, self.head = nn.Linear(6, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.twice(torch.tanh(self.twice(torch.tanh(self.first(x)))))))


class TiedAutoencoder(nn.Module):
    """The decoder's weight is the encoder's, transposed."""

    def __init__(self):
        super().__init__()
        self.encoder, self.bias = nn.Linear(12, WIDTH), nn.Parameter(torch.zeros(12))

    def forward(self, x):
        return torch.sigmoid(self.encoder(x)) @ self.encoder.weight + self.bias


class Encoder(nn.Module):
    """nn.TransformerEncoder with a padding mask."""

    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids):
        hidden = self.embedding(input_ids) + self.position(torch.arange(input_ids.shape[1]))
        return self.head(self.encoder(hidden, src_key_padding_mask=input_ids == 5).mean(1))


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(VOCABULARY, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids):
        return self.head(self.table(input_ids))


class WeightNorm(nn.Module):
    def __init__(self, spectral):
        super().__init__()
        norms = nn.utils.parametrizations
        self.conv = norms.weight_norm(nn.Conv1d(3, WIDTH, 3))
        self.head = norms.spectral_norm(nn.Linear(WIDTH, CLASSES)) if spectral else nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean(-1))


TOKENS, SEQUENCE = {"input_ids": ids(LENGTH)}, {"x": noise(LENGTH, WIDTH)}
TABULAR = {"x": noise(4), "categories": ids(2, below=5, start=0)}
NETWORKS = {
    "unet": Network(lambda: UNet(True), {"x": noise(3, 16, 16)}, class_axis=1),
    "unet-upsample": Network(lambda: UNet(False), {"x": noise(3, 16, 16)}, class_axis=1),
    "unet+bn": Network(lambda: UNet(True), {"x": noise(3, 16, 16)}, class_axis=1, batch_norm=True),
    "lstm": Network(lambda: Recurrent(nn.LSTM), TOKENS),
    "lstm-2-bidirectional": Network(lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), TOKENS),
    "gru": Network(lambda: Recurrent(nn.GRU), TOKENS),
    "gru-bidirectional": Network(lambda: Recurrent(nn.GRU, bidirectional=True), TOKENS),
    "rnn": Network(lambda: Recurrent(nn.RNN), TOKENS),
    "rnn-unrolled": Network(lambda: Unrolled(nn.RNNCell), SEQUENCE),
    "gru-unrolled": Network(lambda: Unrolled(nn.GRUCell), SEQUENCE),
    "lstm-unrolled": Network(lambda: Unrolled(nn.LSTMCell), SEQUENCE),
    "gcn": Network(GCN, {"x": noise(LENGTH, 6), "adjacency": noise(LENGTH, LENGTH)}),
    "ft-transformer": Network(FTTransformer, TABULAR),
    "dlrm": Network(DLRM, {"x": noise(4), "categories": ids(3, below=5, start=0)}),
    "moe-dense": Network(lambda: MoE(True), SEQUENCE),
    "moe-top2": Network(lambda: MoE(False), SEQUENCE),
    "shared-linear": Network(Shared, {"x": noise(6)}),
    "tied-autoencoder": Network(TiedAutoencoder, {"x": noise(12)}),
    "transformer-encoder": Network(Encoder, TOKENS),
    "embedding-bag": Network(BagOfWords, TOKENS),
    "weight-norm": Network(lambda: WeightNorm(False), {"x": noise(3, 12)}),
    "spectral-norm": Network(lambda: WeightNorm(True), {"x": noise(3, 12)}),
}
