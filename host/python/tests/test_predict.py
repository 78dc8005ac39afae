"""Predictions and figures of a run's model, on other samples."""

import warnings

import damper
import numpy as np
import onnxruntime
import pytest
import torch
from conftest import QUICK, mlp, separable
from damper import _damper
from torch import nn

X, Y = separable(500)
TRAIN, TEST = (X[:400], Y[:400]), (X[400:], Y[400:])


def fit(module, data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return damper.fit(module, data, **{**QUICK, **settings})


def own(run, module, x):
    """Returns the outputs of `module` with the run's weights."""
    with torch.no_grad():
        return run.load_into(module)(torch.from_numpy(x)).numpy()


def test_predictions_are_the_modules():
    module = mlp()
    run = fit(module, TRAIN, test=TEST)
    # More samples than are computed at once.
    many = np.concatenate([X, X])
    outputs = own(run, module, many)
    assert np.allclose(run.predict(many), outputs, atol=1e-5)
    assert np.allclose(damper.Run(run.path).predict(torch.from_numpy(many)), outputs, atol=1e-5)
    assert (run.predict(many, kind="class") == outputs.argmax(1)).all()
    shares = run.predict(many, kind="probability")
    assert np.allclose(shares, torch.softmax(torch.from_numpy(outputs), 1).numpy(), atol=1e-5)
    assert (run.predict(TEST[0], kind="class") == TEST[1]).mean() == pytest.approx(run.accuracy)


def test_figures_are_those_of_the_run():
    run = fit(mlp(), TRAIN, test=TEST)
    for found in (run.evaluate(*TEST), run.evaluate(TEST), damper.Run(run.path).evaluate(torch.from_numpy(TEST[0]), TEST[1])):
        assert found == (pytest.approx(run.loss, rel=1e-6), pytest.approx(run.accuracy), 100)
    assert run.evaluate(*TRAIN).samples == 400
    assert {path.name for path in run.path.iterdir()} >= {"model.onnx"} and run.evaluate(*TEST).accuracy > 0.3


LOSSES = [
    ("mse", np.abs(X[:, :1]) * 30 + 50, {"scale": {"labels": (50, 20)}}),
    ("l1", X[:, :2] * 3, {}),
    ("bce-with-logits", (X[:, :2] > 0).astype("float32"), {}),
    (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]), label_smoothing=0.1), (X[:, 0] > 0).astype("int64"), {}),
]


@pytest.mark.parametrize("loss, y, settings", LOSSES, ids=["mse", "l1", "bce", "cross-entropy"])
def test_figures_of_losses(loss, y, settings):
    y = y.astype("float32") if y.dtype.kind == "f" else y
    width = 2 if y.ndim == 1 else y.shape[1]
    run = fit(nn.Linear(12, width), (X[:400], y[:400]), test=(X[400:], y[400:]), loss=loss, normalize="0.5,2", **settings)
    found = run.evaluate(X[400:], y[400:])
    assert found.loss == pytest.approx(run.loss, rel=1e-5) and found.accuracy == run.accuracy
    outputs = run.predict(X[400:])
    if loss == "mse":
        # In the unit of the labels.
        assert np.square(outputs - y[400:]).mean() == pytest.approx(run.loss, rel=1e-4)
    if loss == "bce-with-logits":
        assert ((outputs > 0) == (y[400:] > 0)).mean() == pytest.approx(run.accuracy)
        assert ((run.predict(X[400:], kind="probability") > 0.5) == run.predict(X[400:], kind="class")).all()


