"""What an owner has to approve before a plan runs over Flower, whose server reads each update."""

from collections.abc import Mapping


class NotApproved(Exception):
    """A plan that hides updates from the server by shares of the noise alone, which Flower's server reads."""

    def __init__(self) -> None:
        super().__init__(
            "the plan has noise in shares, and the server reads each update, whose epsilon is far larger (`damper epsilon federation.json` has "
            "it); plan with --noise local, or approve it: approve_shares=true"
        )


def check(plan: Mapping, approved: object) -> None:
    """Refuses `plan`, the content of its file, unless its noise is local or its owner approved shares."""
    if plan["noise"] == "shares" and approved is not True:
        raise NotApproved
