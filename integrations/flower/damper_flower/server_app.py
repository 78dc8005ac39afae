"""The ServerApp: all rounds of a plan that are left."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from damper_flower.strategy import Federation

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs until the budget is spent. The last model is the newest in the server's folder."""
    settings = context.run_config
    strategy = Federation(
        Path(str(settings["federation"])),
        Path(str(settings["model"])),
        Path(str(settings["folder"])),
        str(settings["damper"]),
        str(settings["flags"]),
        float(settings["wait"]),
        settings.get("approve_shares") is True,
    )
    rounds = int(settings["rounds"]) or strategy.settings["rounds"] - strategy.first
    strategy.start(
        grid=grid,
        initial_arrays=strategy.newest(),
        num_rounds=rounds,
        timeout=float(settings["timeout"]),
    )
