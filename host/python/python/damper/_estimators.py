"""Estimators with the interface of scikit-learn. They need neither scikit-learn nor PyTorch.

They do not inherit from scikit-learn's classes, because `import damper` must not import it.
"""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any, Sequence

import numpy as np

from . import _network
from ._damper import Error
from ._fit import PrivacyWarning, fit_network
from ._frames import is_frame
from ._predict import softmax
from ._run import Run

#: A public number for all features, or a number for each.
Numbers = float | Sequence[float]


class _Estimator:
    """Parameters, fitting and checks of both estimators."""

    #: `classifier` or `regressor`.
    _estimator_type: str
    network: str
    epsilon: float | None
    delta: float | None
    noise_multiplier: float | None
    batch_size: int | None
    epochs: float | None
    lr: float | None
    clip: float | None
    optimizer: str | None
    normalize: tuple[Numbers, Numbers] | None
    test: float | None
    seed: int | None
    budget: str | os.PathLike[str] | None
    out: str | os.PathLike[str] | None
    options: dict[str, Any] | None
    progress: bool

    def _keep(self, given: dict[str, Any]) -> None:
        """Stores the arguments of `__init__` without a change, as scikit-learn's `clone` expects."""
        for name in self._names():
            setattr(self, name, given[name])

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the parameters of the constructor. `deep` has no effect: no parameter is an estimator."""
        return {name: getattr(self, name) for name in sorted(self._names())}

    def set_params(self, **params: Any) -> Any:
        """Sets parameters of the constructor, and returns the estimator."""
        names = self._names()
        for name in params:
            if name not in names:
                raise Error(f"{name}: not a parameter of {type(self).__name__}; use {', '.join(names)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in self._names()}
        shown = [f"{name}={value!r}" for name, value in given.items() if repr(value) != repr(defaults[name].default)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        is_classifier = self._estimator_type == "classifier"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if is_classifier else None,
            regressor_tags=None if is_classifier else RegressorTags(),
            non_deterministic=self.seed is None,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")

    def _fit(self, features: np.ndarray, names: np.ndarray | None, labels: np.ndarray, of_labels: dict[str, Any]) -> None:
        """Trains, and sets the attributes of a fitted estimator."""
        if not _network.is_supported(self.network):
            raise Error(f"network: {self.network}; give linear or mlp:64,32, or train a module by damper.fit")
        constants, normalize = _constants(self.normalize, features.shape[1])
        settings = {
            name: getattr(self, name)
            for name in ("epsilon", "delta", "noise_multiplier", "batch_size", "epochs", "lr", "clip", "optimizer", "test", "seed", "budget")
        }
        settings.update(model=self.network, normalize=normalize, **of_labels)
        for name, value in (self.options or {}).items():
            if name in settings or name in self._names() or name in ("data", "labels", "resume"):
                raise Error(f"options: has {name}, which is no other flag of damper train; use the parameters of {type(self).__name__}")
            settings[name] = value
        run = fit_network(settings, features, labels, self.out, self.progress)
        self._network = _network.read(run.path / "model.onnx", constants)
        #: The run: its folder, its report and the epsilon that this fit spent.
        self.run_: Run = run
        self.n_features_in_ = features.shape[1]
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _outputs(self, X: Any) -> np.ndarray:
        """Returns the network's outputs `[N, out]`."""
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(f"This {type(self).__name__} instance is not fitted yet; call fit first")
        names = _column_names(X)
        known = getattr(self, "feature_names_in_", None)
        if names is not None and known is not None:
            _check_names(list(known), list(names))
        elif names is not None:
            warnings.warn(f"X has feature names, but {type(self).__name__} was fitted without feature names", stacklevel=3)
        elif known is not None:
            warnings.warn(f"X does not have valid feature names, but {type(self).__name__} was fitted with feature names", stacklevel=3)
        features = _features(X)
        if features.shape[1] != self.n_features_in_:
            raise Error(
                f"X has {features.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input; give the "
                "columns of fit"
            )
        return self._network(features)


