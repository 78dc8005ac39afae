"""Calls the command `damper`."""

import json
import shlex
import subprocess
from tempfile import TemporaryFile


class Refused(Exception):
    """Error of the command: one line with the fix."""


class Killed(Refused):
    """A signal ended the command."""


class Command:
    """A running `damper ARGS... --json`.

    It outlives this process and writes to files, so that a charged update is written even if this process ends. It
    holds `lock`, a descriptor, until it ends.
    """

    def __init__(self, program: str, *args: object, lock: int) -> None:
        self.out, self.words = TemporaryFile(), TemporaryFile()
        command = [*shlex.split(program), *map(str, args), "--json"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.words,
            start_new_session=True,
            pass_fds=(lock,),
        )

    def ended(self, seconds: float | None = None) -> bool:
        """Waits for its end, at most `seconds`."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def answer(self) -> dict:
        """Returns the answer of the ended command. Fails with the command's own words."""
        out, words = (self.read(file) for file in (self.out, self.words))
        try:
            found = json.loads(out)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            found = {}
        if self.process.returncode == 0 and found:
            return found
        if self.process.returncode < 0:
            raise Killed(f"signal {-self.process.returncode} ended damper")
        raise Refused(found.get("error") or words.strip() or f"damper ended with {self.process.returncode}")

    @staticmethod
    def read(file: object) -> str:
        """Returns the content of a file."""
        with file:
            file.seek(0)
            return file.read().decode(errors="replace")


def damper(program: str, *args: object, lock: int) -> dict:
    """Runs `damper ARGS... --json` and returns its answer. Fails with the command's own words."""
    command = Command(program, *args, lock=lock)
    command.ended()
    return command.answer()
