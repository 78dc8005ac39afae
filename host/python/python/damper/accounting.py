"""Privacy cost of mechanisms: ε of a δ, δ of an ε, bounds on both sides, and calibration of any value.

>>> from damper import accounting as acc
>>> run = acc.SelfComposed(acc.PoissonSampled(0.01, acc.Gaussian(1.1)), 1000)
>>> acc.epsilon(run, delta=1e-5)
>>> acc.epsilon_bounds(run, delta=1e-5)     # the exact ε is between them

An event has the name and the fields of dp-accounting's `DpEvent` without that suffix. Functions take those events too.
Noise multipliers are in units of the largest contribution of one record, under every neighbour relation. Every bound is
certified: rounding errors are on its safe side. An event without a proved bound is an error.

Neighbours differ in one record: `"add-or-remove"`, `"replace-one"` (a sum moves by up to twice the clip), or
`"zero-out"` (replaced by a record that contributes nothing). dp-accounting's `NeighboringRelation` is accepted.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._damper import Error, calibrate_event, privacy_bounds

__all__ = [
    "Bounds",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EpsilonDelta",
    "Event",
    "Gaussian",
    "Laplace",
    "MatrixMechanism",
    "NoOp",
    "NonPrivate",
    "PoissonSampled",
    "RandomizedResponse",
    "RepeatAndSelect",
    "SampledWithoutReplacement",
    "SelfComposed",
    "SingleEpochTreeAggregation",
    "TruncatedSubsampledGaussian",
    "UnsupportedEvent",
    "ZCDp",
    "calibrate",
    "delta",
    "delta_bounds",
    "epsilon",
    "epsilon_bounds",
    "from_dp_accounting",
    "from_opacus",
    "register_opacus",
]


class UnsupportedEvent(Error):
    """An event of another library that has no bound here."""


class Event:
    """A mechanism. Its subclasses are the known events."""

    def _parts(self) -> tuple[Any, ...]:
        raise UnsupportedEvent(f"{type(self).__name__}: not an event of damper.accounting")


@dataclass(frozen=True)
class NoOp(Event):
    """A release of nothing."""

    def _parts(self):
        return "compose", []


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without privacy: ε is infinite."""

    def _parts(self):
        return ("non-private",)


@dataclass(frozen=True)
class Gaussian(Event):
    """A Gaussian release of a vector. `noise_multiplier` is σ over the largest 2-norm of a record's contribution."""

    noise_multiplier: float

    def _parts(self):
        return _noise(self.noise_multiplier, "gaussian", self.noise_multiplier)


@dataclass(frozen=True)
class Laplace(Event):
    """A Laplace release of one number. `noise_multiplier` is the scale over a record's largest contribution."""

    noise_multiplier: float

    def _parts(self):
        return _noise(self.noise_multiplier, "laplace", self.noise_multiplier)


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """A release of one integer with noise k of probability ∝ `exp(-noise_parameter·|k|)`. A record contributes at most
    `sensitivity`."""

    noise_parameter: float
    sensitivity: int = 1

    def _parts(self):
        return _noise(self.noise_parameter, "discrete-laplace", self.noise_parameter, self.sensitivity)


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """A release of one integer with noise k of probability ∝ `exp(-k²/2σ²)`. A record contributes at most
    `sensitivity`."""

    sigma: float
    sensitivity: int = 1

    def _parts(self):
        return _noise(self.sigma, "discrete-gaussian", self.sigma, self.sensitivity)


@dataclass(frozen=True)
class RandomizedResponse(Event):
    """The bucket of one record, or with probability `noise_parameter` any of the buckets."""

    noise_parameter: float
    num_buckets: int

    def _parts(self):
        return "randomized-response", self.noise_parameter, self.num_buckets


@dataclass(frozen=True)
class EpsilonDelta(Event):
    """Any mechanism that is (ε, δ)-private under the neighbours that are asked about."""

    epsilon: float
    delta: float = 0.0

    def _parts(self):
        return "approximate", self.epsilon, self.delta


