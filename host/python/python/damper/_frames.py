"""Converts DataFrames and Series of pandas to arrays: columns by name, categories by public lists."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping

import numpy as np

from ._damper import Error

#: Name of the labels in `scale` if they are not a column.
LABELS = "labels"
#: Names of False and True in public lists, in lower case.
_TRUTHS = (("false", "0"), ("true", "1"))


@dataclasses.dataclass
class Columns:
    """Columns of an input. They are stored with the model, and other data of the run are matched with them by name."""

    names: list[str]
    #: Public values of categorical columns, in their order.
    categories: dict[str, list[Any]]


@dataclasses.dataclass
class Table:
    """An input from a DataFrame."""

    columns: Columns
    #: `[N, width]`: a number for each column, and 0 or 1 for each value of a categorical column.
    floats: np.ndarray
    #: `[N, columns]`, if all columns are integers, bools or categories (by position) and no value is missing.
    integers: np.ndarray | None
    #: True if each column has integers.
    only_integers: bool
    #: An integer column that float64 cannot represent. `floats` has the nearest float32 values.
    beyond_floats: str | None = None


@dataclasses.dataclass
class Reading:
    """Settings of the caller for tables."""

    #: Column, or columns, of the labels.
    label: Any = None
    #: Public values by column.
    categories: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    #: Public names of classes, in the model's order.
    classes: list[Any] | None = None
    #: Public constants by column: `(x - mean) / std`.
    scale: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    #: Public constants of the labels.
    label_scale: tuple[float, float] | None = None
    #: True if invalid rows are dropped. False if they are an error.
    drops: bool = False
    #: Columns of the run by input.
    known: dict[str, Columns] = dataclasses.field(default_factory=dict)
    #: Callback for notes to the user.
    note: Callable[[str], None] = lambda text: None


def of_options(options: dict[str, Any], label: Any) -> Reading:
    """Takes the settings of tables out of `options`. The remaining values have the forms of flags."""
    column = options.pop("label_column", None)
    if label is not None and column is not None:
        raise Error("label, label_column: give one of them")
    if isinstance(options.get("classes"), (int, np.integer)):
        raise Error("classes: a number is for networks by name; give the names of the classes, or leave it out: the module's outputs are the classes")
    # Text without a comma is a file of names, which the command reads.
    is_file = isinstance(options.get("classes"), str) and "," not in options["classes"]
    classes = None if is_file else options.pop("classes", None)
    classes = [name.strip() for name in classes.split(",")] if isinstance(classes, str) else None if classes is None else list(classes)
    if classes is not None and (len(classes) < 2 or len(set(map(str, classes))) < len(classes)):
        raise Error("classes: give two names or more, each once")
    categories = {name: _listed(name, values) for name, values in _pairs(options.pop("categories", None), "categories", "VALUE,VALUE,...").items()}
    scale = {}
    for name, values in _pairs(options.pop("scale", None), "scale", "MEAN,STD").items():
        values = values.split(",") if isinstance(values, str) else values
        try:
            mean, std = (_constant(value, f"scale, column '{name}'") for value in values)
        except Error:
            raise
        except (TypeError, ValueError):
            raise Error(f"scale, column '{name}': give (mean, std)") from None
        if not (np.isfinite(mean) and np.isfinite(std) and std > 0):
            raise Error(f"scale, column '{name}': give a finite mean and a standard deviation above 0")
        scale[name] = (mean, std)
    return Reading(column if label is None else label, categories, classes, scale, drops=options.get("on_bad_row") == "drop")


def _constant(value: Any, what: str) -> float:
    """Returns a public constant as float64. Fails for an integer that float64 cannot represent, because it would be
    rounded, and so would the values that it scales."""
    value = value.strip() if isinstance(value, str) else value
    number = float(value)
    try:
        integer = int(value) if isinstance(value, (str, int, np.integer)) else None
    except ValueError:
        integer = None
    if integer is not None and np.isfinite(number) and int(number) != integer:
        raise Error(f"{what}: {integer} is no 64-bit float; the nearest is {int(number)}: give one that is")
    return number


def _pairs(given: Any, what: str, form: str) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    pairs = {}
    for text in [given] if isinstance(given, str) else given:
        name, equals, value = str(text).rpartition("=")
        if not equals:
            raise Error(f"{what}: give a dict by column, or COLUMN={form}")
        pairs[name.strip()] = value
    return pairs


def _listed(name: str, values: Any) -> list[Any]:
    values = [value.strip() for value in values.split(",")] if isinstance(values, str) else [_plain(value) for value in values]
    if len(values) < 2 or len(set(map(str, values))) < len(values):
        raise Error(f"categories, column '{name}': give two different values or more, each once")
    return values


def _is(value: Any, name: str) -> bool:
    return any(base.__name__ == name and base.__module__.split(".")[0] == "pandas" for base in type(value).__mro__)


def is_frame(value: Any) -> bool:
    return _is(value, "DataFrame")


def is_series(value: Any) -> bool:
    return _is(value, "Series")


def is_table(value: Any) -> bool:
    return is_frame(value) or is_series(value)


def taken_apart(frame: Any, label: Any, what: str) -> tuple[Any, Any]:
    """Splits a DataFrame with the labels `label`, a column or a list of them, into features and labels."""
    wanted = list(label) if isinstance(label, (list, tuple)) and label not in frame.columns else [label]
    _check_names(frame, what)
    names = {str(name): name for name in frame.columns}
    unknown = [str(name) for name in wanted if str(name) not in names]
    if unknown:
        raise Error(f"{what}: has no column '{unknown[0]}' for the labels; its columns are {_list(names)}")
    own = [names[str(name)] for name in wanted]
    if len(own) == len(names):
        raise Error(f"{what}: has the labels alone, and no column of features")
    return frame.drop(columns=own), frame[own] if isinstance(label, list) else frame[own[0]]


def check_rows(features: Any, labels: Any, what: str) -> None:
    """Fails if pandas would reorder the rows of the labels to match the features."""
    tables = [one for one in _parts(features) if is_table(one)]
    for table in tables if is_table(labels) else []:
        own, other = table.index, labels.index
        if len(own) == len(other) and not own.equals(other) and own.is_unique and other.is_unique and own.isin(other).all():
            raise Error(
                f"{what}: the index of the labels has the rows in another order than that of the features; give y.loc[X.index], or "
                "y.to_numpy() if they belong together by place"
            )


def _parts(features: Any) -> list[Any]:
    return list(features.values()) if isinstance(features, dict) else list(features) if isinstance(features, tuple) else [features]


def _list(names: Any) -> str:
    names = [f"'{name}'" for name in names]
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"


def _check_names(frame: Any, what: str) -> list[str]:
    names = [str(name) for name in frame.columns]
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other is not name or names.count(name) > 1:
            problem = f"column '{name}' is there twice" if names.count(name) > 1 else f"columns '{other}' and '{name}' differ by case alone"
            raise Error(f"{what}: {problem}; give each column a name of its own")
    return names


def table(value: Any, what: str, reading: Reading, known: Columns | None) -> Table:
    """Returns the features of a DataFrame or a Series, in the order of `known` if the run already has columns."""
    frame = value.to_frame(name="0" if value.name is None else value.name) if is_series(value) else value
    names = _check_names(frame, what)
    if not names:
        raise Error(f"{what}: has no columns")
    if known is not None:
        absent = [name for name in known.names if name not in names]
        unknown = [name for name in names if name not in known.names]
        if absent or unknown:
            problems = [f"has no column {_list(absent)}"] if absent else []
            problems += [f"has {_list(unknown)}, which the training data have not"] if unknown else []
            raise Error(f"{what}: {' and '.join(problems)}; give the columns of the training data")
    order = names if known is None else known.names
    floats, integers, categories, only_integers, beyond_floats = [], [], {}, True, None
    for name in order:
        series = frame.iloc[:, names.index(name)]
        place = f"{what}, column '{name}'"
        listed = _categories(series, name, reading, known)
        if listed is not None:
            if name in reading.scale:
                raise Error(f"{place}: is one of categories; leave scale out")
            categories[name] = listed
            codes = _codes(series, listed, place, reading)
            one_hot = (codes[:, None] == np.arange(len(listed))).astype(np.float32)
            one_hot[codes < 0] = np.nan
            floats.append(one_hot)
            integers.append(codes if (codes >= 0).all() else None)
            only_integers = False
            continue
        number, whole, is_integer = _numbers(series, place, name, reading.scale.get(name))
        floats.append(number[:, None])
        integers.append(whole)
        only_integers = only_integers and is_integer
        if whole is not None and not _holds(whole):
            beyond_floats = beyond_floats or name
    whole = None if any(one is None for one in integers) else np.stack(integers, 1)
    return Table(Columns(order, categories), np.ascontiguousarray(np.concatenate(floats, 1)), whole, only_integers, beyond_floats)


def _categories(series: Any, name: str, reading: Reading, known: Columns | None) -> list[Any] | None:
    """Returns the public values of a column, or None if its values are numbers."""
    if known is not None:
        return known.categories.get(name)
    if name in reading.categories:
        return reading.categories[name]
    if not hasattr(series.dtype, "categories"):
        return None
    reading.note(
        f"column '{name}': the categories of its type count as public; if astype('category') took them from the rows, give the whole "
        "public list: pd.Categorical(values, categories=[...])"
    )
    return [_plain(value) for value in series.cat.categories]


def _plain(value: Any) -> Any:
    """Converts a value to its JSON type."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _codes(series: Any, listed: list[Any], what: str, reading: Reading) -> np.ndarray:
    """Returns the position of each row's value in `listed`. It is -1 for a missing value, or for a value outside
    `listed` if such rows are dropped."""
    by_value = {value: place for place, value in enumerate(listed)}
    by_text = {str(value): place for place, value in enumerate(listed)}

    def place(value: Any) -> int:
        value = _plain(value)
        if isinstance(value, bool):
            return next((place for place, entry in enumerate(listed) if str(entry).lower() in _TRUTHS[value]), -1)
        return by_value.get(value, by_text.get(str(value), -1))

    if hasattr(series.dtype, "categories"):
        own = np.array([place(value) for value in series.cat.categories] + [-1], np.int64)
        codes = own[series.cat.codes.to_numpy()]
    else:
        distinct, inverse = np.unique(series.astype(object).map(str).to_numpy(dtype=str), return_inverse=True)
        first = {text: value for text, value in zip(series.astype(object).map(str), series)} if len(distinct) else {}
        codes = np.array([place(first[text]) for text in distinct], np.int64)[inverse] if len(distinct) else np.zeros(0, np.int64)
        codes = np.where(series.isna().to_numpy(), -1, codes)
    if not reading.drops and ((codes < 0) & ~series.isna().to_numpy()).any():
        raise Error(f"{what}: has a value that is not in its public list; leave such rows out, or train with it in the list, or with on_bad_row='drop'")
    return codes.astype(np.int64)


