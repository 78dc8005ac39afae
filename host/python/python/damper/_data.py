"""Converts arrays, DataFrames, Datasets and DataLoaders to arrays for the command: float32 or int64, with the samples
along axis 0."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, Mapping

import numpy as np

from . import _frames, _texts
from ._damper import Error
from ._frames import Columns, Reading, Table

# Number of samples that a Dataset is asked for at once.
CHUNK = 256


@dataclasses.dataclass
class Samples:
    """Samples in memory."""

    #: Arrays `[N, ...]` by the names of the module's inputs.
    inputs: dict[str, np.ndarray]
    #: Labels `[N, ...]`.
    labels: np.ndarray | None
    #: True if the module is called with names, as `module(ids=..., mask=...)`.
    by_name: bool
    #: Batch size of a DataLoader.
    batch_size: int | None = None
    #: Inputs from DataFrames.
    tables: dict[str, Table] = dataclasses.field(default_factory=dict)

    def columns(self) -> dict[str, Columns]:
        """Returns the columns of the inputs that have names."""
        return {name: table.columns for name, table in self.tables.items()}

    def split(self) -> tuple[list[tuple[str, np.ndarray]], np.ndarray | None]:
        """Returns the arguments for the extension."""
        return list(self.inputs.items()), self.labels


def samples(
    data: Any, names: list[str], what: str = "data", wants_labels: bool = True, reading: Reading | None = None, loss: Any = None
) -> Samples:
    """Reads `data` into memory in one pass: `(X, y)`, a DataFrame, a `Dataset` or a `DataLoader`.

    `X` is an array `[N, ...]`, a DataFrame, a tuple of them (inputs by position) or a dict of them (inputs by name).
    `y` is an array `[N, ...]`, a Series, or the name of a column of `X`. `names` are those of the module's inputs.
    """
    reading = reading or Reading()
    batch_size = None
    # Such as a BatchEncoding of transformers.
    data = dict(data) if isinstance(data, Mapping) else data
    if isinstance(data, tuple):
        data = tuple(dict(one) if isinstance(one, Mapping) else one for one in data)
    if _frames.is_table(data):
        if not wants_labels:
            features, labels = data, None
        elif reading.label is None or not _frames.is_frame(data):
            kind = type(data).__name__
            raise Error(f"{what}: a {kind} alone has no labels; give (X, y), (df, 'COLUMN') or label='COLUMN', the labels' column")
        else:
            features, labels = _frames.taken_apart(data, reading.label, what)
    elif _texts.has_columns(data):
        label = reading.label if isinstance(reading.label, str) else None
        features, labels = _texts.columns(data, names, what, wants_labels, label)
    elif _is_loader(data):
        batch_size = data.batch_size
        features, labels = _stack(_walk(data), what, wants_labels)
    elif isinstance(data, (tuple, list)):
        if not wants_labels and len(data) == 1:
            features, labels = data[0], None
        elif len(data) == 2:
            features, labels = data
            if _frames.is_frame(features) and _is_column(labels):
                features, labels = _frames.taken_apart(features, labels, what)
        else:
            raise Error(f"{what}: give (X, y), a DataFrame, a Dataset or a DataLoader; this is a {type(data).__name__} of {len(data)}")
    elif isinstance(data, np.ndarray) or _is_tensor(data) or isinstance(data, dict):
        if wants_labels:
            raise Error(f"{what}: has no labels; give (X, y)")
        features, labels = data, None
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        features, labels = _stack(_walk_dataset(data, what), what, wants_labels)
    elif hasattr(data, "__iter__"):
        raise Error(
            f"{what}: a {type(data).__name__} has no known number of samples, from which the sampling rate follows; give arrays or "
            "a Dataset with __len__ and __getitem__"
        )
    else:
        raise Error(f"{what}: a {type(data).__name__}; give (X, y), a DataFrame, a Dataset or a DataLoader")
    _frames.check_rows(features, labels, what)
    inputs, by_name = _by_name(features, names, what)
    if labels is not None:
        _frames.take_label_scale(labels, reading)
    _check_settings(inputs, labels, what, reading)
    arrays, tables = {}, {}
    for name, value in inputs.items():
        known = reading.known.get(name)
        if _frames.is_table(value):
            tables[name] = _frames.table(value, what, reading, known)
            arrays[name] = tables[name].floats
            continue
        arrays[name] = _array(value, f"{what}, input '{name}'")
        if known is not None:
            arrays[name] = _taken_by_place(arrays[name], known, what, reading)
    if _frames.is_table(labels):
        labels = _frames.labels(labels, f"{what}, labels", reading, loss)
    elif labels is not None:
        labels = _array(labels, f"{what}, labels", are_labels=True)
    _check_lengths(arrays, labels, what)
    return Samples(arrays, labels, by_name, batch_size, tables)


def _is_column(labels: Any) -> bool:
    return isinstance(labels, str) or isinstance(labels, list) and bool(labels) and all(isinstance(one, str) for one in labels)


def _taken_by_place(array: np.ndarray, known: Columns, what: str, reading: Reading) -> np.ndarray:
    """Returns columns without names, which take the positions of the run's columns and their constants."""
    widths = [len(known.categories.get(name, [0])) for name in known.names]
    width = sum(widths)
    if array.shape[1:] not in ((width,), (len(known.names),)):
        raise Error(f"{what}: has the shape {list(array.shape)} where the training data have {len(known.names)} named columns; give a DataFrame")
    reading.note(f"{what}: its columns have no names, so they are taken by place: {', '.join(known.names)}")
    scaled = [name for name in known.names if name in reading.scale]
    if not scaled:
        return array
    if array.shape[1] != width:
        raise Error(f"{what}: has one column for each category and one that scale applies to; give a DataFrame")
    places = dict(zip(known.names, np.cumsum([0, *widths])))
    columns = [array[:, at] for at in range(width)]
    for name in scaled:
        columns[places[name]] = _frames.scaled(array[:, places[name]], reading.scale[name], f"{what}, column '{name}'")
    return np.stack(columns, 1)