@dataclass(frozen=True)
class ZCDp(Event):
    """Any mechanism with a Rényi divergence of at most ξ + ρα at each order α. It has an upper bound alone."""

    rho: float
    xi: float = 0.0

    def _parts(self):
        return "concentrated", self.rho, self.xi


@dataclass(frozen=True)
class SingleEpochTreeAggregation(Event):
    """Trees of sums with Gaussian noise at each node. A record is in one step of one tree. Neighbours replace or zero
    out a record."""

    noise_multiplier: float
    step_counts: int | Sequence[int] = 1

    def _parts(self):
        given = self.step_counts
        counts = [_count("step_counts", one) for one in (given if isinstance(given, Iterable) else [given])]
        return _noise(self.noise_multiplier, "tree", self.noise_multiplier, max(counts, default=0))


@dataclass(frozen=True)
class MatrixMechanism(Event):
    """Gaussian noise correlated over steps, `C⁻¹z`, with a lower-triangular Toeplitz matrix C of this first column. A
    record is in at most `participations` of `steps` steps, at least `separation` apart. Neighbours replace or zero out
    a record."""

    noise_multiplier: float
    column: Sequence[float]
    steps: int
    separation: int
    participations: int

    def _parts(self):
        when = [self.steps, self.separation, self.participations]
        return _noise(self.noise_multiplier, "toeplitz", self.noise_multiplier, [float(c) for c in self.column], when)


@dataclass(frozen=True)
class PoissonSampled(Event):
    """The event on a Poisson draw: each record is in it with this probability, independently."""

    sampling_probability: float
    event: Event

    def _parts(self):
        return "poisson", self.sampling_probability, _native(self.event)


@dataclass(frozen=True)
class SampledWithoutReplacement(Event):
    """The event on a batch of fixed size. Neighbours replace one record."""

    source_dataset_size: int
    sample_size: int
    event: Event

    def _parts(self):
        sizes = _count("sample_size", self.sample_size), _count("source_dataset_size", self.source_dataset_size)
        return "fixed-size", *sizes, _native(self.event)


@dataclass(frozen=True)
class TruncatedSubsampledGaussian(Event):
    """A Gaussian release of a Poisson draw, of which a random part is left if it is too large. The truncation takes
    `(1 + e^ε)` times its probability from δ."""

    dataset_size: int
    sampling_probability: float
    truncated_batch_size: int
    noise_multiplier: float

    def _parts(self):
        size = _count("dataset_size", self.dataset_size)
        most = _count("truncated_batch_size", self.truncated_batch_size)
        if most == 0:
            return NoOp()._parts()
        sizes = size, self.sampling_probability, most
        return _noise(self.noise_multiplier, "truncated-poisson", *sizes, self.noise_multiplier)


@dataclass(frozen=True)
class SelfComposed(Event):
    """The event `count` times. Each may depend on the results of those before."""

    event: Event
    count: int

    def _parts(self):
        return "compose", [(_native(self.event), _count("count", self.count))]


@dataclass(frozen=True)
class Composed(Event):
    """Events in sequence. Each may depend on the results of those before."""

    events: Sequence[Event]

    def _parts(self):
        return "compose", [(_native(event), 1) for event in self.events]


@dataclass(frozen=True)
class RepeatAndSelect(Event):
    """The best result of a random number of runs of the event, which releases its score too.

    The number is Poisson (`shape=math.inf`), geometric (1), logarithmic (0) or truncated negative binomial (up to 1). It
    has an upper bound alone.
    """

    event: Event
    mean: float
    shape: float

    def _parts(self):
        return "best-of", _candidates(self.mean, self.shape), _native(self.event)


class Bounds(NamedTuple):
    """A lower and an upper bound. The exact value is between them."""

    #: Lower bound, or None if an event has only an upper bound.
    lower: float | None
    #: Upper bound.
    upper: float


