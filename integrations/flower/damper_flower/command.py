"""Calls the command `damper`."""

import json
import shlex
import subprocess


class Refused(Exception):
    """The command's error: one line that says what to do."""


def damper(program: str, *args: object) -> dict:
    """Runs `damper ARGS... --json`; its answer. Fails with the command's own words."""
    command = [*shlex.split(program), *map(str, args), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    try:
        message = json.loads(done.stdout)["error"]
    except (ValueError, KeyError):
        message = done.stderr.strip() or f"damper ended with {done.returncode}"
    raise Refused(message)
