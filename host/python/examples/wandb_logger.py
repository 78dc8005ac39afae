"""Logs a private run to Weights & Biases: `damper.fit(..., callbacks=[WandbLogger(project="demo")])`.

Needs `pip install wandb`. It logs ε, and the figures on held-out samples under a name that states if ε covers them. It
logs no gradient, no sample and no training loss, because a callback does not get them.
"""

import damper


class WandbLogger(damper.Callback):
    """A callback for one run. The arguments are those of `wandb.init`."""

    def __init__(self, **settings):
        import wandb

        # W&B copies what the process prints. damper prints warnings about rows on a terminal, and epsilon does not cover
        # them. The use of the processor depends on the drawn batches, and a copy of the code may contain data.
        private = wandb.Settings(console="off", x_disable_stats=True, disable_code=True, disable_git=True)
        self.run = wandb.init(settings=private, **settings)

    def on_step(self, event):
        # ε of the first `by_step` steps. It is None without privacy.
        if event.epsilon is not None:
            self.run.log({"epsilon": event.epsilon, "step": event.step, "kind": event.kind})

    def on_evaluate(self, event):
        group = "held_out_not_covered_by_epsilon" if event.test_metrics == "exact" else "held_out"
        figures = {"loss": event.loss, "accuracy": event.accuracy}
        self.run.log({f"{group}/{name}": value for name, value in figures.items() if value is not None} | {"step": event.step, "kind": event.kind})

    def on_end(self, run):
        self.run.summary.update({"finished": run.finished, "steps": run.steps, "not_private": run.not_private, "simulation": run.simulation})
        if not run.not_private:
            self.run.summary.update({"epsilon": run.epsilon, "delta": run.delta, "noise_multiplier": run.noise_multiplier})
        self.run.finish()
