"""The package and PyPI's `damper`, which is another project, in one folder."""

import shutil
import subprocess
import sys
from pathlib import Path

import damper
import pytest

WARNING = "RuntimeWarning: another project is installed as damper, too"


@pytest.fixture
def site(tmp_path):
    """Returns a folder with a copy of the package."""
    shutil.copytree(Path(damper.__file__).parent, tmp_path / "site" / "damper", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "site"


def python(site, code):
    return subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"], capture_output=True, text=True)


def test_another_distribution_beside_is_a_warning(site):
    done = python(site, "import damper; print(damper.__file__)")
    assert done.returncode == 0 and done.stdout.startswith(str(site)) and done.stderr == ""
    for another in ("damper_of_ours-0.1.0.dist-info", "damperer-1.dist-info"):
        (site / another).mkdir()
    assert python(site, "import damper").stderr == ""
    (site / "damper-0.1.0.dist-info").mkdir()
    done = python(site, "import damper; print(damper.epsilon)")
    assert done.returncode == 0 and WARNING in done.stderr and "pip uninstall damper" in done.stderr


def test_the_command_refuses_another_package(site):
    command = "sys.argv[1:] = ['--version']; from damper._command import main; main()"
    done = python(site, command)
    assert done.returncode == 0 and done.stdout.split() == ["damper", damper.__version__]
    (site / "damper" / "__init__.py").write_text("Error = ValueError\n")
    done = python(site, command)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"error: another project is installed as damper ({site}") and "pip uninstall damper" in done.stderr
