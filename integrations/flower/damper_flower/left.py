"""Log of the replies that left the device: a line for each reply, on the disk before the reply leaves. It holds no
data."""

import hashlib
import time
from pathlib import Path

from damper_flower import files


def note(folder: Path, round_: int | None, sent: bytes) -> None:
    """Appends a line: the time, the round of an update, or `refusal`, the SHA-256 of the bytes, and their number."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    what = "refusal" if round_ is None else f"round {round_}"
    files.append(files.folder(folder) / "left.log", f"{when} {what} {hashlib.sha256(sent).hexdigest()} {len(sent)}")