def test_constants_of_channels_and_released_constants():
    images = np.random.default_rng(0).standard_normal((100, 2, 3, 4)).astype("float32") * 5 + 3
    module = nn.Sequential(nn.Flatten(), nn.Linear(24, 2))
    labels = (images[:, 0, 0, 0] > 3).astype("int64")
    run = fit(module, (images[10:], labels[10:]), test=(images[:50], labels[:50]), normalize="3,2:5,4")
    scaled = (images - np.float32([3, 2])[:, None, None]) / np.float32([5, 4])[:, None, None]
    assert np.allclose(run.predict(images), own(run, module, scaled), atol=1e-5)
    assert run.evaluate(images[:50], labels[:50]).loss == pytest.approx(run.loss, rel=1e-5)
    # A row like the synthetic training sample.
    assert run.evaluate(images[:1] * 0, labels[:1] * 0).samples == 1
    run = fit(mlp(), TRAIN, test=TEST, normalize_private="-5,5")
    assert run.evaluate(*TEST).loss == pytest.approx(run.loss, rel=1e-5)
    assert (run.predict(TEST[0], kind="class") == TEST[1]).mean() == pytest.approx(run.accuracy)


def test_adapters_and_inputs_by_name():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.base, self.head = nn.Linear(12, 8), nn.Linear(8, 3)

        def forward(self, x, shift):
            return self.head(torch.tanh(self.base(x) + shift))

    shift = np.zeros((500, 8), "float32")
    train, test = ({"x": X[:400], "shift": shift[:400]}, Y[:400]), ({"x": X[400:], "shift": shift[400:]}, Y[400:])
    run = fit(Named(), train, test=test, lora=2, lora_target="base.weight", train="head.*")
    assert run.evaluate(*test).loss == pytest.approx(run.loss, rel=1e-5)
    assert (run.predict(test[0], kind="class") == test[1]).mean() == pytest.approx(run.accuracy)
    with pytest.raises(damper.Error, match="'shift'"):
        run.predict({"x": X})


def test_frames_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": X[:, 0] * 10 + 40, "city": np.where(X[:, 1] > 0, "Oslo", "Rome"), "y": np.where(Y == 0, "no", "yes")})
    settings = {"label": "y", "classes": ["no", "yes"], "categories": {"city": ["Oslo", "Rome"]}, "scale": {"age": (40, 15)}}
    run = fit(nn.Linear(3, 2), frame[:400], test=frame[400:], **settings)
    rest = frame[400:][["y", "city", "age"]]
    names = run.predict(rest, kind="class")
    assert set(names) <= {"no", "yes"} and (names == rest["y"]).mean() == pytest.approx(run.accuracy)
    assert (run.predict(rest.drop(columns="y"), kind="class") == names).all()
    assert run.evaluate(rest) == (pytest.approx(run.loss, rel=1e-5), run.accuracy, 100)
    with pytest.raises(damper.Error, match="'age'"):
        run.predict(rest[["city"]])


def test_arrays_take_the_constants_of_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": X[:, 0] * 10 + 40, "city": np.where(X[:, 1] > 0, "Oslo", "Rome"), "level": X[:, 2]})
    settings = {"categories": {"city": ["Oslo", "Rome"]}, "scale": {"age": (40, 15)}}
    run = fit(nn.Linear(4, 3), (frame, Y), **settings)
    plain = np.column_stack([frame["age"], frame["city"] == "Oslo", frame["city"] == "Rome", frame["level"]]).astype("float32")
    scaled = plain.copy()
    scaled[:, 0] = (plain[:, 0] - 40) / 15
    expected = own(run, nn.Linear(4, 3), scaled)
    assert np.allclose(run.predict(frame), expected, atol=1e-5)
    assert np.allclose(run.predict(plain), expected, atol=1e-5)
    assert run.evaluate(plain, Y).loss == pytest.approx(run.evaluate(frame, Y).loss, rel=1e-5)
    # The held-out samples of a run too.
    tested = fit(nn.Linear(4, 3), (frame, Y), test=(plain[:100], Y[:100] + 0), **settings)
    assert tested.loss == pytest.approx(tested.evaluate(frame[:100], Y[:100]).loss, rel=1e-5)
    with pytest.raises(damper.Error, match="X: .*give a DataFrame"):
        run.predict(plain[:, :3])
    for bad, match in ((float("nan"), "not finite"), (float("inf"), "not finite")):
        with pytest.raises(damper.Error, match=match):
            run.predict(np.where(plain == plain[3, 0], np.float32(bad), plain))
        with pytest.raises(damper.Error, match=match):
            run.predict(frame.assign(age=frame["age"].where(frame.index != 3, bad)))
    for city, match in (("Bonn", "'city': has a value that is not in its public list"), (None, "missing values")):
        with pytest.raises(damper.Error, match=match):
            run.predict(frame.assign(city=frame["city"].where(frame.index != 3, city)))