def epsilon(event: Any, delta: float, *, neighbours: Any = "add-or-remove", accountant: str = "pld") -> float:
    """Returns ε at `delta`, an upper bound. `accountant="rdp"` uses Rényi divergences alone.

    Beyond ten million steps or a δ of 1e-15, the lower bound may be more than 1 % below. It is then an error, and
    `epsilon_bounds` has both.
    """
    kinds = {"pld": "epsilon", "rdp": "epsilon-rdp"}
    if accountant not in kinds:
        raise Error(f"accountant {accountant}: give pld or rdp")
    return privacy_bounds(kinds[accountant], _native(event), _relation(neighbours), delta)[1]


def epsilon_bounds(event: Any, delta: float, *, neighbours: Any = "add-or-remove") -> Bounds:
    """Returns a lower and an upper bound of ε at `delta`."""
    return Bounds(*privacy_bounds("epsilon-both", _native(event), _relation(neighbours), delta))


def delta(event: Any, epsilon: float, *, neighbours: Any = "add-or-remove") -> float:
    """Returns δ at `epsilon`, an upper bound. It is an error if ε is at such an end."""
    return privacy_bounds("delta", _native(event), _relation(neighbours), epsilon)[1]


def delta_bounds(event: Any, epsilon: float, *, neighbours: Any = "add-or-remove") -> Bounds:
    """Returns a lower and an upper bound of δ at `epsilon`."""
    return Bounds(*privacy_bounds("delta-both", _native(event), _relation(neighbours), epsilon))


def calibrate(
    make_event: Callable[[Any], Any],
    *,
    epsilon: float,
    delta: float,
    low: float,
    high: float,
    integer: bool = False,
    neighbours: Any = "add-or-remove",
) -> Any:
    """Returns the value between `low` and `high` whose event, `make_event(value)`, costs at most ε at δ, and nearly ε.

    The cost must rise or fall with the value. A float is found to a hundred-thousandth, an integer exactly.

    ``calibrate(lambda s: SelfComposed(PoissonSampled(0.01, Gaussian(s)), 1000), epsilon=2, delta=1e-5, low=0.1, high=10)``
    """
    if integer and not (low == int(low) >= 0 and high == int(high)):
        raise Error(f"low {low}, high {high}: give integers of at least 0")

    def make(value: Any) -> tuple[Any, ...]:
        return _native(make_event(value))

    return calibrate_event(make, _relation(neighbours), (epsilon, delta), (float(low), float(high)), integer)


#: Classes whose fields have the meaning of dp-accounting's, by that class.
_ALIKE = {
    f"{one.__name__.removesuffix('Dp')}DpEvent": one
    for one in (
        NoOp,
        NonPrivate,
        Gaussian,
        Laplace,
        DiscreteLaplace,
        RandomizedResponse,
        ZCDp,
        SingleEpochTreeAggregation,
        TruncatedSubsampledGaussian,
        PoissonSampled,
        SampledWithoutReplacement,
        SelfComposed,
        Composed,
        RepeatAndSelect,
    )
}


def from_dp_accounting(event: Any) -> Event:
    """Converts a `DpEvent` of dp-accounting, with the events inside it.

    Raises `UnsupportedEvent` with the name of an event that has no bound here.
    """
    name = type(event).__name__
    known = _ALIKE.get(name)
    if known is None:
        raise UnsupportedEvent(f"{name}: no event with a bound; give one of {', '.join(_ALIKE)}")

    def converted(value: Any) -> Any:
        if type(value).__name__.endswith("DpEvent"):
            return from_dp_accounting(value)
        if isinstance(value, (list, tuple)):
            return [converted(one) for one in value]
        return value

    fields = [field.name for field in event.__attrs_attrs__] if hasattr(event, "__attrs_attrs__") else []
    return known(**{field: converted(getattr(event, field)) for field in fields})


