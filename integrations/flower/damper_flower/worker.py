"""The worker of a SuperNode: `flower-supernode --isolation process` gives it tasks, and it answers requests for
updates.

The app that `flwr run` ships is never written, imported or run. A message of any other kind, or a damaged message,
gets one constant error. All settings are flags of this command.
"""

import argparse
import ipaddress
import signal
import sys
import threading
import time
from logging import ERROR, INFO, WARN
from pathlib import Path

import httpx
from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore import log

from damper_flower import left
from damper_flower.device import REFUSAL, Device, content
from damper_flower.plan import Plan, PlanError
from damper_flower.runtime import Claim, Gone, Runtime, Stopped, Superseded

POLL = 0.5
# Pause in seconds after an error without a message.
PAUSE = 2.0


class Worker:
    """Claims tasks in sequence, until `stop`."""

    def __init__(self, runtime: Runtime, device: Device) -> None:
        self.runtime, self.device = runtime, device
        self.stopping = threading.Event()

    def stop(self) -> None:
        """Ends `run` soon. A running command continues, and its update is sent at the next request."""
        self.stopping.set()

    def run(self) -> None:
        """Claims and answers tasks despite any error."""
        reached = True
        while not self.stopping.is_set():
            try:
                claim = self.runtime.claim()
                reached = True
                if claim is None:
                    self.stopping.wait(POLL)
                else:
                    self.serve(claim)
            except Exception as error:  # noqa: BLE001
                # An unreachable SuperNode is logged once.
                if reached or not isinstance(error, httpx.HTTPError):
                    log(WARN, "damper: the SuperNode at %s: %s; trying again", self.runtime.address, error or type(error).__name__)
                reached = not isinstance(error, httpx.HTTPError)
                self.stopping.wait(PAUSE)
        self.runtime.close()

    def serve(self, claim: Claim) -> None:
        """Answers one task, or a task that superseded it."""
        while True:
            try:
                self.one(claim)
                return
            except Superseded as newer:
                claim.give_up()
                following = newer.claim
            except Gone:
                log(WARN, "damper: the SuperNode gave the task up; an update that was made is sent when it is asked for again")
                return
            except Stopped:
                return
            finally:
                claim.drop()
            claim = following

    def one(self, claim: Claim) -> None:
        """Answers one task. If the plan has a delay, every reply is sent that long after its task came."""
        until = time.monotonic() + self.device.delay if self.device.delay else None
        head, whole = claim.message(self.device.plan.most_message, self.stopping.wait)
        try:
            made = self.device.answer(whole, until, self.stopping.wait) if whole is not None else None
            if until is not None and self.stopping.wait(max(0.0, until - time.monotonic())):
                raise Stopped
        except Stopped:
            # The SuperNode waits for a reply, and for no other worker.
            made = None
        claim.reply(self.message(head, made))
        claim.end()

    def message(self, head: Message, made: tuple[int, bytes] | None) -> Message:
        """Returns the reply to `head`. The log of sent replies has it before it is sent."""
        if made is not None:
            try:
                left.note(self.device.folder, *made)
                return Message(self.content(*made), reply_to=head)
            except Exception as error:  # noqa: BLE001
                log(ERROR, "damper: the update is not sent: %s", error)
        try:
            left.note(self.device.folder, None, REFUSAL.encode())
        except OSError as error:
            log(ERROR, "damper: a refusal that is not in left.log: %s", error)
        return refusal(head)

    def content(self, _round: int, update: bytes) -> RecordDict:
        """Returns the content of the reply with `update`."""
        return content(update)


def refusal(head: Message) -> Message:
    """Returns the reply to a request without an update, which is always the same."""
    return Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=REFUSAL), reply_to=head)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the flags."""
    made = argparse.ArgumentParser(
        prog="damper-flower-worker",
        description="Answers the requests of a federation's server for this device, behind `flower-supernode --isolation process`.",
        epilog="Arguments after -- are more flags of `damper federation update`, such as --max-epsilon or --budget.",
    )
    made.add_argument("--plan", type=Path, required=True, help="the device's own copy of the plan")
    made.add_argument("--model", type=Path, required=True, help="the device's own copy of the plan's model")
    made.add_argument("--data", required=True, metavar="KIND:PATH", help="its samples")
    made.add_argument("--device", type=int, required=True, help="its number, from 1: its line among the members")
    made.add_argument("--key", type=Path, required=True, help="its private key, of `damper federation key`")
    made.add_argument(
        "--folder", type=Path, required=True, help="private: its ledger, its last update, and left.log. Losing it loses count of what left"
    )
    made.add_argument("--users", type=Path, help="the user of each row, a name a line")
    made.add_argument("--seed", type=int, help="of a simulation")
    made.add_argument("--damper", default="damper", help="the command")
    made.add_argument("--runtime", default="127.0.0.1:9094", metavar="HOST:PORT", help="the SuperNode's --host and --port")
    made.add_argument("--root-certificates", type=Path, help="of the SuperNode's --ssl-certfile; needed if it is another machine")
    made.add_argument("--superexec-auth-secret-file", type=Path, help="the SuperNode's: nothing else on this machine then claims its tasks")
    return made


def is_local(address: str) -> bool:
    """Returns true if `address`, HOST:PORT, is this machine."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def build(arguments: list[str], kind: type[Worker] = Worker) -> Worker:
    """Returns the worker of a command line. Exits with an error that has the fix."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own, more = arguments[:end], arguments[end + 1 :]
    flags = parser()
    args = flags.parse_args(own)
    if args.root_certificates is None and not is_local(args.runtime):
        flags.error(f"--runtime {args.runtime}: another machine is reached by TLS alone; give --root-certificates")
    try:
        plan = Plan(args.plan)
        # `damper federation approve` approves shares. Without it the device makes no updates.
        plan.check(approve_shares=True)
        certificates = args.root_certificates.read_bytes() if args.root_certificates else None
        secret = args.superexec_auth_secret_file.read_bytes() if args.superexec_auth_secret_file else None
        for file in (args.model, args.key, *([args.users] if args.users else [])):
            file.open("rb").close()
    except PlanError as error:
        flags.error(f"--plan {error}")
    except OSError as error:
        flags.error(f"{error.filename}: {error.strerror}; give a file that can be read")
    if secret == b"":
        flags.error(f"--superexec-auth-secret-file {args.superexec_auth_secret_file}: it is empty; write 32 random bytes")
    device = Device(
        plan, args.model, args.data, args.folder, args.device, args.key, args.users, args.seed, args.damper, tuple(more)
    )  # fmt: skip
    return kind(Runtime(args.runtime, certificates, secret), device)


def main(kind: type[Worker] = Worker) -> None:
    """Entry point of the command."""
    worker = build(sys.argv[1:], kind)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    log(INFO, "damper: device %s answers for %s", worker.device.number, worker.device.plan.file)
    worker.run()


if __name__ == "__main__":
    main()
