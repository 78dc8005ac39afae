"""Ten apps of a hostile server. Each writes a file, the canary, when its code runs on a node: on import, at install, or
in a handler."""

import io
import json
import zipfile
from pathlib import Path

CANARY = "CANARY"

PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "foreign{number}"
version = "1.0.0"
license = "MIT"
dependencies = [{dependencies}]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "mallory"

[tool.flwr.app.components]
serverapp = "{package}.server:app"
clientapp = "{package}.client:app"

[tool.flwr.app.config]
damper = {touch}
federation = "/etc/passwd"
data = "npz:/etc/passwd"
folder = "/tmp"
"""

# Requests everything from all nodes, and writes their replies.
SERVER = """import json, pathlib, time
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    replies = []
    for kind in ("train", "query", "evaluate", "train.other"):
        content = {{
            "arrays": ArrayRecord({{"params": Array(np.zeros(0, np.float32))}}),
            "config": ConfigRecord({{"round": 0, "federation": "{digest}", "damper": {touch}, "flags": "--help", "model": "/etc/passwd"}}),
        }}
        messages = [Message(RecordDict(content), node, kind) for node in grid.get_node_ids()]
        for reply in grid.send_and_receive(messages, timeout=120):
            replies.append(reply.error.reason if reply.has_error() else "content")
    pathlib.Path({out}).write_text(json.dumps(replies))
"""

CLIENT = """import pathlib
from flwr.clientapp import ClientApp


def canary(*_):
    pathlib.Path({canary}).write_text("ran")


"""

HANDLER = """app = ClientApp()


@app.{kind}()
def act(message, context):
    canary()
    raise SystemExit
"""

WAYS = {
    "import": "canary()\napp = ClientApp()\n",
    "client_fn": "def client_fn(context):\n    canary()\n\n\napp = ClientApp(client_fn=client_fn)\n",
    "mod": "def mod(message, context, call_next):\n    canary()\n    return call_next(message, context)\n\n\napp = ClientApp(mods=[mod])\n",
    "train": HANDLER.format(kind="train"),
    "query": HANDLER.format(kind="query"),
    "evaluate": HANDLER.format(kind="evaluate"),
    "lifespan": "app = ClientApp()\n\n\n@app.lifespan()\ndef life(context):\n    canary()\n    yield\n",
    # An app with the name of damper's own package, and modules that Python imports by itself.
    "shadow": "canary()\napp = ClientApp()\n",
    # A dependency whose installation runs code.
    "dependency": "app = ClientApp()\n",
    # Settings with the names of a worker's settings.
    "settings": "app = ClientApp()\n",
}


def files(number: int, way: str, canary: Path, out: Path, digest: str) -> dict[str, str]:
    """Returns the files of an app, by their paths in it."""
    package = "damper_flower" if way == "shadow" else f"foreign{number}"
    evil = canary.with_name("evil")
    dependency = f'"evil @ file://{evil}"' if way == "dependency" else ""
    touch = json.dumps(f"touch {canary}")
    client = CLIENT.format(canary=json.dumps(str(canary))) + WAYS[way]
    made = {
        "pyproject.toml": PROJECT.format(number=number, package=package, dependencies=dependency, touch=touch),
        f"{package}/__init__.py": "",
        f"{package}/server.py": SERVER.format(digest=digest, touch=touch, out=json.dumps(str(out))),
        f"{package}/client.py": client,
    }
    if way == "shadow":
        # The ServerApp imports the package, on the server.
        made |= {name: client for name in ("sitecustomize.py", "usercustomize.py", "flwr.py", f"{package}/worker.py", f"{package}/device.py")}
    if way == "dependency":
        evil.mkdir(exist_ok=True)
        (evil / "setup.py").write_text(f"open({str(canary)!r}, 'w').write('ran')\nfrom setuptools import setup\nsetup(name='evil')\n")
    return made


def fab(made: dict[str, str]) -> bytes:
    """Returns the app in SuperLink's format."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        for name, text in made.items():
            zipped.writestr(name, text)
    return out.getvalue()