def _numbers(series: Any, what: str, name: str, scale: tuple[float, float] | None) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """Returns a column as float32 (float64 if that loses digits), as int64 if that is exact, and True if its type is an
    integer type. A missing value is NaN."""
    import pandas

    kind, types = series.dtype, pandas.api.types
    is_bool, is_integer = types.is_bool_dtype(kind), types.is_integer_dtype(kind)
    if types.is_complex_dtype(kind):
        raise Error(f"{what}: has complex numbers; give their real and imaginary parts")
    if any(word in str(kind) for word in ("time", "date", "duration", "period")):
        raise Error(f"{what}: has times ({kind}); give numbers, such as (df['{name}'] - start).dt.total_seconds() with a public start")
    if not (is_bool or is_integer or types.is_numeric_dtype(kind)):
        raise Error(
            f"{what}: has values of type {kind}, not numbers; if they are categories, name all public values: categories={{'{name}': "
            "['a', 'b', ...]}, or pd.Categorical(values, categories=['a', 'b', ...]); if they are numbers, .astype('float64'); else drop it"
        )
    exact = None
    if (is_bool or is_integer) and not series.isna().any():
        exact = series.to_numpy(dtype="uint64" if str(kind).lower().startswith("uint64") else "int64")
    numbers = exact if exact is not None else series.to_numpy(dtype="float64", na_value=np.nan)
    if scale is not None:
        return scaled(numbers, scale, what), None, False
    if exact is not None and exact.dtype == np.uint64 and (exact > np.iinfo(np.int64).max).any():
        raise Error(f"{what}: has an integer beyond 64 bits with a sign; scale it")
    if exact is not None and not _holds(exact):
        # Rounded once, to the type that the module takes.
        return exact.astype(np.float32), exact.astype(np.int64), is_integer
    return _narrow(numbers, what), None if exact is None else exact.astype(np.int64), is_integer


