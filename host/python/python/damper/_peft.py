"""Modules with adapters of the package `peft`, recognised by their classes. This file does not import `peft`."""

from __future__ import annotations

from typing import Any, Iterator

from ._damper import Error

#: Layers with adapters that have tests against PyTorch's gradients.
LAYERS = {
    "peft.tuners.lora.layer": {"Linear", "Embedding", "Conv1d", "Conv2d", "Conv3d"},
    "peft.tuners.ia3.layer": {"Linear", "Conv2d", "Conv3d"},
}
#: Wrappers of a whole module, and the attribute with the wrapped module.
WRAPPERS = {"PeftModel": "base_model", "PeftMixedModel": "base_model", "BaseTuner": "model"}


def _is(value: Any, *names: str) -> str | None:
    """Returns the first of `names` that is a class of `peft` and a base of `value`'s class."""
    bases = {kind.__name__ for kind in type(value).__mro__ if kind.__module__.split(".")[0] == "peft"}
    return next((name for name in names if name in bases), None)


def called(module: Any) -> Any:
    """Returns the module whose `forward` takes the inputs: the module inside the wrappers of `peft`, which pass all
    inputs on."""
    while wrapper := _is(module, *WRAPPERS):
        module = getattr(module, WRAPPERS[wrapper])
    return module


def _layers(module: Any) -> Iterator[tuple[str, Any]]:
    """Returns the layers that `peft` added, by name."""
    for name, layer in module.named_modules():
        if _is(layer, "BaseTunerLayer", "TrainableTokensWrapper"):
            yield name, layer


def has_adapters(module: Any) -> bool:
    """Returns true if `peft` added a layer to `module`."""
    return any(True for _ in _layers(module)) or _is(module, *WRAPPERS) is not None


def check(module: Any) -> None:
    """Fails, with names, if the adapters of `module` would train differently from PyTorch."""
    _check_kind(module)
    check_unmerged(module)
    for name, layer in _layers(module):
        kind = type(layer)
        if kind.__name__ not in LAYERS.get(kind.__module__, ()):
            raise Error(
                f"'{name}' is a {kind.__module__}.{kind.__name__}; of peft, LoRA and IA3 train, in linear layers, convolutions and embeddings "
                "without quantised weights"
            )
        if layer.disable_adapters:
            raise Error(f"'{name}': its adapters are disabled, so the outputs do not depend on them; enable them first")
        variants = getattr(layer, "lora_variant", {})
        for adapter in layer.active_adapters:
            if adapter in variants:
                raise Error(_of_variant(name, adapter, type(variants[adapter]).__name__))


def check_unmerged(module: Any) -> None:
    """Fails if adapters are merged into their weights. Merged adapters have no gradient, and new weights would lose
    them."""
    for name, layer in _layers(module):
        if getattr(layer, "merged", False):
            raise Error(f"'{name}': its adapters {_list(layer.merged_adapters)} are merged into the weights; call unmerge_adapter() first")


def _check_kind(module: Any) -> None:
    """Fails if the wrapper has its own computation, such as prompts."""
    configs = getattr(module, "peft_config", None)
    if _is(module, "PeftModel", "PeftMixedModel") is None or not isinstance(configs, dict):
        return
    for adapter in module.active_adapters:
        kind = getattr(configs[adapter], "peft_type", "LORA")
        kind = str(getattr(kind, "value", kind))
        if kind not in ("LORA", "IA3"):
            raise Error(f"the adapter '{adapter}' of peft is of the type {kind}; LoRA and IA3 train")


def _of_variant(name: str, adapter: str, kind: str) -> str:
    if kind.startswith("Dora"):
        return (
            f"'{name}': the adapter '{adapter}' uses DoRA, whose norms have no gradient in PyTorch, which no exported file keeps; "
            "use use_dora=False"
        )
    return f"'{name}': the adapter '{adapter}' is the variant {kind.removesuffix('Variant')} of LoRA; use LoRA without it"


def _list(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
