"""Bags of embeddings in a form that exporters write without a loop over the samples."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from ._alone import exports
from ._damper import Error


@contextlib.contextmanager
def fixed_bags() -> Iterator[None]:
    """Makes `nn.EmbeddingBag` look up all bags `[N, length]` at once and reduce over the length, in the exporting
    thread."""
    from torch.nn import functional

    own = functional.embedding_bag

    def embedding_bag(*args: Any, **settings: Any) -> Any:
        return (_embedding_bag if exports() else own)(*args, **settings)

    try:
        functional.embedding_bag = embedding_bag
        yield
    finally:
        functional.embedding_bag = own


def _embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """As `torch.nn.functional.embedding_bag`, for bags of equal length."""
    from torch.nn import functional

    del norm_type, sparse, include_last_offset
    if max_norm is not None or scale_grad_by_freq:
        raise Error("embedding_bag: max_norm and scale_grad_by_freq count the ids of a batch; leave them out")
    if input.dim() != 2 or offsets is not None:
        raise Error("embedding_bag: give ids [N, length], of one length for all samples, without offsets")
    rows = functional.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if padding_idx is None:
        return {"sum": rows.sum, "mean": rows.mean, "max": rows.amax}[mode](1)
    if mode == "max":
        raise Error("embedding_bag: mode='max' with padding_idx; use 'sum' or 'mean', or leave padding_idx out")
    counts = (input != padding_idx % len(weight)).unsqueeze(-1).to(rows.dtype)
    total = (rows * counts).sum(1)
    return total if mode == "sum" else total / counts.sum(1).clamp(min=1.0)