def _check_settings(inputs: dict[str, Any], labels: Any, what: str, reading: Reading) -> None:
    """Fails if settings name columns that no DataFrame has."""
    columns = {str(name) for value in inputs.values() if _frames.is_frame(value) for name in value.columns}
    for setting, given in (("categories", reading.categories), ("scale", reading.scale)):
        own = [str(one) for one in getattr(labels, "columns", [getattr(labels, "name", None)])] + [_frames.LABELS]
        of_labels = own if setting == "scale" and reading.label_scale is not None else []
        unknown = [name for name in given if name not in columns and name not in of_labels]
        if unknown and not reading.known:
            raise Error(f"{setting}: {what} has no column '{unknown[0]}' of a DataFrame; correct it or leave it out")


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def _is_loader(data: Any) -> bool:
    return hasattr(data, "dataset") and hasattr(data, "collate_fn")


def _walk(loader: Any) -> Iterator[Any]:
    """Yields each sample of a DataLoader's data set once, in its order, in batches. The loader's sampler is ignored."""
    import torch

    utils = torch.utils.data
    dataset = loader.dataset
    if isinstance(dataset, utils.IterableDataset) or not hasattr(dataset, "__len__"):
        raise Error("data: an IterableDataset has no known number of samples, from which the sampling rate follows; give arrays")
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    plain = (utils.SequentialSampler, utils.RandomSampler)
    is_plain = isinstance(sampler, plain) and not getattr(sampler, "replacement", False)
    if not is_plain or getattr(sampler, "num_samples", len(dataset)) != len(dataset):
        raise Error(
            f"data: the DataLoader's {type(sampler).__name__} leaves samples out or repeats them, and damper draws them itself, each "
            "with the same probability; give the Dataset that is meant, such as torch.utils.data.Subset"
        )
    return iter(
        utils.DataLoader(
            dataset,
            batch_size=loader.batch_size or CHUNK,
            shuffle=False,
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn if loader.batch_size else None,
        )
    )


