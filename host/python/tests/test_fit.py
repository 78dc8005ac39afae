"""damper.fit and its run: data, accuracy, folders, errors, Ctrl-C, resuming."""

import _thread
import io
import json
import logging
import math
import sys
import threading
import time
import warnings
from pathlib import Path

import damper
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from conftest import QUICK, mlp, separable
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, WeightedRandomSampler


def quiet(call, *args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **settings)


def test_module_has_reported_accuracy():
    x, y = separable(2500)
    train, (x_test, y_test) = (x[:2000], y[:2000]), (x[2000:], y[2000:])
    module = mlp()
    run = damper.fit(
        module, train, test=(x_test, y_test), epsilon=3, delta=1e-5, epochs=10, batch_size=250, lr=1.0, progress=False
    )
    run.load_into(module)
    with torch.no_grad():
        right = (module(torch.from_numpy(x_test)).argmax(1).numpy() == y_test).mean()
    assert run.accuracy == pytest.approx(right, abs=1e-9)
    assert 0.8 < run.accuracy < 1 and 2.9 < run.epsilon <= 3 and run.delta == 1e-5
    assert run.finished and not run.simulation and run.steps == 80
    assert run.loss > 0 and run.noise_multiplier > 0.5
    assert "epsilon=" in repr(run)


def test_kinds_of_data_give_same_samples():
    x, y = separable()

    class Pairs(Dataset):
        def __len__(self):
            return len(x)

        def __getitem__(self, at):
            return torch.from_numpy(x[at]), int(y[at])

    class Named(Pairs):
        def __getitem__(self, at):
            return {"input": x[at], "labels": y[at]}

    tensors = torch.from_numpy(x), torch.from_numpy(y)
    kinds = {
        "arrays": (x, y),
        "tensors": tensors,
        "lists": [x.tolist(), y.tolist()],
        "float64": (x.astype(np.float64), y.astype(np.int32)),
        "TensorDataset": TensorDataset(*tensors),
        "Dataset": Pairs(),
        "dicts": Named(),
        "DataLoader": DataLoader(Pairs(), batch_size=64, shuffle=True, drop_last=True),
    }
    module = mlp()
    digests = {name: quiet(damper.fit, module, data, seed=1, **QUICK).details["params_digest"] for name, data in kinds.items()}
    assert len(set(digests.values())) == 1, digests


def test_loader_gives_batch_size():
    x, y = separable()
    loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=50)
    settings = {key: value for key, value in QUICK.items() if key != "batch_size"}
    assert quiet(damper.fit, mlp(), loader, **settings).steps == 400 // 50
    assert quiet(damper.fit, mlp(), loader, **QUICK).steps == 7


def test_a_budget_is_enough(capfd):
    x, y = separable()
    module = mlp()
    run = damper.fit(module, (x, y), epsilon=3)
    said = capfd.readouterr().err
    # The rule of docs/command.md for 400 samples: 8 * 20 of them in a step, 40 * 400 / 160 = 100 steps, and lr 0.4 / sqrt(100).
    for default in ("delta=1e-5", "batch_size=160", "epochs=40", "clip=1", "optimizer=adam", "lr=0.04"):
        assert f"default: {default}: " in said, said
    assert run.steps == 100 and 2.9 < run.epsilon <= 3


BASELINE = {"epochs": 4, "batch_size": 64, "lr": 0.3, "progress": False}


def test_a_baseline_is_marked_everywhere(tmp_path):
    x, y = separable(2000)
    module = mlp()
    with pytest.warns(damper.PrivacyWarning, match="not_private: no gradient is clipped"):
        run = damper.fit(module, (x, y), test=0.2, not_private=True, out="run", **BASELINE)
    assert run.not_private and not run.simulation and run.finished
    assert run.epsilon == math.inf and run.delta is None and run.noise_multiplier == 0.0
    assert "NOT PRIVATE" in repr(run) and "epsilon" not in repr(run)
    for name in ("report.json", "statement.json", "events.json"):
        assert json.loads((run.path / name).read_text())["run"] == "not private"
    assert "Not private." in run.report("page.html").read_text()
    assert all(row["run"] == "not private" and row["epsilon"] is None for row in run.history)
    metadata = {entry.key: entry.value for entry in onnx.load(run.save("model.onnx")).metadata_props}
    assert metadata["damper.run"] == "not private"
    assert run.load_into(module) is module and run.accuracy > 0.8
    with pytest.raises(damper.Error, match="not private"):
        damper.epsilon(run.path)
    assert damper.Run("run").not_private

    private = quiet(damper.fit, mlp(), (x, y), **QUICK)
    assert not private.not_private and "NOT PRIVATE" not in repr(private)


