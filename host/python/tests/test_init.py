"""`damper init` draws each layer as PyTorch's own `reset_parameters` does."""

import json
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch
from torch import nn

COMMAND = Path(sysconfig.get_path("scripts")) / "damper"
INPUTS = torch.zeros(2, 3, 4)


class Unfolded(nn.Module):
    """A cell that Python calls at each of three steps."""

    def __init__(self, kind):
        super().__init__()
        self.cell, self.head = kind(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        state = None
        for step in range(3):
            state = self.cell(x[:, step], state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class Folded(nn.Module):
    """A recurrent layer as one operator."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(4, 16, batch_first=True, **options)
        self.head = nn.Linear(32 if options.get("bidirectional") else 16, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Tokens(nn.Module):
    """Positions and a class token, as in vision transformers."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(4, 16), nn.LayerNorm(16), nn.Linear(16, 3)
        self.positions = nn.Parameter(torch.randn(1, 4, 16) * 0.02)
        self.token = nn.Parameter(torch.randn(1, 1, 16) * 0.02)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), self.embed(x)], 1) + self.positions
        return self.head(self.norm(x)[:, 0])


def convolutions():
    return nn.Sequential(
        nn.Conv1d(3, 8, 2), nn.GroupNorm(2, 8), nn.PReLU(), nn.ConvTranspose1d(8, 4, 2), nn.Flatten(), nn.Linear(16, 3, bias=False)
    )


NETWORKS = {
    "lstm cell": lambda: Unfolded(nn.LSTMCell),
    "gru cell": lambda: Unfolded(nn.GRUCell),
    "rnn cell": lambda: Unfolded(nn.RNNCell),
    "lstm": lambda: Folded(nn.LSTM, bidirectional=True),
    "gru": lambda: Folded(nn.GRU, num_layers=2),
    "rnn": lambda: Folded(nn.RNN, nonlinearity="relu", bias=False),
    "tokens": Tokens,
    "convolutions": convolutions,
}


def moments(rule, fan_in):
    """Returns the standard deviation of a rule, and its largest value if it has one."""
    if found := re.fullmatch(r"uniform\((.*), (.*)\)", rule):
        low, high = map(float, found.groups())
        return (high - low) / 12**0.5, max(-low, high)
    if found := re.fullmatch(r"normal\(0, (.*)\)", rule):
        return float(found[1]), None
    if rule.startswith("kaiming-uniform(fan-in, a=2.236"):
        return (1 / 3 / fan_in) ** 0.5, fan_in**-0.5
    return 0.0, {"zeros": 0.0, "ones": 1.0, "constant(0.25)": 0.25}[rule]


def fan_in(module, name):
    """Returns the fan-in of the layer of the parameter `name`."""
    weight = dict(module.named_parameters())[re.sub("bias$", "weight", name)]
    return nn.init._calculate_fan_in_and_fan_out(weight)[0] if weight.dim() > 1 else 1


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", NETWORKS)
def test_init_draws_as_pytorch(name, exporter, tmp_path):
    """The exporter `dynamo` renames packed weights. Weights that keep their name are compared."""
    make = NETWORKS[name]
    options = dict(dynamo=True, external_data=False) if exporter == "dynamo" else dict(dynamo=False, do_constant_folding=False)
    torch.onnx.export(make(), (INPUTS,), tmp_path / "m.onnx", input_names=["input"], verbose=False, **options)
    said = subprocess.run(
        [COMMAND, "init", tmp_path / "m.onnx", "--out", tmp_path / "o.onnx", "--json"], capture_output=True, text=True, check=True
    )
    drawn = {one["name"]: one for one in json.loads(said.stdout)["parameters"]}
    modules = [make() for _ in range(60)]
    parameters = [dict(module.named_parameters()) for module in modules]
    truth = {key: torch.cat([one[key].detach().flatten() for one in parameters]) for key in drawn if key in parameters[0]}
    assert len(truth) >= (1 if exporter == "dynamo" else len(parameters[0]))
    for key, values in truth.items():
        std, most = moments(drawn[key]["init"], fan_in(modules[0], key))
        assert values.std().item() == pytest.approx(std, rel=0.08, abs=1e-7), (key, drawn[key])
        if most is not None:
            assert 0.93 * most <= values.abs().max().item() <= most * (1 + 1e-6), (key, drawn[key])
    packed = [one for one in drawn.values() if one["role"].startswith("recurrent")]
    assert all(one["init"] == "uniform(-0.25, 0.25)" for one in packed)
    assert bool(packed) == (name not in ("tokens", "convolutions"))
