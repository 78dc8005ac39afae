"""Flower's own processes on this machine, started as in the README: TLS, authenticated SuperNodes, and a worker of
damper for each."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from common import DAMPER, FLAGS, HERE, Setting, expect, run

BIN = Path(sys.executable).parent
# A busy machine takes long to start forty processes.
SECONDS = 400


def free_port() -> int:
    """Returns a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Network:
    """A SuperLink, and a SuperNode with its worker for each device."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.folder = setting, setting.folder / "network"
        self.folder.mkdir()
        self.port, self.started, self.called = free_port(), {}, {}
        self.environment = {
            **os.environ, "FLWR_HOME": str(self.folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        # As the system's supervisor, which restarts ended processes.
        self.supervised: set[str] = set()
        # The folder in which a node would install an app.
        self.home = self.folder / "home-of-nodes"
        self.log = self.folder / "log"
        self.out = self.log.open("w")

    def __enter__(self) -> "Network":
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def start(self) -> "Network":
        """Creates certificates and keys, and starts the SuperLink."""
        run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 365, "-keyout", "server.key",
            "-out", "server.pem", "-subj", "/CN=federation", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", cwd=self.folder,
        )  # fmt: skip
        (self.folder / "flwr").mkdir()
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n[superlink.test]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{self.folder / "server.pem"}"\n'
        )
        self.process(
            "superlink", BIN / "flower-superlink", "--port", self.port, "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key",
            "--ssl-ca-certfile", "server.pem", "--enable-supernode-auth", "--disable-runtime-dependency-installation", "--database", "state.db",
        )  # fmt: skip
        return self

    def process(self, name: str, *args: object, **more: str) -> None:
        """Starts a process that ends with this network."""
        self.called[name] = args, more
        self.started[name] = subprocess.Popen(
            [*map(str, args)], stdout=self.out, stderr=self.out, env={**self.environment, **more}, cwd=self.folder
        )

    def node(self, device: int, program: list[object] | None, **more: str) -> None:
        """Registers and starts a SuperNode and its worker. Without `program`, the SuperNode runs apps itself."""
        key, secret, port = f"node-{device}", f"secret-{device}", free_port()
        run("ssh-keygen", "-q", "-t", "ecdsa", "-b", 384, "-N", "", "-f", key, cwd=self.folder)
        (self.folder / secret).write_bytes(os.urandom(32))
        # Until the SuperLink is there.
        self.until(lambda: self.flwr("supernode", "register", self.folder / f"{key}.pub", "test"), "a SuperNode is registered")
        self.process(
            f"node {device}", BIN / "flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--root-certificates", "server.pem",
            "--auth-supernode-private-key", key, "--port", port,
            *(["--isolation", "process", "--superexec-auth-secret-file", secret] if program else []), FLWR_HOME=str(self.home),
        )  # fmt: skip
        if program is None:
            return
        self.process(
            f"worker {device}", *program, *self.setting.worker(device), "--runtime", f"127.0.0.1:{port}", "--superexec-auth-secret-file", secret,
            "--", *FLAGS, FLWR_HOME=str(self.home), **more,
        )  # fmt: skip

    def again(self, name: str, number: int) -> int:
        """Stops a process by a signal, starts it again, and returns its exit code. A SuperLink accepts a killed
        SuperNode again after a minute."""
        self.started[name].send_signal(number)
        code = self.started[name].wait(60)
        args, more = self.called[name]
        self.process(name, *args, **more)
        self.supervised.add(name)
        return code

    def flwr(self, *args: object) -> bool:
        """Runs Flower's command line. Returns True if it succeeded."""
        return not subprocess.run(
            [str(BIN / "flwr"), *map(str, args)], stdout=self.out, stderr=self.out, env=self.environment, check=False, cwd=self.folder
        ).returncode

    def federate(self, **settings: object) -> None:
        """Starts the rounds, as in the README."""
        setting = self.setting
        named = {"damper": DAMPER, "federation": str(setting.plan), "model": str(setting.model), "folder": str(setting.folder / "server")}
        config = " ".join(f"{key}={json.dumps(value)}" for key, value in {**named, "wait": 300.0, **settings}.items())
        expect(self.flwr("run", HERE.parent, "test", "--run-config", config), f"flwr run\n{self.said()}")

    def until(self, holds: object, what: str) -> None:
        """Waits until a condition is true."""
        end = time.monotonic() + SECONDS
        while not holds():
            dead = [name for name, process in self.started.items() if process.poll() is not None]
            for name in self.supervised.intersection(dead):
                time.sleep(3)
                self.process(name, *self.called[name][0], **self.called[name][1])
                dead.remove(name)
            expect(not dead and time.monotonic() < end, f"{what}: not so; ended: {dead}\n{self.said()}")
            time.sleep(0.5)

    def said(self) -> str:
        """Returns the end of all logs."""
        return self.log.read_text(errors="replace")[-16000:]

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.started.values()):
            process.terminate()
        for process in self.started.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.out.close()
