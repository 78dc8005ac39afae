"""The call of a module that is exported: its inputs, a loss function after it, and the names of its outputs."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from . import _peft
from ._damper import Error

#: Name of the only output of a module.
OUTPUT = "output"


@dataclasses.dataclass
class Call:
    """The call of a module with inputs by name or by position."""

    by_name: bool
    #: A loss `function(output, target)` that gives one number a sample, exported after the module.
    loss: Callable[[Any, Any], Any] | None = None
    #: Input with the labels, for `loss`.
    target: str = ""
    #: Output with the loss.
    output: str = ""
    #: Number of values of synthetic integer labels.
    classes: int = 2

    def __call__(self, module: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the tensors that `module` and the loss give, by name."""
        own = {name: value for name, value in inputs.items() if not self.loss or name != self.target}
        returned = module(**own) if self.by_name else module(*own.values())
        named = names(returned)
        if self.loss is not None:
            named[self.output] = self.loss(returned, inputs[self.target])
        return named

    def is_plain(self, module: Any, inputs: dict[str, Any]) -> bool:
        """Returns true if an exporter can call the module itself."""
        if self.by_name or self.loss is not None or _peft.called(module) is not module:
            return False
        return not isinstance(module(*inputs.values()), dict)


def names(returned: Any) -> dict[str, Any]:
    """Returns the tensors of a module's outputs by name: the keys of a dict, or `output`, `output_1` and so on."""
    if isinstance(returned, dict):
        return {
            key if inner == OUTPUT else f"{key}.{inner}": value for key, part in returned.items() for inner, value in names(part).items()
        }
    if isinstance(returned, (tuple, list)):
        found = [value for part in returned for value in names(part).values()]
        return {OUTPUT if at == 0 else f"{OUTPUT}_{at}": value for at, value in enumerate(found)}
    return {OUTPUT: returned} if hasattr(returned, "is_floating_point") else {}


def wrapped(torch: Any, twin: Any, inputs: list[str], call: Call) -> Any:
    """Wraps `twin` for inputs by position, in the order of `inputs`, without the wrappers of peft. The dynamo exporter
    cannot trace those."""

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = twin

        def forward(self, *args: Any) -> Any:
            found = tuple(call(_peft.called(self.module), dict(zip(inputs, args))).values())
            return found if len(found) > 1 else found[0]

    return Positional().eval()


def check_names(found: dict[str, Any], inputs: dict[str, Any]) -> None:
    """Fails if an output has the name of an input."""
    both = [name for name in found if name in inputs]
    if both:
        raise Error(f"the module has an output and an input '{both[0]}'; rename one of them")
