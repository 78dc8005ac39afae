"""Finds another distribution that is imported as `damper`. The `damper` of PyPI is one, and each replaces files of the
other."""

from __future__ import annotations

import pathlib
import sys
import warnings

from . import _damper

ADVICE = "`pip uninstall damper`, then install the wheel of damper again with `--force-reinstall --no-deps`"


def warn() -> None:
    """Warns if the other distribution is installed in the same folder, so that files of one package replace the other's."""
    # A look at one folder, because a search of all installed metadata takes longer than the whole import.
    for found in pathlib.Path(__file__).parents[1].glob("damper-*.dist-info"):
        warnings.warn(f"another project is installed as damper, too ({found}): {ADVICE}", RuntimeWarning, stacklevel=3)


def refuse() -> None:
    """Ends the command if Python imported the other distribution as `damper`."""
    package = sys.modules["damper"]
    if getattr(package, "Error", None) is not _damper.Error:
        sys.exit(f"error: another project is installed as damper ({package.__file__}): {ADVICE}")