@pytest.mark.parametrize("setting", [{"epsilon": 3.0}, {"noise_multiplier": 1.0}, {"delta": 1e-5}, {"clip": 1.0}, {"budget": "b.json"}])
def test_baselines_have_no_privacy_settings(setting):
    with pytest.raises(damper.Error, match="not_private"):
        damper.fit(mlp(), separable(), not_private=True, **BASELINE, **setting)


def test_a_stopped_baseline_goes_on(capfd, monkeypatch):
    x, y = separable(4000)
    settings = {**BASELINE, "seed": 3, "checkpoint_every": 0, "not_private": True}
    whole = quiet(damper.fit, mlp(), (x, y), **settings)
    step = damper._fit._Bar._step

    def interrupt(self, event):
        step(self, event)
        _thread.interrupt_main()

    monkeypatch.setattr(damper._fit._Bar, "_step", interrupt)
    torch.manual_seed(0)
    with pytest.raises(damper.Interrupted, match="NOT PRIVATE") as raised:
        quiet(damper.fit, mlp(), (x, y), out="stopped", **{**settings, "progress": True})
    monkeypatch.undo()
    assert "NOT PRIVATE" in capfd.readouterr().err
    run = raised.value.run
    assert run.not_private and not run.finished and 0 < run.steps < whole.steps and run.epsilon == math.inf
    assert "NOT PRIVATE" in repr(run)
    resumed = damper.resume(run.path, (x, y), progress=False)
    assert resumed.not_private and resumed.finished
    assert resumed.details["params_digest"] == whole.details["params_digest"]


def test_warnings_of_rows_stay_out_of_notebooks(monkeypatch, capfd, caplog):
    x, y = separable()
    one = np.full_like(y, 2)
    logging.captureWarnings(True)
    try:
        with warnings.catch_warnings():
            # Any warning except a public warning would be an exception here.
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", damper.PrivacyWarning)
            run = damper.fit(mlp(), (x, one), **QUICK)
    finally:
        logging.captureWarnings(False)
    assert len(run.data_warnings) == 1 and "label 2" in run.data_warnings[0]
    assert "epsilon does not cover" in run.data_warnings[0]
    kept = "".join(file.read_text(errors="ignore") for file in run.path.glob("*.*"))
    assert "every training row" not in kept + "".join(capfd.readouterr()) + caplog.text
    assert quiet(damper.fit, mlp(), (x, y), **QUICK).data_warnings == []
    # A terminal of the process shows them, and a job's terminal does not.
    for job, shown in [("true", 0), ("", 1)]:
        lines = io.StringIO()
        lines.isatty = lambda: True
        monkeypatch.setattr(sys, "stderr", lines)
        monkeypatch.setattr(sys, "__stderr__", lines)
        monkeypatch.setenv("CI", job)
        quiet(damper.fit, mlp(), (x, one), **QUICK)
        assert lines.getvalue().count("label 2") == shown


