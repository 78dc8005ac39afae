"""Threads and processes: each call is independent, and the process is not changed."""

import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings

import damper
import pytest
import torch
from conftest import QUICK, mlp, separable
from damper import _alone, _called, _export

X, Y = separable()


def in_threads(*calls):
    """Returns the results of `calls`, which start at the same time."""
    start, results = threading.Barrier(len(calls)), [None] * len(calls)

    def run(at, call):
        start.wait()
        try:
            results[at] = call()
        except BaseException as error:  # noqa: BLE001: shown by the test.
            results[at] = error

    threads = [threading.Thread(target=run, args=one) for one in enumerate(calls)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return results


def state():
    return {
        "stdout": sys.stdout,
        "stderr": sys.stderr,
        "filters": [one for one in warnings.filters if one[2].__module__.startswith("damper") or one[0] == "ignore"],
        "showwarning": warnings.showwarning,
        "fast": torch.backends.mha.get_fastpath_enabled(),
        "bag": torch.nn.functional.embedding_bag,
        "levels": {name: logging.getLogger(name).level for name in ("torch.onnx", "onnxscript", "torch.export")},
        "folder": os.getcwd(),
        # PyTorch's own modules change it when they are imported.
        "library": os.environ.get("ORT_DYLIB_PATH"),
    }


def test_runs_in_threads_have_their_own(capfd):
    warnings.simplefilter("ignore")
    seeds, module = [1, 2, 3], mlp()
    alone = [damper.fit(module, (X, Y), seed=seed, **QUICK).details["params_digest"] for seed in seeds]
    before = state()
    # Each with settings that its report must show.
    runs = in_threads(*[lambda seed=seed: damper.fit(module, (X, Y), seed=seed, lr=0.5, **{k: v for k, v in QUICK.items() if k != "lr"}) for seed in seeds * 2])
    assert all(isinstance(run, damper.Run) for run in runs), runs
    assert [run.details["params_digest"] for run in runs] == alone * 2
    assert len({run.path for run in runs}) == len(runs)
    for run, seed in zip(runs, seeds * 2):
        command = json.loads((run.path / "report.json").read_text())["command"]
        assert f"--seed={seed}" in command and f"--out={run.path}" in command, command
    assert state() == before
    print("still here")
    assert "still here" in capfd.readouterr().out


def test_resuming_in_threads(monkeypatch, tmp_path):
    warnings.simplefilter("ignore")
    settings = {**QUICK, "epochs": 2, "checkpoint_every": 0}
    module = mlp()
    whole = [damper.fit(module, (X, Y), seed=seed, **settings).details["params_digest"] for seed in (1, 2)]
    import _thread

    monkeypatch.setattr(damper._fit._Bar, "_step", lambda self, event: _thread.interrupt_main())
    for seed in (1, 2):
        # Each starts in its own folder, with relative paths.
        (tmp_path / str(seed)).mkdir()
        monkeypatch.chdir(tmp_path / str(seed))
        with pytest.raises(damper.Interrupted):
            damper.fit(module, (X, Y), seed=seed, out="run", **{**settings, "progress": True})
    monkeypatch.setattr(damper._fit._Bar, "_step", lambda self, event: None)
    monkeypatch.chdir(tmp_path)
    runs = in_threads(*[lambda seed=seed: damper.resume(tmp_path / str(seed) / "run", (X, Y)) for seed in (1, 2)])
    assert [run.details["params_digest"] for run in runs] == whole, runs
    assert os.path.samefile(os.getcwd(), tmp_path)


def pooled(seed):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return damper.fit(mlp(), (X, Y), seed=seed, **QUICK).path.name


def test_processes_have_folders_of_their_own():
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        names = pool.map(pooled, range(6))
    assert sorted(names) == [f"{at:04d}" for at in range(1, 7)]


def test_folders_are_taken_once(tmp_path):
    made = in_threads(*[lambda: [damper._fit._next_folder() for _ in range(5)]] * 6)
    names = [folder.name for some in made for folder in some]
    assert sorted(names) == [f"{at:04d}" for at in range(1, 31)]


def test_failed_runs_leave_no_folder(tmp_path):
    with pytest.raises(damper.Error):
        damper.fit(mlp(), (X, Y), **{**QUICK, "lr": -1.0})
    assert list(tmp_path.iterdir()) == []
    ignore = tmp_path / "damper-runs" / ".gitignore"
    ignore.parent.mkdir()
    ignore.write_text("0001\n")
    with pytest.raises(damper.Error):
        damper.fit(mlp(), (X, Y), **{**QUICK, "lr": -1.0})
    assert ignore.read_text() == "0001\n"


def test_runs_beside_failed_runs_are_ignored(tmp_path):
    def runs(file):
        for _ in range(50):
            with damper._fit._folder(None) as folder:
                if file:
                    (folder / file).touch()

    in_threads(lambda: runs(None), lambda: runs("model.onnx"), lambda: runs(None))
    assert len(list((tmp_path / "damper-runs").glob("*/model.onnx"))) == 50
    assert (tmp_path / "damper-runs" / ".gitignore").read_text() == damper._fit.IGNORED


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failed_exports_restore_everything(error):
    class Failing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.calls = mlp(), 0

        def forward(self, x):
            if torch.jit.is_tracing() or _alone.exports():
                raise error("in the exporter")
            return self.net(x)

    module = Failing().train()
    module.net[0].weight.requires_grad_(False)
    hook = module.net[1].register_forward_hook(lambda *_: None)
    before, flags = state(), [parameter.requires_grad for parameter in module.parameters()]
    with pytest.raises((damper.Error, error)):
        damper.fit(module, (X, Y), **QUICK)
    assert state() == before and not _alone.exports()
    assert module.training and [parameter.requires_grad for parameter in module.parameters()] == flags
    assert list(module.net[1]._forward_hooks) == [hook.id]
    exporters = [one for name, one in sys.modules.items() if name.startswith("torch.onnx") and name.endswith("._globals")]
    assert exporters and not any(one.GLOBALS.in_onnx_export for one in exporters)
    # The lock is free: another thread can export.
    (run,) = in_threads(lambda: damper.fit(mlp(), (X, Y), **QUICK))
    assert isinstance(run, damper.Run), run


def test_exports_silence_their_own_thread_alone(capfd):
    heard = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _alone.silence():
            warnings.warn("of the export")
            in_threads(lambda: (warnings.warn("of another thread"), print("printed"), heard.append(_alone.exports())))
            logging.getLogger("torch.onnx.made_now").warning("of the exporter")
        warnings.warn("after")
    assert [str(one.message) for one in caught] == ["of another thread", "after"] and heard == [False]
    shown = capfd.readouterr()
    assert "printed" in shown.out and "of the exporter" not in shown.err


def test_other_threads_keep_their_bags():
    bag = torch.nn.EmbeddingBag(5, 2)
    from damper._bags import fixed_bags

    with fixed_bags():
        # PyTorch's form with offsets, which an export rejects.
        (found,) = in_threads(lambda: bag(torch.tensor([1, 2, 3]), torch.tensor([0, 2])))
        assert isinstance(found, torch.Tensor) and found.shape == (2, 2), found
        with _alone.silence(), pytest.raises(damper.Error, match="without offsets"):
            bag(torch.tensor([1, 2, 3]), torch.tensor([0, 2]))


def test_exports_print_nothing(capfd):
    for exporter in ("torchscript", "dynamo"):
        _export.export(mlp(), {"input": X}, _called.Call(False), exporter)
    assert capfd.readouterr().out == ""


def test_a_listener_may_call():
    seen = []

    def listen(self, event):
        seen.append(damper.epsilon(noise_multiplier=1.0, sampling_rate=0.01, steps=10, delta=1e-5))

    own = damper._fit._Bar._step
    damper._fit._Bar._step = listen
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = damper.fit(mlp(), (X, Y), seed=5, **{**QUICK, "progress": True})
    finally:
        damper._fit._Bar._step = own
    assert run.finished and seen
    assert "--seed=5" in json.loads((run.path / "report.json").read_text())["command"]


def test_messages_keep_shell_commands(tmp_path):
    with pytest.raises(damper.Error, match=r"damper budget .*--create NAME --delta D"):
        damper.fit(mlp(), (X, Y), budget=tmp_path / "none.budget", **QUICK)


def test_cuda_has_its_own_package():
    program = "import damper, numpy as np, torch; x = np.zeros((99, 3), 'float32'); y = np.zeros(99, 'int64');" \
        "damper.fit(torch.nn.Linear(3, 2), (x, y), noise_multiplier=1, delta=1e-5, epochs=1, batch_size=9, lr=1, backend='cuda')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("there is a CUDA provider")
    assert "pip install onnxruntime-gpu" in done.stderr.replace("-U ", ""), done.stderr
