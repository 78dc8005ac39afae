"""Unwraps a module."""

from __future__ import annotations

from typing import Any

from ._damper import Error

# Wrappers of torch.compile and of several devices, with the attribute that holds the module.
WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}


def plain(module: Any) -> Any:
    """Returns `module` without the wrappers of `torch.compile` or of parallel training, so that parameters have their
    own names."""
    while type(module).__name__ in WRAPPERS:
        module = getattr(module, WRAPPERS[type(module).__name__])
    if hasattr(module, "autograd_grad_sample_hooks"):
        raise Error("module: carries hooks of Opacus; give a module that no PrivacyEngine has wrapped")
    return module