def from_opacus(history: Any) -> Event:
    """Converts the history of an accountant of Opacus, or the accountant or `PrivacyEngine` that has it.

    A history is a list of `(noise_multiplier, sample_rate, steps)`. The steps are accounted as Poisson draws, as Opacus
    does.
    """
    history = getattr(history, "accountant", history)
    steps: Iterable[tuple[float, float, int]] = getattr(history, "history", history)
    return Composed([SelfComposed(PoissonSampled(rate, Gaussian(noise)), count) for noise, rate, count in steps])


def register_opacus(name: str = "damper") -> type:
    """Registers an accountant with Opacus: `PrivacyEngine(accountant="damper")`. Returns its class.

    `get_epsilon(delta)` is the certified upper bound, and `get_bounds(delta)` has the lower bound too.
    """
    from opacus.accountants import IAccountant
    from opacus.accountants.registry import register_accountant

    class Accountant(IAccountant):
        """damper's accountant for Opacus."""

        def __init__(self):
            self.history: list[tuple[float, float, int]] = []

        def step(self, *, noise_multiplier: float, sample_rate: float):
            if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
                self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
            else:
                self.history.append((noise_multiplier, sample_rate, 1))

        def get_epsilon(self, delta: float, *, neighbours: Any = "add-or-remove", **_: Any) -> float:
            return epsilon(from_opacus(self.history), delta, neighbours=neighbours)

        def get_bounds(self, delta: float, *, neighbours: Any = "add-or-remove") -> Bounds:
            return epsilon_bounds(from_opacus(self.history), delta, neighbours=neighbours)

        def __len__(self) -> int:
            return sum(count for _, _, count in self.history)

        @classmethod
        def mechanism(cls) -> str:
            return name

    Accountant.__name__ = Accountant.__qualname__ = "DamperAccountant"
    register_accountant(name, Accountant, force=True)
    return Accountant


def _native(event: Any) -> tuple[Any, ...]:
    """The event as nested tuples for the extension module."""
    return event._parts() if isinstance(event, Event) else from_dp_accounting(event)._parts()


def _relation(neighbours: Any) -> str:
    names = {"ADD_OR_REMOVE_ONE": "add-or-remove", "REPLACE_ONE": "replace-one", "REPLACE_SPECIAL": "zero-out"}
    return neighbours if isinstance(neighbours, str) else names.get(getattr(neighbours, "name", ""), repr(neighbours))


def _noise(noise: float, *parts: Any) -> tuple[Any, ...]:
    """A release, which is not private without noise, as in dp-accounting."""
    return NonPrivate()._parts() if noise == 0 else parts


def _count(name: str, value: Any) -> int:
    """A number of records or releases."""
    try:
        number = operator.index(value)
    except TypeError:
        number = int(value) if isinstance(value, float) and value.is_integer() else -1
    if not 0 <= number <= 2**53:
        raise Error(f"{name} {value}: give an integer from 0 to 2^53")
    return number


#: Decimals of a distribution's parameters.
_SCALE = 1_000_000


def _candidates(mean: float, shape: float) -> str:
    """The distribution of the number of runs, with its parameter rounded to more runs."""
    if not (1 <= mean <= 1e9 and shape >= 0):
        raise Error(f"mean {mean}, shape {shape}: give a mean from 1 to 1e9 and a shape of at least 0")
    if shape == math.inf:
        return f"poisson:{math.ceil(mean * _SCALE) / _SCALE:.6f}"
    if shape > 1 or round(shape * _SCALE) != shape * _SCALE:
        raise UnsupportedEvent(f"RepeatAndSelect of shape {shape}: give at most 1, with six decimals, or math.inf")

    def mean_of(gamma: float) -> float:
        if shape == 0:
            return (1 - gamma) / (gamma * -math.log(gamma))
        return shape * (1 - gamma) / (gamma * -math.expm1(shape * math.log(gamma)))

    low, high = 1e-300, 1 - 1e-9
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean_of(middle) > mean else (low, middle)
    gamma = math.floor(low * _SCALE) / _SCALE
    if gamma <= 0:
        raise Error(f"mean {mean}: too many runs")
    return f"negative-binomial:{shape:.6f},{gamma:.6f}"