def test_samples_without_gradient_are_counted(monkeypatch, tmp_path):
    x, y = separable()
    # Finite features that overflow in the first layer: a logit is inf - inf, and no gradient is finite. A tanh would
    # bound them.
    def net():
        torch.manual_seed(0)
        made = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        torch.nn.init.orthogonal_(made[0].weight, gain=100.0)
        return made

    bad = x.copy()
    bad[:] = 3e38
    quick = dict(QUICK, clip=1.0)
    run = quiet(damper.fit, net(), (bad, y), **quick)
    texts = [text for text in run.data_warnings if "finite gradient" in text]
    assert texts and any("noise alone" in text for text in texts)
    count = json.loads((run.path / "checkpoint" / "non-finite.json").read_text())
    assert count["drawn"] == count["non_finite"] > 0
    kept = "".join(file.read_text(errors="ignore") for file in run.path.glob("*.*"))
    assert "finite gradient" not in kept
    assert run.non_finite is None
    # Only some rows.
    bad = x.copy()
    bad[::4] = 3e38
    run = quiet(damper.fit, net(), (bad, y), **quick)
    count = json.loads((run.path / "checkpoint" / "non-finite.json").read_text())
    assert 0 < count["non_finite"] < count["drawn"]
    assert any(f"{count['non_finite']} of the {count['drawn']} samples" in text for text in run.data_warnings)
    # Their number, with noise, is in the report, because epsilon covers it.
    run = quiet(damper.fit, net(), (bad, y), **quick, release_non_finite=True, non_finite_noise_multiplier=1)
    found, exact = run.non_finite, len(bad[::4])
    assert abs(found["released"] - exact) < 7 and found["count"] == round(found["released"])
    assert found["samples"] == len(bad) and found["noise_multiplier"] == 1 and found["epsilon"] < run.epsilon
    assert damper.Run(run.path).non_finite == found
    # Ctrl-C during the count: nothing was charged, and no files are left.
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="before its first step"):
        monkeypatch.setattr(damper._fit._Bar, "__call__", interrupt)
        quiet(damper.fit, net(), (bad, y), **quick, release_non_finite=True, out=tmp_path / "stopped")
    assert not (tmp_path / "stopped").exists()


def test_unpriced_data_is_refused():
    x, y = separable()
    tensors = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(tensors)

    def refused(data, match):
        with pytest.raises(damper.Error, match=match):
            damper.fit(mlp(), data, **QUICK)

    refused(Stream(), "no known number of samples")
    refused(DataLoader(Stream(), batch_size=8), "no known number of samples")
    refused((pair for pair in tensors), "no known number of samples")
    refused(DataLoader(tensors, sampler=WeightedRandomSampler([1.0] * 400, 400)), "WeightedRandomSampler")
    refused(DataLoader(tensors, sampler=torch.utils.data.SubsetRandomSampler(range(9))), "SubsetRandomSampler")
    refused(x, "has no labels")
    refused((x, y[:-1]), "different numbers of samples")
    refused((x[:0], y[:0]), "no samples")
    refused(((x * 255).astype(np.uint8), y), "uint8")
    refused((x.astype(str), y), "give numbers")
    refused(({"other": x}, y), "'other' is no input")
    refused(((x, x), y), "gives 2 arrays")
    refused((x[:, :5], y), r"does not take .*\[N, 5\]")
    refused((x, y + 1), "row")
    refused("csv:file.csv", "files are for the command")
    assert len(Subset(tensors, range(100))) == 100
    assert quiet(damper.fit, mlp(), Subset(tensors, range(100)), **QUICK).details["privacy"]["samples"] == 100


def test_errors_name_arguments():
    x, y = separable()

    def refused(match, **settings):
        with pytest.raises(damper.Error, match=match) as raised:
            damper.fit(mlp(), (x, y), **{**QUICK, **settings})
        assert "--" not in str(raised.value) and "module.onnx" not in str(raised.value), raised.value
        assert isinstance(raised.value, ValueError)

    refused("noise_multiplier: .*above 0", noise_multiplier=-1.0)
    refused("epsilon", epsilon=3.0)
    refused("lr", lr=-1.0)
    refused("max_grad_norm.*clip", max_grad_norm=1.0)
    refused("physical_batch", physical_batch=0)
    refused("method", method="sgd-dp")
    refused("delta", noise_multiplier=None, epsilon=3.0, delta=1.0)
    refused("delta", delta=0.5)
    refused("loss", loss="hinge")
    refused("loss: HingeEmbeddingLoss", loss=torch.nn.HingeEmbeddingLoss())
    refused("exporter", exporter="onnx")
    with pytest.raises(damper.Error, match="torch.nn.Module"):
        damper.fit("module", (x, y), **QUICK)
    (here := __import__("pathlib").Path("full")).mkdir()
    (here / "file").write_text("mine")
    refused("not empty", out="full")
    assert (here / "file").read_text() == "mine"