def test_inputs_by_place():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(12, 3), nn.Linear(2, 3)

        def forward(self, first, second):
            return self.one(first) + self.two(second)

    module, other = Sum(), X[:, :2] * 3
    run = fit(module, ((X, other), Y))
    run.load_into(module)
    expected = module(torch.from_numpy(X), torch.from_numpy(other)).detach().numpy()
    assert np.allclose(run.predict((X, other)), expected, atol=1e-5)
    with pytest.raises(damper.Error, match="X: gives 3 arrays where the model takes first, second"):
        run.predict((X, other, Y))


def test_channels_at_the_end(tmp_path):
    images = np.random.default_rng(0).standard_normal((60, 4, 4, 4)).astype("float32")
    labels = (images[:, 0, 0, 0] > 0).astype("int64")
    module = nn.Sequential(nn.Conv2d(4, 2, 2), nn.Flatten(), nn.Linear(18, 2))
    with pytest.raises(damper.Error, match="layout: is for files"):
        fit(module, (images, labels), layout="nhwc")
    # A run of the command, on files.
    run = fit(module, (images, labels), batch_size=16)
    np.savez(tmp_path / "train.npz", x=np.moveaxis(images, 1, -1), y=labels)
    given = {"model": str(run.save(tmp_path / "model.onnx")), "data": f"npz:{tmp_path / 'train.npz'}", "out": str(tmp_path / "run")}
    given |= {"layout": "nhwc", "loss": "softmax-cross-entropy", "normalize": "0.5,0.1,0.2,0.3:2,1,3,4", "json": True}
    _damper.call("train", [], {**given, **{name: value for name, value in QUICK.items() if name != "progress"}, "batch_size": 16}, lambda _: None)
    run = damper.Run(tmp_path / "run")
    session = onnxruntime.InferenceSession(run.path / "model.onnx", providers=["CPUExecutionProvider"])
    means, stds = (np.float32(one).reshape(4, 1, 1) for one in ([0.5, 0.1, 0.2, 0.3], [2, 1, 3, 4]))
    expected = session.run(None, {session.get_inputs()[0].name: (images - means) / stds})[0]
    assert np.allclose(run.predict(np.moveaxis(images, 1, -1)), expected, atol=1e-5)


def test_runs_of_estimators():
    model = damper.Classifier("mlp:8", noise_multiplier=1, batch_size=64, epochs=1, classes=[0, 1, 2], normalize=(0, 2)).fit(X, Y)
    assert (model.run_.predict(X, kind="class") == model.predict(X)).all()
    assert model.run_.evaluate(X, Y).accuracy == pytest.approx(model.score(X, Y))


def test_errors_of_figures_are_of_the_samples():
    run = fit(nn.Linear(12, 1), (X, np.abs(X[:, :1]) + 1), loss=lambda z, y: (z - y.log()).square().mean(1))
    with pytest.raises(damper.Error, match="the mean loss of these samples is infinite or not a number") as raised:
        run.evaluate(X, np.abs(X[:, :1]) * 0 - 1)
    assert "run" not in str(raised.value) and "lr" not in str(raised.value).split()


def test_wrong_samples_are_errors():
    for name, value in {"model": "mlp:3", "parameter": ["0.weight"], "json": True, "classes": 3}.items():
        with pytest.raises(damper.Error, match=f"{name}: "):
            fit(mlp(), TRAIN, **{name: value})
    run = fit(mlp(), TRAIN)
    with pytest.raises(damper.Error, match=r"X: .*\[N, 5\]"):
        run.predict(X[:, :5])
    with pytest.raises(damper.Error, match="different numbers of samples"):
        run.evaluate(X, Y[:-1])
    with pytest.raises(damper.Error, match="kind: 'label'"):
        run.predict(X, kind="label")
    regression = fit(nn.Linear(12, 1), (X, X[:, :1]))
    with pytest.raises(damper.Error, match="mse has no classes"):
        regression.predict(X, kind="class")


