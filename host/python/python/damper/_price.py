"""Privacy cost of noise, and noise for a budget."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from . import _damper


def epsilon(
    run: str | os.PathLike[str] | None = None,
    *,
    noise_multiplier: float | None = None,
    sampling_rate: float | None = None,
    steps: int | None = None,
    delta: float | None = None,
    accountant: str | None = None,
    **options: Any,
) -> float:
    """Returns ε of `steps` steps with this noise and sampling rate at `delta`, an upper bound, or ε of the run in the
    folder `run`.

    `noise_multiplier` is the standard deviation of the noise over the clip, `sampling_rate` the probability of each
    sample in each step: expected batch / N. `options` are the other flags of `damper epsilon`, such as
    `neighbours="replace"`. `group=5` gives ε of five samples of one person.
    """
    settings = dict(
        noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps, delta=delta, accountant=accountant, **options
    )
    return float(_answer("epsilon", settings, [] if run is None else [os.fspath(run)])["epsilon"])


class Calibration(NamedTuple):
    """Result of `calibrate`, and the rest of the plan."""

    #: ε, at most the requested ε.
    epsilon: float
    #: δ.
    delta: float
    #: Standard deviation of the noise over the clip.
    noise_multiplier: float
    #: Probability of each sample in each step.
    sampling_rate: float
    #: Number of steps.
    steps: int
    #: Expected number of samples in a step, if `samples` was given.
    batch_size: int | None


def calibrate(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    sampling_rate: float | None = None,
    samples: int | None = None,
    batch_size: int | None = None,
    steps: int | None = None,
    accountant: str | None = None,
    **options: Any,
) -> Calibration:
    """Finds the missing value among `epsilon`, `noise_multiplier`, `steps` and `sampling_rate`. With `samples`, finds
    `batch_size`.

    ``damper.calibrate(epsilon=3, delta=1e-5, samples=60000, batch_size=256, steps=3516).noise_multiplier``
    """
    settings = dict(
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        samples=samples,
        batch_size=batch_size,
        steps=steps,
        accountant=accountant,
        **options,
    )
    found = _answer("calibrate", settings, [])
    found.setdefault("batch_size", batch_size)
    return Calibration(*(found.get(name) for name in Calibration._fields))


def _answer(name: str, settings: dict[str, Any], args: list[str]) -> dict[str, Any]:
    answer, interrupted = _damper.call(name, args, {"json": True, **settings}, lambda _: None)
    del interrupted
    return json.loads(answer)