def test_layers_that_mix_samples_are_refused():
    x, y = separable()
    module = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    with pytest.raises(damper.Error, match=r"'1' is a BatchNorm1d.*damper\.fix"):
        damper.fit(module, (x, y), **QUICK)
    with pytest.raises(damper.Error, match=r"fix: the module .*damper\.fix"):
        damper.fit(module, (x, y), fix=True, **QUICK)
    fixed = damper.fix(module)
    assert isinstance(fixed[1], torch.nn.GroupNorm) and isinstance(module[1], torch.nn.BatchNorm1d)
    assert quiet(damper.fit, fixed, (x, y), **QUICK).finished

    class Centred(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp()

        def forward(self, x):
            return self.net(x - x.mean(0))

    with pytest.raises(damper.Error, match="(?i)batch|sample"):
        damper.fit(Centred(), (x, y), **QUICK)


def test_a_branch_on_the_data_is_refused():
    class Branch(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp()

        def forward(self, x):
            return self.net(x) * 2 if x.sum() > 0 else self.net(x)

    with pytest.raises(damper.Error, match="computes other values than the module"):
        damper.fit(Branch(), separable(), **QUICK)


def test_compiled_module_is_unwrapped():
    module = mlp()
    compiled = torch.compile(module)
    run = quiet(damper.fit, compiled, separable(), **QUICK)
    assert set(run.params) == dict(module.named_parameters()).keys()
    run.load_into(compiled)
    assert module[0].weight.detach().numpy().tobytes() == run.params["0.weight"].tobytes()


def test_dropout_is_said():
    x, y = separable()
    module = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3)).train()
    with pytest.warns(damper.PrivacyWarning, match="dropout of '1': off"):
        damper.fit(module, (x, y), **QUICK)
    assert module.training


def test_a_seed_is_a_simulation():
    x, y = separable()
    module = mlp()
    with pytest.warns(damper.PrivacyWarning, match="seed makes this run a simulation"):
        first = damper.fit(module, (x, y), seed=7, **QUICK)
    second = quiet(damper.fit, module, (x, y), seed=7, **QUICK)
    assert first.simulation and "not private" in repr(first)
    assert all((first.params[name] == second.params[name]).all() for name in first.params)
    assert [run.path.name for run in (first, second)] == ["0001", "0002"]
    assert (first.path.parent / ".gitignore").read_text().splitlines()[-1] == "*"


def test_outputs(tmp_path):
    x, y = separable()
    run = quiet(damper.fit, mlp(), (x, y), test=0.25, eval_every=1, out=tmp_path / "run", **{**QUICK, "epochs": 3})
    assert run.report("page.html").read_text().startswith("<!")
    assert json.loads(run.report("page.json").read_text())["epsilon"] == run.epsilon
    assert run.report() == tmp_path / "run" / "report.html"
    assert run.save("trained.onnx").read_bytes() == (tmp_path / "run" / "model.onnx").read_bytes()
    assert len(run.history) == 3 and run.history[-1]["test_accuracy"] == pytest.approx(run.accuracy)
    assert damper.epsilon(run.path) == pytest.approx(run.epsilon)
    again = damper.Run(tmp_path / "run")
    assert again.epsilon == run.epsilon and again.params.keys() == run.params.keys()


def test_loading_is_strict():
    x, y = separable()
    run = quiet(damper.fit, mlp(), (x, y), **QUICK)
    other = mlp(classes=4)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(damper.Error, match="'2.weight' has the shape"):
        run.load_into(other)
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items()), "half was loaded"
    with pytest.raises(damper.Error, match="'3.weight' is no parameter"):
        run.load_into(torch.nn.Sequential(*mlp(), torch.nn.Linear(3, 3)))
    with pytest.raises(damper.Error, match="no parameter '2.bias'"):
        run.load_into(torch.nn.Sequential(*list(mlp())[:2], torch.nn.Linear(16, 3, bias=False)))


