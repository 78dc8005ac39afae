"""The ServerApp: all remaining rounds of a plan."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from damper_flower.plan import Plan
from damper_flower.rounds import Rounds
from damper_flower.server import Server

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs until all rounds are done. The last model is the newest in the server's folder."""
    settings = context.run_config
    plan = Plan(Path(str(settings["federation"])))
    plan.check(settings["approve_shares"] is True)
    model, folder = (Path(str(settings[key])) for key in ("model", "folder"))
    rounds = Rounds(plan, model, folder, str(settings["damper"]))
    if (skip := int(settings["skip"])) >= 0 and skip == rounds.next():
        rounds.skip(skip)
    server = Server(rounds, float(settings["wait"]), float(settings["timeout"]), int(settings["attempts"]))
    server.run(grid, int(settings["rounds"]))
