"""Serialises exports, and limits their changes of process state to their own thread."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import warnings
from typing import Any, Iterator

# PyTorch's exporters keep their state in globals.
_lock = threading.RLock()
_thread = threading.local()


def _renew_lock() -> None:
    """Replaces the lock after a fork during another thread's export. That thread does not exist here, and its lock
    would stay locked."""
    global _lock
    _lock = threading.RLock()
    _thread.exports = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def exports() -> bool:
    """Returns true if this thread exports."""
    return getattr(_thread, "exports", 0) > 0


class _OfThisThread(type):
    def __subclasscheck__(cls, kind: type) -> bool:
        return exports()


class _Warning(Warning, metaclass=_OfThisThread):
    """Any warning of a thread that exports.

    `warnings.catch_warnings` does not work here: it changes the filters of all threads. If two threads use it, the
    thread that ends last restores the other thread's filters.
    """


class _Filter(logging.Filter):
    """Passes records of other threads, and records that are not from an exporter. It is attached to handlers, because
    loggers may be created later."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (exports() and record.name.startswith(_SILENT))


_SILENT = ("torch.onnx", "onnxscript", "torch.export", "torch.utils.flop_counter")


def alone() -> Any:
    """Holds the lock of exports."""
    return _held()


@contextlib.contextmanager
def _held() -> Iterator[None]:
    lock = _lock
    with lock:
        yield


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Suppresses the messages of exporters in this thread. Restores the previous state in every case."""
    import torch

    mha, quiet, handlers = torch.backends.mha, _Filter(), _handlers()
    fast = mha.get_fastpath_enabled()
    try:
        _thread.exports = getattr(_thread, "exports", 0) + 1
        # The fast path of nn.TransformerEncoder is one operator that only PyTorch supports.
        mha.set_fastpath_enabled(False)
        warnings.simplefilter("ignore", _Warning)
        for handler in handlers:
            handler.addFilter(quiet)
        yield
    finally:
        _thread.exports -= 1
        mha.set_fastpath_enabled(fast)
        for handler in handlers:
            handler.removeFilter(quiet)
        _remove_filter()


def _handlers() -> list[logging.Handler]:
    """Returns all handlers that write messages of exporters."""
    handlers = [logging.lastResort] if logging.lastResort is not None else []
    for name in _SILENT:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            handlers += [handler for handler in logger.handlers if handler not in handlers]
            logger = logger.parent if logger.propagate else None
    return handlers


def _remove_filter() -> None:
    # Another thread may have restored its earlier filters. A leftover filter would suppress nothing.
    with contextlib.suppress(AttributeError, ValueError):
        warnings.filters.remove(("ignore", None, _Warning, None, 0))