class Classifier(_Estimator):
    """A classifier with the interface of scikit-learn, trained with differential privacy.

    ``damper.Classifier("mlp:64,32", epsilon=3, classes=[0, 1]).fit(X, y).predict(X_new)``

    Each `fit` spends `epsilon` on its rows. `score` and other figures on private rows are exact, and epsilon does not cover them.

    Parameters
    ----------
    network
        "linear", or "mlp:64,32" with the widths of the hidden layers, which have tanh.
    classes
        The public classes, two or more. Without them they are taken from `y`, with a `damper.PrivacyWarning`.
    epsilon, delta, noise_multiplier
        The budget of a fit. Give `epsilon` or `noise_multiplier`.
    batch_size, epochs, lr, clip, optimizer
        As in `damper train`. Their defaults depend on public sizes alone.
    normalize
        Public constants `(mean, std)`, each a number or a number for each feature: features become (x - mean) / std. Constants that are
        computed from private rows, as by `StandardScaler`, are not covered by epsilon.
    test
        Fraction of the rows that is held out. Its exact figures are in `run_.accuracy` and `run_.loss`.
    seed
        Makes the run a repeatable simulation, which is not private.
    budget
        A file of `damper budget`. Each fit is charged against it first, also those of copies in other processes.
    out
        Output folder of the run. The default is the next free folder in `damper-runs`. Leave it out if there are several fits.
    options
        Other flags of `damper train` with `_` instead of `-`: `{"normalize_private": "0,1", "workers": 1}`.
    progress
        Shows a bar.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        The sorted classes, the number of features, and the names of a DataFrame's columns.
    run_
        The `damper.Run`.
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        network: str = "linear",
        *,
        classes: Sequence[Any] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        noise_multiplier: float | None = None,
        batch_size: int | None = None,
        epochs: float | None = None,
        lr: float | None = None,
        clip: float | None = None,
        optimizer: str | None = None,
        normalize: tuple[Numbers, Numbers] | None = None,
        test: float | None = None,
        seed: int | None = None,
        budget: str | os.PathLike[str] | None = None,
        out: str | os.PathLike[str] | None = None,
        options: dict[str, Any] | None = None,
        progress: bool = False,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any) -> Classifier:
        """Trains on the rows of `X` and their classes `y`, and returns the estimator. Earlier results are replaced."""
        features, names = _features(X), _column_names(X)
        labels = _labels(y, len(features))
        if labels.dtype.kind == "f" and not _are_integers(labels):
            raise Error("y: Unknown label type: continuous; give classes, or use damper.Regressor")
        if self.classes is None:
            try:
                classes = np.unique(labels)
            except TypeError:
                raise Error("y: has missing labels, or labels of several types; leave such rows out, and give all one type") from None
            message = "classes: are taken from y, so the set of its classes is treated as public; give classes=[...]"
            warnings.warn(message, PrivacyWarning, stacklevel=2)
        else:
            given = range(self.classes) if isinstance(self.classes, (int, np.integer)) else self.classes
            if isinstance(given, str):
                raise Error(f"classes: {given!r} is a text; give a list of the classes")
            classes = np.unique(np.asarray(given))
            if classes.size != len(given):
                raise Error("classes: give each class once, all of one type")
        if classes.size < 2:
            raise Error("classes: y has one class only; give classes=[...] with all public classes")
        numbers = {value: at for at, value in enumerate(classes.tolist())}
        found = [numbers.get(value, -1) for value in labels.tolist()]
        if -1 in found:
            raise Error("y: has a label that is not in classes; add it to classes, or correct the row")
        of_labels = {"loss": "softmax-cross-entropy", "classes": str(classes.size)}
        self._fit(features, names, np.array(found, np.int64), of_labels)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probability of each class `[N, classes]`, in the order of `classes_`."""
        return softmax(self._outputs(X), 1)

    def predict(self, X: Any) -> np.ndarray:
        """Returns the most probable class of each row."""
        best = self._outputs(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy, exact, which epsilon does not cover if the rows are private."""
        predicted = self.predict(X)
        right = predicted == _labels(y, len(predicted))
        return float(np.average(right, weights=sample_weight))


class Regressor(_Estimator):
    """A regressor of one number with the interface of scikit-learn, trained with differential privacy.

    ``damper.Regressor("mlp:64", epsilon=3, scale=(50, 20)).fit(X, y).predict(X_new)``

    Parameters and attributes are those of `Classifier` without the classes, and:

    Parameters
    ----------
    loss
        "mse", "l1" or "huber".
    scale
        Public constants `(mean, std)` of the target. Training is on (y - mean) / std, and predictions are in the target's unit.
    """

    _estimator_type = "regressor"

    def __init__(
        self,
        network: str = "linear",
        *,
        loss: str = "mse",
        scale: tuple[float, float] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        noise_multiplier: float | None = None,
        batch_size: int | None = None,
        epochs: float | None = None,
        lr: float | None = None,
        clip: float | None = None,
        optimizer: str | None = None,
        normalize: tuple[Numbers, Numbers] | None = None,
        test: float | None = None,
        seed: int | None = None,
        budget: str | os.PathLike[str] | None = None,
        out: str | os.PathLike[str] | None = None,
        options: dict[str, Any] | None = None,
        progress: bool = False,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any) -> Regressor:
        """Trains on the rows of `X` and their numbers `y`, and returns the estimator. Earlier results are replaced."""
        features, names = _features(X), _column_names(X)
        labels = _finite(_floats(_labels(y, len(features)), "y"), "y")
        if self.loss not in ("mse", "l1", "huber"):
            raise Error(f"loss: {self.loss}; give mse, l1 or huber")
        scale = None if self.scale is None else _constants(self.scale, 1, "scale")[1]
        self._fit(features, names, labels.reshape(-1, 1), {"loss": self.loss, "scale": None if scale is None else f"labels={scale}"})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns the number of each row, in the target's unit."""
        return self._outputs(X)[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns R², exact, which epsilon does not cover if the rows are private."""
        predicted = self.predict(X)
        truth = _floats(_labels(y, len(predicted)), "y")
        weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        missed = (weights * (truth - predicted) ** 2).sum()
        around = (weights * (truth - np.average(truth, weights=weights)) ** 2).sum()
        return float(1 - missed / around) if around > 0 else float(missed == 0)


def _not_fitted(message: str) -> Exception:
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return Error(message)
    return NotFittedError(message)


def _column_names(X: Any) -> np.ndarray | None:
    """Returns the names of a DataFrame's columns if all are text."""
    columns = getattr(X, "columns", None)
    if columns is None or callable(columns):
        return None
    are_text = [isinstance(name, str) for name in columns]
    if any(are_text) and not all(are_text):
        raise TypeError("X: has column names of text and of other types (Feature names are only supported if all are strings); rename the columns")
    return np.array(list(columns), dtype=object) if are_text and all(are_text) else None


def _check_names(known: list[str], names: list[str]) -> None:
    """Fails, in the words of scikit-learn, unless the columns are those of `fit` in their order."""
    if names == known:
        return
    message = "The feature names should match those that were passed during fit.\n"
    parts = {
        "Feature names unseen at fit time:\n": sorted(set(names) - set(known)),
        "Feature names seen at fit time, yet now missing:\n": sorted(set(known) - set(names)),
    }
    for title, listed in parts.items():
        if listed:
            message += title + "".join(f"- {name}\n" for name in listed[:5]) + ("- ...\n" if len(listed) > 5 else "")
    if not any(parts.values()):
        message += "Feature names must be in the same order as they were in fit.\n"
    raise Error(message)


def _features(X: Any) -> np.ndarray:
    """Returns finite features `[N, in]`, float64."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise Error("X: is a sparse matrix; give X.toarray(), or sparse_output=False to the encoder that made it")
    for name in X.columns if is_frame(X) else []:
        _floats(np.asarray(X[name]), f"X, column '{name}'")
    array = _floats(np.asarray(X), "X")
    if array.ndim != 2:
        raise Error(
            f"X: Expected 2D array, got {array.ndim}D array instead. Reshape your data: X.reshape(-1, 1) for one feature, X.reshape(1, -1) for "
            "one row"
        )
    for at, what in ((0, "sample"), (1, "feature")):
        if array.shape[at] == 0:
            raise Error(f"X: Found array with 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required.")
    return _finite(array, "X")


def _labels(y: Any, rows: int) -> np.ndarray:
    """Returns labels `[N]`."""
    if y is None:
        raise Error("y: This estimator requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected; give y.ravel()", _conversion_warning(), stacklevel=3)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise Error(f"y: has the shape {labels.shape}; give one label for each row, an array [N]")
    if len(labels) != rows:
        raise Error(f"y: has {len(labels)} labels, and X has {rows} rows (inconsistent numbers of samples); give one label for each row")
    return _finite(labels, "y") if labels.dtype.kind == "f" else labels


def _conversion_warning() -> type[Warning]:
    try:
        from sklearn.exceptions import DataConversionWarning
    except ImportError:
        return UserWarning
    return DataConversionWarning


def _floats(array: np.ndarray, what: str) -> np.ndarray:
    if array.dtype.kind == "c":
        raise Error(f"{what}: Complex data not supported; give real and imaginary parts as features")
    try:
        return array.astype(np.float64)
    except TypeError as error:
        # The type that scikit-learn raises for objects.
        raise TypeError(f"{what}: has an object that is no number ({error}); give numbers") from None
    except ValueError:
        raise Error(f"{what}: has text that is no number; give numbers: OneHotEncoder encodes categories, if its list of them is public") from None


def _finite(array: np.ndarray, what: str) -> np.ndarray:
    if np.isnan(array).any():
        raise Error(f"Input {what} contains NaN; leave such rows out, or fill them")
    if np.isinf(array).any():
        raise Error(f"Input {what} contains infinity or a value too large for dtype('float64'). Leave such rows out, or clip them")
    return array


def _are_integers(array: np.ndarray) -> bool:
    return bool((array == np.floor(array)).all())


def _constants(given: Any, width: int, setting: str = "normalize") -> tuple[_network.Constants | None, str | None]:
    """Returns public constants `(mean, std)` of `width` features as arrays, and in the command's form."""
    if given is None:
        return None, None
    try:
        mean, std = (np.asarray(one, np.float64) for one in given)
    except (TypeError, ValueError):
        raise Error(f"{setting}: give (mean, std)") from None
    if any(one.shape not in ((), (width,)) for one in (mean, std)):
        raise Error(f"{setting}: give (mean, std), each a number" + (f", or {width} numbers" if width > 1 else ""))
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
        raise Error(f"{setting}: give finite means and standard deviations above 0")
    listed = [",".join(map(repr, np.broadcast_to(one, width).tolist())) for one in (mean, std)]
    if mean.ndim == std.ndim == 0 or width == 1:
        return (mean, std), f"{float(mean.ravel()[0])!r},{float(std.ravel()[0])!r}"
    return (mean, std), ":".join(listed)
