"""Tokens of texts, and data sets with columns, such as those of the package `datasets`. This file imports neither."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._damper import Error

#: Names of columns, in the order of preference.
TEXTS = ("text", "sentence", "content")
LABELS = ("labels", "label", "y")
#: Number of tokens of a text if it is not given.
LENGTH = 128


def has_columns(data: Any) -> bool:
    """Returns true if `data` is a data set with named columns, such as a `datasets.Dataset`. The rows of one with a transform
    have other names."""
    if getattr(data, "format", None) is not None and isinstance(data.format, dict) and data.format.get("type") == "custom":
        return False
    return isinstance(getattr(data, "column_names", None), list) and hasattr(data, "__getitem__") and hasattr(data, "__len__")


def columns(data: Any, names: list[str], what: str, wants_labels: bool, label: Any = None) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Returns the columns of `data` that the module takes, and the labels. Other columns are left out, as `Trainer` of
    `transformers` does."""
    shown = _shown(data)
    own = [name for name in shown if name in names]
    if not own and "*" in names:
        own = [name for name in shown if not isinstance(next(iter(data[name]), None), str)]
    target = label if label is not None else next((name for name in LABELS if name in shown), None)
    if wants_labels and target not in shown:
        raise Error(f"{what}: has no column {target or 'labels'} among {_list(shown)}; give label='COLUMN'")
    features = [name for name in own if name not in (target, *LABELS)]
    if not features:
        raise Error(
            f"{what}: none of the columns {_list(shown)} is an input of the module ({', '.join(names)}); rename one, or give "
            "damper.tokenized(data, tokenizer) for texts"
        )
    return {name: _column(data, name, what) for name in features}, _column(data, target, what) if wants_labels else None


def _shown(data: Any) -> list[str]:
    """Returns the columns that `data` gives. A format may leave out some."""
    chosen = data.format.get("columns") if isinstance(getattr(data, "format", None), dict) else None
    return [name for name in data.column_names if chosen is None or name in chosen]


def _column(data: Any, name: str, what: str) -> np.ndarray:
    values = [value.numpy() if hasattr(value, "numpy") else value for value in data[name]]
    try:
        array = np.asarray(values)
    except ValueError:
        raise Error(f"{what}, column '{name}': its rows have different lengths; pad them to one length") from None
    if array.dtype.kind in "USO":
        raise Error(f"{what}, column '{name}': has texts or objects; give damper.tokenized(data, tokenizer) for texts, and numbers for labels")
    return array


def tokenized(
    data: Any, tokenizer: Any, *, text: str | None = None, label: str | None = None, max_length: int = LENGTH
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Returns tokens `{"input_ids": [N, max_length], "attention_mask": ...}` and labels `[N]` of the texts in `data`.

    `data` is a list of texts, `(texts, labels)`, or a data set with columns, such as a `datasets.Dataset` or a DataFrame.
    `text` and `label` name its columns. `tokenizer` is one of `transformers`. It must not have seen the private texts.
    Every text has `max_length` tokens after padding, so that the length of the longest does not become public.
    """
    texts, labels = _texts(data, text, label)
    wrong = next((at for at, one in enumerate(texts) if not isinstance(one, str)), None)
    if wrong is not None:
        raise Error(f"data, row {wrong}: the text is a {type(texts[wrong]).__name__}; give strings")
    encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=max_length, return_tensors="np")
    return {name: np.asarray(value).astype(np.int64) for name, value in encoded.items()}, labels


def _texts(data: Any, text: str | None, label: str | None) -> tuple[list[Any], np.ndarray | None]:
    names = [str(name) for name in getattr(data, "columns", [])] or getattr(data, "column_names", None)
    if names is None:
        texts, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
        return list(texts), None if labels is None else np.asarray(labels)
    own = text or next((name for name in TEXTS if name in names), None)
    if own not in names:
        raise Error(f"data: has no column of texts{f' {own!r}' if own else ''} among {_list(names)}; give text='COLUMN'")
    target = label or next((name for name in LABELS if name in names), None)
    if label is not None and label not in names:
        raise Error(f"data: has no column '{label}' among {_list(names)}")
    return list(data[own]), None if target is None else np.asarray(list(data[target]))


def _list(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
