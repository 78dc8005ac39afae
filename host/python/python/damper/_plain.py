"""The module inside a wrapper."""

from __future__ import annotations

from typing import Any

# torch.compile's, and those of several devices: the attribute that holds the module.
WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}


def plain(module: Any) -> Any:
    """`module` without what `torch.compile` or a parallel wrapper put around it: parameters then have their own names."""
    while type(module).__name__ in WRAPPERS:
        module = getattr(module, WRAPPERS[type(module).__name__])
    return module
