"""PyTorch's losses as settings of the command."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._damper import Error

KNOWN = (
    "softmax-cross-entropy, causal-lm, ctc, mse, l1, huber, bce-with-logits, output, nn.CrossEntropyLoss(), nn.CTCLoss(), nn.MSELoss(), "
    "nn.L1Loss(), nn.HuberLoss(), nn.SmoothL1Loss() or nn.BCEWithLogitsLoss()"
)
# Functions of torch.nn.functional.
FUNCTIONS = {
    "cross_entropy": "softmax-cross-entropy",
    "ctc_loss": "ctc",
    "mse_loss": "mse",
    "l1_loss": "l1",
    "huber_loss": "huber",
    "smooth_l1_loss": "huber",
    "binary_cross_entropy_with_logits": "bce-with-logits",
}


# Classes of torch.nn that the command has.
KINDS = ("CrossEntropyLoss", "CTCLoss", "MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "BCEWithLogitsLoss")


def _refuse_classes(labels: np.ndarray) -> None:
    """Fails for floats that are all 0 and 1 without a given loss: they are usually classes, not measures."""
    if not np.isin(labels, (0.0, 1.0)).all():
        return
    if labels.ndim == 2 and labels.shape[1] > 1 and (labels.sum(axis=1) == 1).all():
        raise Error(
            "loss: the labels are one-hot rows of floats; give class numbers, y.argmax(1) as integers, with loss='softmax-cross-entropy', or "
            "loss='mse' to fit the numbers"
        )
    raise Error("loss: the labels are floats of 0 and 1; give loss='bce-with-logits' for classes, or loss='mse' to fit the numbers")


def is_own_function(loss: Any) -> bool:
    """Returns true if `loss` is a function of (output, target) that the command does not have by name."""
    if loss is None or isinstance(loss, str):
        return False
    import torch

    kind = type(loss).__name__
    if any(loss is getattr(torch.nn.functional, own) for own in FUNCTIONS) or kind in KINDS and type(loss) is getattr(torch.nn, kind):
        return False
    if not callable(loss) or isinstance(loss, type):
        raise Error(f"loss: {getattr(loss, '__name__', kind)}; give a function of (output, target), or {KNOWN}")
    return True


def loss_settings(loss: Any, labels: np.ndarray | None) -> dict[str, Any]:
    """Returns the settings of `loss`: a name, a loss of PyTorch, or None, which the type of the labels decides."""
    if isinstance(loss, str):
        return {"loss": "output:output" if loss == "output" else loss}
    if loss is None:
        is_number = labels is not None and labels.dtype.kind == "f"
        if is_number:
            _refuse_classes(labels)
        return {"loss": "mse" if is_number else "softmax-cross-entropy"}
    import torch

    name = next((name for own, name in FUNCTIONS.items() if loss is getattr(torch.nn.functional, own)), None)
    if name is not None:
        # PyTorch has the classes on axis 1.
        return {"loss": name, **({"class_axis": 1} if name == "softmax-cross-entropy" else {})}
    kind = type(loss).__name__
    if getattr(loss, "reduction", "mean") == "none":
        raise Error(f"loss: {kind} with reduction='none'; use 'mean', or 'sum' for the sum over a sample's tokens")
    reduction = {"reduction": loss.reduction} if getattr(loss, "reduction", "mean") == "sum" else {}
    if kind == "CrossEntropyLoss":
        if loss.ignore_index != -100:
            raise Error("loss: ignore_index must be -100, which does not count")
        weights = {} if loss.weight is None else {"class_weights": loss.weight.tolist()}
        smoothing = {"label_smoothing": loss.label_smoothing} if loss.label_smoothing else {}
        return {"loss": "softmax-cross-entropy", "class_axis": 1, **weights, **smoothing, **reduction}
    if kind == "CTCLoss":
        if loss.blank != 0:
            raise Error(f"loss: blank={loss.blank} of CTCLoss; make class 0 the blank")
        return {"loss": "ctc", **reduction}
    if kind in ("MSELoss", "L1Loss"):
        return {"loss": {"MSELoss": "mse", "L1Loss": "l1"}[kind], **reduction}
    if kind in ("HuberLoss", "SmoothL1Loss"):
        bound = "delta" if kind == "HuberLoss" else "beta"
        if getattr(loss, bound) != 1:
            raise Error(f"loss: {bound}={getattr(loss, bound):g} of {kind}; use 1, and divide the outputs and the labels by {bound}")
        return {"loss": "huber", **reduction}
    if loss.weight is not None:
        raise Error("loss: weight of BCEWithLogitsLoss is of a batch's samples; use pos_weight")
    weights = {}
    if loss.pos_weight is not None:
        if loss.pos_weight.numel() != 1:
            raise Error("loss: pos_weight must be one number, that of all labels 1")
        weights = {"class_weights": [1.0, float(loss.pos_weight)]}
    return {"loss": "bce-with-logits", **weights, **reduction}
