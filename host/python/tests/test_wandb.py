"""The recipe for Weights & Biases, offline, with the real package."""

import sys
import warnings
from pathlib import Path

import damper
import pytest
from conftest import QUICK, mlp, separable

sys.path.append(str(Path(__file__).parent.parent / "examples"))
wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install wandb")

import wandb_logger  # noqa: E402


def test_runs_are_logged_without_the_console(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    x, y = separable()
    logger = wandb_logger.WandbLogger(project="test", dir=str(tmp_path))
    logged = []
    log = logger.run.log
    monkeypatch.setattr(logger.run, "log", lambda values: (logged.append(values), log(values)))
    assert logger.run.settings.console == "off" and logger.run.settings.x_disable_stats
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Labels of one class give a warning about rows.
        run = damper.fit(mlp(), (x, y * 0), test=separable(80), callbacks=[logger], eval_every=1, **QUICK)
    print("SECRET OF THE CONSOLE")
    assert run.data_warnings
    names = {name for values in logged for name in values}
    assert names == {"epsilon", "step", "kind", "held_out_not_covered_by_epsilon/loss", "held_out_not_covered_by_epsilon/accuracy"}
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    assert not list(folder.rglob("output.log"))
    kept = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"held_out_not_covered_by_epsilon" in kept
    assert b"SECRET OF THE CONSOLE" not in kept and b"every training row" not in kept