def test_progress_is_shown(capfd):
    x, y = separable()
    quiet(damper.fit, mlp(), (x, y), **{**QUICK, "progress": True})
    shown = capfd.readouterr()
    assert "7/7" in shown.err and "epsilon" in shown.err and shown.out == ""
    quiet(damper.fit, mlp(), (x, y), **QUICK)
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_keeps_what_was_charged():
    x, y = separable(4000)
    module = mlp()
    settings = {**QUICK, "epochs": 3000, "noise_multiplier": 4.0, "out": "run"}

    def interrupt():
        # At this point steps are being charged, even on a slow machine.
        while not Path("run/checkpoint/ledger.json").exists():
            time.sleep(0.01)
        time.sleep(0.2)
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(damper.Interrupted) as raised:
        quiet(damper.fit, module, (x, y), **settings)
    run = raised.value.run
    assert isinstance(raised.value, KeyboardInterrupt) and "damper.resume" in str(raised.value)
    assert not run.finished and 0 < run.steps < 3000 * 4000 // 64
    assert run.epsilon == pytest.approx(damper.epsilon(run.path)) and run.epsilon > 0
    run.load_into(module)
    with pytest.raises(damper.Error, match="unfinished"):
        run.report("page.html")
    with pytest.raises(damper.Error, match="data"):
        damper.resume("run", (x + 1, y), progress=False)
    with pytest.raises(damper.Error, match="holds the ledger"):
        quiet(damper.fit, module, (x, y), **settings)


def test_resumed_run_has_same_bits(tmp_path, monkeypatch):
    x, y = separable(4000)
    module = mlp()
    settings = {**QUICK, "epochs": 3, "seed": 3, "checkpoint_every": 0}
    whole = quiet(damper.fit, module, (x, y), **settings)

    seen = []

    def interrupt(self, event):
        seen.append(event["step"])
        _thread.interrupt_main()

    monkeypatch.setattr(damper._fit._Bar, "_step", interrupt)
    with pytest.raises(damper.Interrupted):
        quiet(damper.fit, module, (x, y), out="stopped", **{**settings, "progress": True})
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    run = quiet(damper.resume, "stopped", (x, y), progress=False)
    assert seen and seen[0] < whole.steps
    assert run.finished and run.details["params_digest"] == whole.details["params_digest"]
    assert tmp_path.samefile("."), "the working folder is another"
    with pytest.raises(damper.Error, match="finished"):
        damper.resume("stopped", (x, y))
    with pytest.raises(damper.Error, match="nothing to resume"):
        damper.resume("elsewhere", (x, y))




def test_early_stop_gives_the_best_model():
    """The model of the best evaluation has that evaluation's figures, computed by onnxruntime."""
    x, y = separable(600)
    held = separable(900)[0][600:], separable(900)[1][600:]
    settings = {**QUICK, "epochs": 40, "noise_multiplier": 6.0, "seed": 5, "eval_every": 0.2, "stop_early": 3}
    run = damper.fit(mlp(), (x, y), test=held, **settings)
    early = run.details["early_stop"]
    assert early["best_step"] < run.steps_taken < run.steps and run.best_model == run.path / "model-best.onnx"
    scores = {}
    for file in (run.best_model, run.path / "model.onnx"):
        session = onnxruntime.InferenceSession(file)
        (logits, *_) = session.run(None, {session.get_inputs()[0].name: held[0]})
        scores[file.name] = (logits.argmax(1) == held[1]).mean()
    assert scores["model-best.onnx"] == pytest.approx(early["best_accuracy"], abs=1e-9)
    assert scores["model.onnx"] == pytest.approx(run.accuracy, abs=1e-9) and run.accuracy <= early["best_accuracy"]
    whole = damper.fit(mlp(), (x, y), test=held, **{**settings, "epochs": 1, "stop_early": None})
    assert whole.best_model is None


def test_module_of_opacus_is_an_error():
    module = mlp()
    # Opacus gives each module with hooks this attribute.
    module.autograd_grad_sample_hooks = []
    with pytest.raises(damper.Error, match="module: carries hooks of Opacus"):
        damper.fit(module, separable(60), **QUICK)
