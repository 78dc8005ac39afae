"""A worker whose device misbehaves in one round, `WHAT:ROUND` in DAMPER_TEST_BEHAVIOUR. Rounds are counted from 0.

`leaves`: no update. `lies`: sends the update of the plan in DAMPER_TEST_OTHER. `replays`: sends the update of the
previous round again. `doubles`: sends its update twice in one reply.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from flwr.app import ArrayRecord, RecordDict  # noqa: E402

from damper_flower.device import Device, Request  # noqa: E402
from damper_flower.plan import Plan  # noqa: E402
from damper_flower.wire import Malformed, update_to_array  # noqa: E402
from damper_flower.worker import Runtime, Worker, main  # noqa: E402


class MisbehavingDevice(Device):
    """A device that misbehaves in one round."""

    what, when, other = "none", -1, None

    def update(self, request: Request, until: float | None, stopped: Callable[[float], bool]) -> bytes:
        """Returns the update, or its replacement."""
        what = self.what if request.round == self.when else "none"
        if what == "leaves":
            raise Malformed("gone")
        if what == "lies":
            folder = self.folder.with_name(f"{self.folder.name}-{self.other.name}")
            return Device.update(replace(self, plan=Plan(self.other), folder=folder), request, until, stopped)
        made = super().update(request, until, stopped)
        if what == "replays":
            return (self.folder / "before").read_bytes()
        (self.folder / "before").write_bytes(made)
        return made


class Misbehaving(Worker):
    """A worker with such a device."""

    def __init__(self, runtime: Runtime, device: Device) -> None:
        super().__init__(runtime, MisbehavingDevice(**vars(device)))
        what, _, when = os.environ.get("DAMPER_TEST_BEHAVIOUR", "none:-1").partition(":")
        self.device.what, self.device.when = what, int(when)
        self.device.other = Path(os.environ.get("DAMPER_TEST_OTHER", ""))

    def content(self, round_: int, update: bytes) -> RecordDict:
        """Returns the reply, doubled in its round."""
        number = 2 if self.device.what == "doubles" and round_ == self.device.when else 1
        return RecordDict({"arrays": ArrayRecord({f"update{one or ''}": update_to_array(update) for one in range(number)})})


if __name__ == "__main__":
    main(Misbehaving)