def _scaled(numbers: np.ndarray, mean: float, std: float) -> np.ndarray:
    """Returns `(x - mean) / std` in float64. The difference of an integer and an integer mean is exact, whatever their
    size."""
    wide = numbers.astype(np.float64)
    if numbers.dtype.kind in "iu" and float(mean).is_integer() and (np.abs(wide) >= 2.0**53).any():
        return (numbers.astype(object) - int(mean)).astype(np.float64) / std
    return (wide - mean) / std


def scaled(numbers: np.ndarray, by: tuple[float, float], what: str) -> np.ndarray:
    """Returns a column scaled by its public constants, as float32, or float64 if that loses digits."""
    return _narrow(_scaled(numbers, *by), what)


def _holds(integers: np.ndarray) -> bool:
    """Returns true if float64 represents each of these integers."""
    large = integers[np.abs(integers.astype(np.float64)) >= 2.0**53]
    return all(int(float(one)) == int(one) for one in large)


def _narrow(numbers: np.ndarray, what: str) -> np.ndarray:
    """Returns float32 if that represents all values, else float64, which is rounded after normalisation."""
    wide = numbers.astype(np.float64)
    with np.errstate(over="ignore"):
        rounded = numbers.astype(np.float32)
    if (np.isinf(rounded) & np.isfinite(wide)).any():
        raise Error(f"{what}: has a number beyond float32; scale it")
    return rounded if np.array_equal(rounded.astype(np.float64), wide, equal_nan=True) else wide