def _walk_dataset(dataset: Any, what: str) -> Iterator[Any]:
    """Yields each sample of a Dataset once, in its order, in batches."""
    if len(dataset) == 0:
        raise Error(f"{what}: holds no samples")
    tensors = getattr(dataset, "tensors", None)
    if isinstance(tensors, tuple) and all(_is_tensor(one) for one in tensors):
        yield tensors
        return
    from torch.utils.data import DataLoader

    yield from DataLoader(dataset, batch_size=CHUNK, shuffle=False)


def _stack(batches: Iterator[Any], what: str, wants_labels: bool) -> tuple[Any, Any]:
    """Concatenates the features and labels of the batches."""
    features: list[Any] = []
    labels: list[Any] = []
    for batch in batches:
        if isinstance(batch, dict):
            keys = [key for key in ("labels", "label", "y") if key in batch]
            labels.append(batch[keys[0]] if keys else None)
            features.append({key: value for key, value in batch.items() if key not in keys})
        elif isinstance(batch, (tuple, list)) and (len(batch) > 1 or not wants_labels):
            inputs = batch[:-1] if wants_labels else batch
            features.append(inputs[0] if len(inputs) == 1 else tuple(inputs))
            labels.append(batch[-1] if wants_labels else None)
        elif not wants_labels:
            features.append(batch)
            labels.append(None)
        else:
            raise Error(f"{what}: gives samples without labels; it must give (x, y), (x1, x2, y) or a dict with 'labels'")
    if not features:
        raise Error(f"{what}: holds no samples")
    return _joined(features), None if labels[0] is None else _joined(labels)


def _joined(parts: list[Any]) -> Any:
    first = parts[0]
    if isinstance(first, dict):
        return {key: _joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple):
        return tuple(_joined([part[at] for part in parts]) for at in range(len(first)))
    if _is_tensor(first):
        import torch

        return first if len(parts) == 1 else torch.cat(parts)
    return np.concatenate([np.asarray(part) for part in parts])


def _by_name(features: Any, names: list[str], what: str) -> tuple[dict[str, Any], bool]:
    """Returns arrays by the names of the module's inputs."""
    if isinstance(features, dict):
        unknown = [key for key in features if names and key not in names and "*" not in names]
        if unknown:
            raise Error(f"{what}: '{unknown[0]}' is no input of the module, whose forward takes {', '.join(names)}")
        return {str(key): value for key, value in features.items()}, True
    parts = features if isinstance(features, tuple) else (features,)
    known = [name for name in names if name != "*"]
    if len(parts) > len(known) and "*" not in names:
        raise Error(f"{what}: gives {len(parts)} arrays where the module's forward takes {', '.join(known)}")
    own = known[: len(parts)] + [f"input_{at}" for at in range(len(known), len(parts))]
    return dict(zip(own, parts)), False


def _array(value: Any, what: str, are_labels: bool = False) -> np.ndarray:
    """Returns `value` as a C-contiguous array of float32, float64, int64 or uint64, without rounding."""
    if _is_tensor(value):
        value = value.detach().cpu()
        narrow = value.is_floating_point() and str(value.dtype) != "torch.float64"
        value = (value.float() if narrow else value).numpy()
    array = np.asarray(value)
    if array.ndim == 0:
        raise Error(f"{what}: is a single number; give an array [N, ...]")
    if array.dtype == np.uint8 and not are_labels:
        raise Error(
            f"{what}: has bytes (uint8), of which damper cannot tell whether they are pixels or ids; give "
            "X.astype('float32') / 255, or X.astype('int64')"
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32, copy=False)
    elif array.dtype.kind in "iub":
        array = array.astype(np.uint64 if array.dtype == np.uint64 else np.int64, copy=False)
    else:
        raise Error(f"{what}: has elements of type {array.dtype}; give numbers")
    return np.ascontiguousarray(array)


def _check_lengths(arrays: dict[str, np.ndarray], labels: np.ndarray | None, what: str) -> None:
    lengths = {name: len(array) for name, array in arrays.items()}
    if labels is not None:
        lengths["labels"] = len(labels)
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise Error(f"{what}: arrays have different numbers of samples ({shown})")
    if 0 in lengths.values():
        raise Error(f"{what}: holds no samples")
