"""The command `damper`, in this process."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import signal
import sys

from . import _damper, _other

LIBRARY = "ORT_DYLIB_PATH"


def use_onnxruntime() -> None:
    """Makes damper load the library of the installed package `onnxruntime` without an import. The user's own choice has
    priority.

    The environment is not changed, because other threads may be reading it.
    """
    if os.environ.get(LIBRARY):
        return
    spec = importlib.util.find_spec("onnxruntime")
    for folder in spec.submodule_search_locations or [] if spec else []:
        capi = pathlib.Path(folder) / "capi"
        for pattern in ("libonnxruntime.so.*", "libonnxruntime.*dylib", "onnxruntime.dll"):
            for library in sorted(capi.glob(pattern)):
                _damper.use_library(str(library))
                return


def main() -> None:
    """The entry point of `damper`."""
    _other.refuse()
    # The command handles Ctrl-C: it ends a run after its step.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    use_onnxruntime()
    sys.exit(_damper.main(["damper", *sys.argv[1:]]))