def by_command(folder, table, new, *flags):
    """Returns a run of the command on `table`, a text, and writes other rows to `new.csv`."""
    (folder / "train.csv").write_text(table)
    (folder / "new.csv").write_text(new)
    out = folder / "run"
    settings = ["--noise-multiplier", "1", "--batch-size", "40", "--epochs", "2", "--lr", "0.3", "--quiet", "--out", str(out), *flags]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert _damper.main(["damper", "train", "--model", "linear", "--data", f"csv:{folder / 'train.csv'}", *settings]) == 0
    return damper.Run(out)


def people(count, seed, header="income,plan,age,price"):
    rows = np.random.default_rng(seed)
    lines = [header] if header else []
    for _ in range(count):
        income, age = rows.integers(20, 90), rows.integers(18, 80)
        lines.append(f"{income},{['basic', 'gold'][income % 2]},{age},{3 * income + 40 * (income % 2)}")
    return "\n".join(lines) + "\n"


def outputs_by_hand(run, features):
    session = onnxruntime.InferenceSession(str(run.path / "model.onnx"))
    return session.run(None, {session.get_inputs()[0].name: features.astype("float32")})[0]


def test_tables_of_the_command_are_read_by_their_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    flags = ["--loss", "mse", "--categories", "plan=basic,gold", "--scale", "income=55,20", "--scale", "age=50,20", "--scale", "price=180,60"]
    run = by_command(tmp_path, people(200, 3), people(200, 4), "--test", f"csv:{tmp_path / 'new.csv'}", *flags)
    frame = pandas.read_csv(tmp_path / "new.csv")
    features = np.stack([(frame.income - 55) / 20, frame.plan == "basic", frame.plan == "gold", (frame.age - 50) / 20], 1)
    expected = outputs_by_hand(run, features)
    for shuffled in (frame, frame[["age", "price", "plan", "income"]], frame.drop(columns="price")):
        assert np.allclose(run.predict(shuffled), expected, rtol=1e-5)
    wide = np.stack([frame.income, frame.plan == "basic", frame.plan == "gold", frame.age], 1).astype("float32")
    assert np.allclose(run.predict(wide), expected, rtol=1e-5)
    loss = np.square(expected[:, 0] - frame.price).mean()
    for found in (run.evaluate(frame), run.evaluate(frame.drop(columns="price"), frame.price), run.evaluate(str(tmp_path / "new.csv"))):
        assert found.loss == pytest.approx(loss, rel=1e-4) and found.samples == 200
    assert run.evaluate(tmp_path / "new.csv").loss == pytest.approx(run.loss, rel=1e-4)
    with pytest.raises(damper.Error, match="X: .*new.csv is a path; read it first"):
        run.predict(tmp_path / "new.csv")


def test_classes_of_the_command_have_their_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    def table(seed):
        lines = people(200, seed, "").replace("basic,", "").replace("gold,", "").splitlines()
        return "".join(f"{line.rpartition(',')[0]},{['low', 'high'][int(line.split(',')[0]) > 50]}\n" for line in lines)

    # Columns without names are counted from 0.
    run = by_command(tmp_path, table(3), table(4), "--classes", "low,high", "--scale", "0=55,20", "--scale", "1=50,20", "--test", f"csv:{tmp_path / 'new.csv'}")
    frame = pandas.read_csv(tmp_path / "new.csv", header=None)
    features = np.stack([(frame[0] - 55) / 20, (frame[1] - 50) / 20], 1)
    logits = outputs_by_hand(run, features)
    names = np.array(["low", "high"])[logits.argmax(1)]
    for given in (frame, frame[[0, 1]], frame[[0, 1]].to_numpy()):
        assert (run.predict(given, kind="class") == names).all()
    accuracy = (names == frame[2]).mean()
    assert accuracy > 0.6 and run.accuracy == pytest.approx(accuracy)
    for found in (run.evaluate(frame), run.evaluate(str(tmp_path / "new.csv"))):
        assert found.accuracy == pytest.approx(accuracy)
