"""The signature of damper.fit: all settings, with types and descriptions, from those of the command."""

import inspect
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import damper
import pytest
from conftest import QUICK, mlp, separable
from damper._settings import Settings

SCRIPT = Path(__file__).parent.parent / "settings"
OWN = ["module", "data", "loss", "test", "label", "out", "tokenizer", "text", "max_length", "callbacks", "exporter", "progress"]


def test_settings_are_those_of_the_command():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_signature_lists_all_settings():
    signature = inspect.signature(damper.fit)
    names = list(signature.parameters)
    assert names == OWN + list(Settings.__annotations__) and len(names) > 100
    assert all(one.default is None for name, one in signature.parameters.items() if name in Settings.__annotations__)
    assert signature.parameters["noise_multiplier"].annotation == "float | None"
    assert "exact" in signature.parameters["test_metrics"].annotation
    lines = damper.fit.__doc__.splitlines()
    for name in Settings.__annotations__:
        at = lines.index(f"    {name}")
        assert lines[at + 1].startswith("        "), name
    assert "    Privacy" in lines and "    Optimizer" in lines and "SETTINGS" not in damper.fit.__doc__


def test_none_is_a_default_and_other_names_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = damper.fit(mlp(), separable(), **{**QUICK, "seed": None, "momentum": None, "lr_schedule": None})
    assert run.finished and not run.simulation
    with pytest.raises(damper.Error, match="noise_multiplyer.*noise_multiplier"):
        damper.fit(mlp(), separable(), **QUICK, noise_multiplyer=1)


def test_notebooks_complete_settings():
    jedi = pytest.importorskip("jedi", reason="jedi is not installed: ipykernel installs it")
    found = jedi.Interpreter("damper.fit(module, data, noise_m", [{"damper": damper}]).complete()
    assert "noise_multiplier=" in [one.name for one in found]


def test_type_checkers_know_settings(tmp_path):
    api = pytest.importorskip("mypy.api", reason="mypy is not installed: pip install mypy")
    file = tmp_path / "program.py"
    file.write_text(
        "import damper\n"
        "run = damper.fit(None, None, epsilon=3, lr=None, test_metrics='private', budget='b.json')\n"
        "run.predict([1.0])\n"
        "damper.fit(None, None, epsilon='three')\n"
        "damper.fit(None, None, epsilonn=3)\n"
        "damper.fit(None, None, test_metrics='noisy')\n"
    )
    # A copy of the package alone: mypy refuses the other packages of an environment as sources.
    package = Path(damper.__file__).parent
    shutil.copytree(package, tmp_path / "sources" / "damper", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    assert (package / "py.typed").is_file()
    options = ["--no-incremental", "--no-site-packages", "--follow-imports=silent", "--ignore-missing-imports", f"--cache-dir={tmp_path}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", str(tmp_path / "sources"))
        patch.delenv("PYTHONPATH", raising=False)
        found, _, _ = api.run([*options, str(file)])
    wrong = sorted({int(line.split(":")[1]) for line in found.splitlines() if "program.py:" in line and "error:" in line})
    assert wrong == [4, 5, 6], found
