"""Networks that the command builds by name (`linear`, `mlp:64,32`), computed in NumPy from a run's model."""

from __future__ import annotations

import dataclasses
import pathlib
import re

import numpy as np

from . import _damper
from ._damper import Error

#: Constants `(mean, std)`, each a number or an array by feature.
Constants = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass
class Network:
    """Linear layers with tanh between them."""

    #: Weight `[out, in]` and bias `[out]` of each layer, float32.
    layers: list[tuple[np.ndarray, np.ndarray]]
    #: Constants that scale the features, if there are any.
    features: Constants | None
    #: Constants in whose unit the output is, if there are any.
    output: Constants | None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Returns the outputs `[N, out]` of the samples `[N, in]`. Sums are float64."""
        # Training rounds the scaled features to float32.
        values = (x.astype(np.float32) if self.features is None else scaled(x, self.features)).astype(np.float64)
        for weight, bias in self.layers[:-1]:
            values = np.tanh(values @ weight.T + bias)
        weight, bias = self.layers[-1]
        values = values @ weight.T + bias
        return values if self.output is None else values * self.output[1] + self.output[0]


def is_supported(name: object) -> bool:
    """Returns true if `name` is a network that `Network` computes."""
    return isinstance(name, str) and (name == "linear" or name.startswith("mlp:"))


def read(file: pathlib.Path, features: Constants | None) -> Network:
    """Reads a trained model. `features` are the public constants of its training, which the file lacks."""
    tensors, metadata = _damper.read_model(file)

    def tensor(name: str) -> np.ndarray:
        shape, data = tensors[name]
        return np.frombuffer(data, np.float32).reshape(shape).copy()

    hidden = sorted((name for name in tensors if re.fullmatch(r"fc\d+\.weight", name)), key=lambda name: int(name[2:-7]))
    weights = [*hidden, "head.weight"]
    if "head.weight" not in tensors or len(tensors) != 2 * len(weights):
        raise Error(f"{file}: not a model of a network linear or mlp")
    layers = [(tensor(name), tensor(name.replace("weight", "bias"))) for name in weights]
    released = metadata.get("damper.normalize")
    scale = metadata.get("damper.label_scale")
    return Network(
        layers,
        constants(released) if released is not None else features,
        constants(scale) if scale is not None else None,
    )


def constants(text: str) -> Constants:
    """Returns the numbers of `MEAN,...:STD,...` or `MEAN,STD`."""
    mean, std = text.split(":" if ":" in text else ",")
    return tuple(np.array(part.split(","), np.float64) for part in (mean, std))  # type: ignore[return-value]


def scaled(x: np.ndarray, by: Constants) -> np.ndarray:
    """Returns `(x - mean) / std` in float32 for samples `x`, with one constant, one for each channel (axis 1) or one for
    each column, as training scales them."""
    shape = x.shape[1:]
    values = int(np.prod(shape))
    mean, std = np.broadcast_arrays(*(np.atleast_1d(one) for one in by))
    if len(mean) not in (1, *shape[:1], *shape[-1:], values):
        raise Error(f"X: samples have the shape {list(shape)}, and training scaled {len(mean)} columns; give those")
    run = values // shape[0] if len(mean) > 1 and len(mean) == shape[0] else 1
    mean, std = (np.resize(np.repeat(one, run), values).reshape(shape) for one in (mean, std))
    return ((x - mean) / std).astype(np.float32)
