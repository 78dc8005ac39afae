"""Privacy costs equal the command's. The package contains the command's entry point."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import damper
import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "damper"


def command(*args):
    done = subprocess.run([COMMAND, *args], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_epsilon():
    found = damper.epsilon(noise_multiplier=1.1, sampling_rate=0.01, steps=1000, delta=1e-5)
    code, out, _ = command(
        "epsilon", "--noise-multiplier", "1.1", "--sampling-rate", "0.01", "--steps", "1000", "--delta", "1e-5", "--json"
    )
    assert code == 0 and json.loads(out)["epsilon"] == found
    rdp = damper.epsilon(noise_multiplier=1.1, sampling_rate=0.01, steps=1000, delta=1e-5, accountant="rdp")
    replaced = damper.epsilon(noise_multiplier=1.1, sampling_rate=0.01, steps=1000, delta=1e-5, neighbours="replace")
    assert 1 < found < rdp < 4 and replaced > found
    group = damper.epsilon(noise_multiplier=2.0, sampling_rate=0.01, steps=1000, delta=1e-6, group=3)
    assert group == pytest.approx(2.3774, rel=1e-3)
    with pytest.raises(damper.Error, match="sampling_rate 2"):
        damper.epsilon(noise_multiplier=1.1, sampling_rate=2.0, steps=1000, delta=1e-5)
    with pytest.raises(damper.Error, match="steps"):
        damper.epsilon(noise_multiplier=1.1, sampling_rate=0.1, delta=1e-5)


def test_calibrate():
    found = damper.calibrate(epsilon=3, delta=1e-5, samples=60000, batch_size=256, steps=3516)
    assert found.epsilon <= 3 and found.batch_size == 256 and found.steps == 3516
    again = damper.epsilon(noise_multiplier=found.noise_multiplier, sampling_rate=256 / 60000, steps=3516, delta=1e-5)
    assert again == pytest.approx(found.epsilon, rel=1e-6)


def test_the_command_is_there():
    code, out, _ = command("--version")
    assert code == 0 and out.split() == ["damper", damper.__version__]
    code, out, err = command("epsilon", "--noise-multiplier", "x")
    assert code == 2 and out == "" and "--noise-multiplier" in err
    code, _, err = command("inspect", "none.onnx")
    assert code == 1 and err.startswith("error: none.onnx")


def test_import_loads_no_framework():
    check = "import sys, damper; print([m for m in ('torch', 'onnx', 'onnxruntime') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
