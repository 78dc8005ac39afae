"""Files that are whole or absent after a stop at any moment, and a lock that a command keeps."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Writes a private file: to the disk under a temporary name, then renamed."""
    part = path.with_name(f".{path.name}.part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, path)
    sync_folder(path.parent)


def append(path: Path, line: str) -> None:
    """Appends a line to a private log, on the disk."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as out:
        out.write(f"{line}\n")
        out.flush()
        os.fsync(out.fileno())


def folder(path: Path) -> Path:
    """Creates a private folder, if it does not exist."""
    if not path.is_dir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(path.parent)
    return path


def sync_folder(path: Path) -> None:
    """Syncs the entries of a folder to the disk."""
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def lock(path: Path, give_up: Callable[[], bool]) -> int | None:
    """Locks a file when it is free. A command that gets the descriptor also holds the lock until it ends.

    Returns None if `give_up`, which waits, returns True.
    """
    opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return opened
        except BlockingIOError:
            if give_up():
                os.close(opened)
                return None
