"""Differentially private training of PyTorch modules.

>>> run = damper.fit(module, (X, y), epsilon=3, delta=1e-5, epochs=20, batch_size=256, lr=0.5)
>>> run.load_into(module)
>>> run.report("report.html")
>>> run.epsilon, run.accuracy

The training is that of the command `damper`, which the package contains.
"""

from . import _other, accounting
from ._callbacks import Callback, EvaluateEvent, StepEvent
from ._damper import Error, __version__
from ._estimators import Classifier, Regressor
from ._fit import PrivacyWarning, fit, resume
from ._fix import fix
from ._predict import Evaluation
from ._price import Calibration, calibrate, epsilon
from ._run import Interrupted, Run
from ._search import Comparison, Tuned, compare, tune
from ._texts import tokenized
from ._trained import NotTrained

__all__ = [
    "Calibration",
    "Callback",
    "Classifier",
    "Comparison",
    "Error",
    "EvaluateEvent",
    "Evaluation",
    "Interrupted",
    "NotTrained",
    "PrivacyWarning",
    "Regressor",
    "Run",
    "StepEvent",
    "Tuned",
    "__version__",
    "accounting",
    "calibrate",
    "compare",
    "epsilon",
    "fit",
    "fix",
    "resume",
    "tokenized",
    "tune",
]

_other.warn()