def take_label_scale(labels: Any, reading: Reading) -> None:
    """Takes the constants of the labels: those of their column, or of `labels`. The command applies them, and reverses
    them in figures."""
    columns = labels.columns if is_frame(labels) else [labels.name] if is_series(labels) else []
    own = [name for name in dict.fromkeys([*map(str, columns), LABELS]) if name in reading.scale]
    if len(own) > 1 or own and own[0] != LABELS and len(columns) > 1:
        raise Error(f"scale: the labels have several columns or names; give one pair for all of them, scale={{'{LABELS}': (mean, std)}}")
    if own and reading.label_scale is None:
        mean, std = reading.label_scale = reading.scale[own[0]]
        reading.note(
            f"labels: the module learns (y - {mean:g}) / {std:g}; losses and the run's model.onnx are in the labels' unit, and what load_into "
            "fills gives scaled ones"
        )


def labels(value: Any, what: str, reading: Reading, loss: Any) -> np.ndarray:
    """Returns the labels of a Series, or of a DataFrame of labels: classes as int64, numbers as float32 or float64, not
    scaled."""
    if is_frame(value) and len(value.columns) > 1:
        names = _check_names(value, what)
        parts = [_numbers(value.iloc[:, at], f"{what}, column '{name}'", name, None)[0] for at, name in enumerate(names)]
        return np.ascontiguousarray(np.stack(parts, 1))
    is_wide = is_frame(value)
    series = value.iloc[:, 0] if is_wide else value
    place = what if series.name is None else f"{what}, column '{series.name}'"
    listed = reading.classes
    if listed is None and hasattr(series.dtype, "categories"):
        listed = [_plain(one) for one in series.cat.categories]
        reading.note(
            f"labels: the categories of their type count as public classes, in the order {_list(listed)}; if they were taken from the "
            "rows, give classes=[...]"
        )
        reading.classes = listed
    if listed is not None and (not _is_number(series) or _names_numbers(series, listed)):
        return _whole(_codes(series, listed, place, reading), series, place, reading)
    if not _is_number(series):
        raise Error(
            f"{place}: has values of type {series.dtype}, not numbers; name the classes in the model's order, which are public: "
            "classes=['a', 'b', ...], or pd.Categorical(y, categories=['a', 'b', ...])"
        )
    numbers, whole, is_integer = _numbers(series, place, str(series.name), None)
    if whole is not None:
        return whole
    takes_numbers = loss is not None and "cross" not in str(getattr(loss, "__name__", type(loss).__name__ if not isinstance(loss, str) else loss)).lower()
    if (is_integer or _is_bool(series)) and not takes_numbers:
        codes = np.where(np.isnan(numbers), -1, np.nan_to_num(numbers)).astype(np.int64)
        return _whole(codes, series, place, reading)
    return numbers[:, None] if is_wide else numbers


def _whole(codes: np.ndarray, series: Any, what: str, reading: Reading) -> np.ndarray:
    """Returns classes. A missing value becomes an invalid class, which makes a bad row."""
    missing = (codes < 0) if reading.drops else series.isna().to_numpy()
    if not missing.any():
        return codes
    if not reading.drops:
        raise Error(f"{what}: has a missing label; leave such rows out, as by df.dropna(subset=[...]), or on_bad_row='drop'")
    return np.where(missing, np.iinfo(np.int64).min, codes)


def _is_number(series: Any) -> bool:
    import pandas

    types = pandas.api.types
    if hasattr(series.dtype, "categories"):
        return False
    return types.is_bool_dtype(series.dtype) or types.is_numeric_dtype(series.dtype)


def _names_numbers(series: Any, classes: list[Any]) -> bool:
    """Returns true if names of classes are integers or truth values, like the labels. They are then matched by name, as
    in files."""
    import pandas

    names = [str(name).lower() for name in classes]
    if _is_bool(series):
        return any(name in words for name in names for words in _TRUTHS)
    return pandas.api.types.is_integer_dtype(series.dtype) and any(name.lstrip("+-").isdecimal() for name in names)


def _is_bool(series: Any) -> bool:
    import pandas

    return pandas.api.types.is_bool_dtype(series.dtype)
