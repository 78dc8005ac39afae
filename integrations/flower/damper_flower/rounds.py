"""The rounds of a federation in the server's folder. The completed and the next rounds are read only from the files.

| file | what |
| --- | --- |
| `R.params` | the trained parameters at the start of round R, so round R - 1 is done |
| `R.skipped` | round R was given up |
| `round-R/node-N.upd` | the update that node N sent for it |
| `round-R/cohort.json` | the updates that are added: fixed before anything is charged |
| `round-R/result.json` | the answer of `damper aggregate` |
| `R.sum`, `model-R.onnx` | the sum of round R, the model at its start |
| `ledger/` | the charged rounds |
"""

import json
import time
from pathlib import Path

from damper_flower import files
from damper_flower.command import Killed, Refused, damper
from damper_flower.plan import Plan

# Time limit for a command that a stopped server left.
PATIENCE = 60.0
KILLED = 3


class InUse(Exception):
    """Another server uses the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}: another server uses it; stop that run, or name another folder")


class SmallCohort(Exception):
    """Fewer updates than the plan's smallest cohort. Nothing is charged. `is_judged` is True if some updates were
    rejected."""

    def __init__(self, problem: str, is_judged: bool) -> None:
        super().__init__(problem)
        self.is_judged = is_judged


class Rounds:
    """Folder of a server."""

    def __init__(self, plan: Plan, model: Path, folder: Path, program: str = "damper") -> None:
        self.plan, self.model, self.folder, self.program = plan, model, files.folder(folder), program
        until = time.monotonic() + PATIENCE
        lock = files.lock(self.folder / "lock", lambda: time.monotonic() > until or bool(time.sleep(0.2)))
        if lock is None:
            raise InUse(folder)
        self.lock = lock

    def damper(self, *args: object) -> dict:
        """Returns the answer of the command. A killed command is started again. Its effect is the same if it is called
        twice."""
        for _ in range(KILLED):
            try:
                return damper(self.program, *args, lock=self.lock)
            except Killed:
                continue
        return damper(self.program, *args, lock=self.lock)

    def next(self) -> int:
        """Returns the first round that is not done, or the plan's number of rounds if all are."""
        of_plan = range(self.plan.rounds)
        return next((round_ for round_ in of_plan if not (self.params(round_ + 1).exists() or self.skipped(round_).exists())), self.plan.rounds)

    def params(self, round_: int) -> Path:
        """Returns the file of the trained parameters at the start of `round_`."""
        return self.folder / f"{round_}.params"

    def skipped(self, round_: int) -> Path:
        """Returns the file that marks `round_` as given up."""
        return self.folder / f"{round_}.skipped"

    def begins(self, round_: int) -> Path | None:
        """Returns the file of the parameters that `round_` sends: the newest. None before the first sum, when they are
        the model's."""
        made = [file for one in range(round_ + 1) if (file := self.params(one)).exists()]
        return made[-1] if made else None

    def skip(self, round_: int) -> None:
        """Gives up `round_`. The devices' updates for it are not used."""
        if self.begins(round_) is None:
            self.damper("federation", "apply", self.plan.file, self.model, "--out-params", self.params(round_ + 1))
        files.write(self.skipped(round_), b"")

    def of(self, round_: int) -> Path:
        """Returns the folder of `round_`."""
        return self.folder / f"round-{round_}"

    def file(self, round_: int, node: int) -> Path:
        """Returns the file of a node's update."""
        return self.of(round_) / f"node-{node}.upd"

    def keep(self, round_: int, node: int, update: bytes) -> None:
        """Writes a node's update to the disk, before anything counts it."""
        files.folder(self.of(round_))
        files.write(self.file(round_, node), update)

    def kept(self, round_: int) -> list[Path]:
        """Returns the stored updates, by node."""
        return sorted(self.of(round_).glob("node-*.upd"), key=lambda file: int(file.stem.removeprefix("node-")))

    def is_closed(self, round_: int) -> bool:
        """Returns true if the cohort of `round_` is fixed."""
        return (self.of(round_) / "cohort.json").exists()

    def add(self, round_: int) -> dict:
        """Fixes the cohort of `round_`, runs `damper aggregate` to charge it and add the updates, and returns its
        answer.

        A repeated call after a stop returns the same.
        """
        folder = files.folder(self.of(round_))
        cohort = folder / "cohort.json"
        if not cohort.exists():
            files.write(cohort, json.dumps([file.name for file in self.kept(round_)]).encode())
        paths = [folder / name for name in json.loads(cohort.read_bytes())]
        if len(paths) < self.plan.smallest:
            cohort.unlink()
            raise SmallCohort(f"{len(paths)} updates, of at least {self.plan.smallest}", is_judged=False)
        args = ["--federation", self.plan.file, "--round", round_, "--ledger", self.folder / "ledger", "--out", self.sum(round_)]
        args += ["--params", begins] if (begins := self.begins(round_)) else []
        try:
            found = self.damper("aggregate", *paths, *args)
        except Refused as error:
            if "nothing is charged" not in str(error):
                raise
            cohort.unlink()
            raise SmallCohort(str(error), is_judged=True) from None
        files.write(folder / "result.json", json.dumps(found).encode())
        return found

    def sum(self, round_: int) -> Path:
        """Returns the file of the sum of `round_`."""
        return self.folder / f"{round_}.sum"

    def move(self, round_: int) -> None:
        """Updates the model by the sum of `round_`, which is then done."""
        model = self.folder / f"model-{round_ + 1}.onnx"
        args = ["federation", "apply", self.plan.file, self.model, "--sum", self.sum(round_), "--out", model]
        args += ["--out-params", self.params(round_ + 1)]
        args += ["--params", begins] if (begins := self.begins(round_)) else []
        self.damper(*args)

    def taken(self, round_: int) -> dict[int, bool]:
        """Returns, for each node that sent an update for `round_`, True if it is in the sum."""
        result = self.of(round_) / "result.json"
        if not result.exists():
            return {}
        refused = {Path(one["file"]).name for one in json.loads(result.read_bytes()).get("refused", [])}
        cohort = json.loads((self.of(round_) / "cohort.json").read_bytes())
        return {int(Path(name).stem.removeprefix("node-")): name not in refused for name in cohort}
