"""The plan of a federation, as `damper federation plan` wrote it. The command checks it. This file reads only the
values for the network."""

import hashlib
import json
from pathlib import Path

# Added to four bytes for each parameter: header, checksum and signature of an update, and Flower's own fields.
SLACK = 1 << 16


class PlanError(ValueError):
    """A plan that this integration does not support."""


class Plan:
    """A plan's file, and its digest."""

    def __init__(self, file: Path) -> None:
        raw = file.read_bytes()
        try:
            self.content = json.loads(raw)["federation"]
            self.rounds, self.devices, self.parameters = (int(self.content[key]) for key in ("rounds", "devices", "parameters"))
            self.smallest = int(self.content["smallest_cohort"])
            self.delay = float(self.content.get("reply_seconds") or 0)
        except (ValueError, KeyError, TypeError) as error:
            raise PlanError(f"{file}: no plan of a federation; make it by `damper federation plan`") from error
        self.file, self.digest = file, hashlib.sha256(raw).hexdigest()

    def check(self, approve_shares: bool) -> None:
        """Fails for a plan without signatures, for a plan of two aggregators, and for a plan that hides updates from
        the server only by shares of the noise."""
        if not self.content.get("members"):
            raise PlanError(
                f"{self.file}: the plan has no members, so updates have no signatures and a node can speak for any device; plan with --members"
            )
        if self.content.get("aggregation", "clear") != "clear":
            raise PlanError(f"{self.file}: the plan is of two aggregators, and Flower's server would read each update; plan with --aggregation clear")
        if self.content.get("noise") != "local" and not approve_shares:
            raise PlanError(
                f"{self.file}: the noise is in shares, and the server reads each update, whose epsilon is far larger (`damper epsilon` has it); plan "
                "with --noise local, or approve it: approve_shares=true"
            )

    @property
    def most_update(self) -> int:
        """Maximum length of an update, in bytes."""
        return 4 * self.parameters + SLACK

    @property
    def most_message(self) -> int:
        """Maximum length of a request or a reply, in bytes."""
        return 4 * self.parameters + 2 * SLACK
