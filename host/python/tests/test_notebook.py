"""The notebook runs, in its own kernel."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "digits.ipynb"


def test_the_notebook_runs(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (tmp_path / "report.html").is_file() and (tmp_path / "digits.onnx").is_file()
    texts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("damper.fix" in text for text in texts)
