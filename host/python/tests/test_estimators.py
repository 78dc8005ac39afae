"""Classifier and Regressor: predictions, errors, and the interface of scikit-learn."""

import copy
import json
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import damper
import numpy as np
import onnxruntime
import pytest
from damper import _damper

# A simulation with little noise, so that no result depends on luck.
QUICK = {"noise_multiplier": 0.3, "delta": 1e-5, "epochs": 8, "batch_size": 64, "optimizer": "adam", "lr": 0.1, "clip": 1, "seed": 1}
FAST = {"accountant": "rdp", "workers": 1}
QUICK["options"] = FAST


@pytest.fixture(autouse=True)
def in_memory(in_a_folder_of_its_own, monkeypatch):
    """Runs go to a folder in RAM if there is one, because each fit waits for the disk several times."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            yield


@pytest.fixture(autouse=True)
def quiet():
    """Simulations warn that they are not private."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", damper.PrivacyWarning)
        yield


def clusters(n=300, width=4, classes=3):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    return 3 * rng.standard_normal((classes, width))[y] + rng.standard_normal((n, width)), y


def line(n=300):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 3))
    return x, 50 + 20 * (x @ [0.5, -0.5, 0.5])


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def by_onnxruntime(run, x):
    session = onnxruntime.InferenceSession(run.path / "model.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})[0]


@pytest.mark.parametrize("network", ["linear", "mlp:5", "mlp:12,7,5"])
def test_predictions_equal_onnxruntime(network):
    x, y = clusters()
    model = damper.Classifier(network, classes=range(3), **QUICK).fit(x, y)
    logits = by_onnxruntime(model.run_, x)
    # Outputs are near 1, and onnxruntime's sums are float32.
    np.testing.assert_allclose(model.predict_proba(x), softmax(logits), atol=1e-5)
    sure = np.sort(logits, axis=1)[:, -1] - np.sort(logits, axis=1)[:, -2] > 1e-4
    assert sure.mean() > 0.9 and (model.predict(x) == logits.argmax(1))[sure].all()
    assert model.score(x, y) == (model.predict(x) == y).mean() > 0.85
    assert model.run_.epsilon > 0 and model.run_.simulation

    x, y = line()
    model = damper.Regressor(network, **QUICK).fit(x, y / 50)
    np.testing.assert_allclose(model.predict(x), by_onnxruntime(model.run_, x)[:, 0], rtol=1e-5, atol=1e-5)


def test_constants_are_applied():
    x, y = clusters()
    mean, std = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 1.0, 2.0])
    plain = damper.Classifier("mlp:8", classes=range(3), **QUICK).fit(x, y)
    scaled = damper.Classifier("mlp:8", classes=range(3), normalize=(mean, std), **QUICK).fit(x * std + mean, y)
    # Only the rounding of the scaled features differs.
    np.testing.assert_allclose(scaled.predict_proba(x * std + mean), plain.predict_proba(x), atol=1e-3)
    one = damper.Classifier("mlp:8", classes=range(3), normalize=(2, 4.0), **QUICK).fit(4 * x + 2, y)
    np.testing.assert_allclose(one.predict_proba(4 * x + 2), plain.predict_proba(x), atol=1e-3)

    released = damper.Classifier("linear", classes=range(3), **{**QUICK, "options": {**FAST, "normalize_private": "-9,9"}}).fit(x, y)
    means, stds = (np.array(part.split(","), float) for part in released.run_.details["normalize"]["constants"].split(":"))
    logits = by_onnxruntime(released.run_, (x - means) / stds)
    np.testing.assert_allclose(released.predict_proba(x), softmax(logits), atol=1e-5)

    x, y = line()
    for loss in ("mse", "l1", "huber"):
        model = damper.Regressor(loss=loss, scale=(50, 20), **{**QUICK, "epochs": 20}).fit(x, y)
        np.testing.assert_allclose(model.predict(x), by_onnxruntime(model.run_, x)[:, 0], rtol=1e-5)
        expected = 1 - ((y - model.predict(x)) ** 2).sum() / ((y - y.mean()) ** 2).sum()
        assert model.score(x, y) == pytest.approx(expected) and expected > 0.8, loss


def test_classes_are_public():
    x, y = clusters()
    names = np.array(["red", "blue", "green"])
    with pytest.warns(damper.PrivacyWarning, match="set of its classes is treated as public"):
        found = damper.Classifier(**QUICK).fit(x, names[y])
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        declared = damper.Classifier(classes=["red", "blue", "green"], **QUICK).fit(x, names[y])
    assert not [one for one in raised if "classes" in str(one.message)]
    assert list(found.classes_) == list(declared.classes_) == ["blue", "green", "red"]
    assert (found.predict(x) == declared.predict(x)).all() and declared.score(x, names[y]) > 0.85
    # A public class without rows.
    wider = damper.Classifier(classes=range(4), **QUICK).fit(x, y.astype(float))
    assert wider.predict_proba(x).shape == (len(x), 4) and wider.score(x, y) > 0.85


def test_errors_are_one_line():
    x, y = clusters()
    bad = x.copy()
    bad[3, 1] = np.nan
    fitted = damper.Classifier(classes=range(3), **QUICK).fit(x, y)

    class Sparse:
        nnz = 0
        toarray = None

    def fit(x, y, **settings):
        return lambda: damper.Classifier(**{"classes": range(3), **QUICK, **settings}).fit(x, y)

    for call, words in [
        (fit(Sparse(), y), "X: is a sparse matrix; give X.toarray()"),
        (fit(bad, y), "Input X contains NaN; leave such rows out, or fill them"),
        (fit(np.where(np.isnan(bad), np.inf, bad), y), "Input X contains infinity"),
        (fit(x, y + 1), "y: has a label that is not in classes; add it to classes, or correct the row"),
        (fit(x, y + 0.5), "y: Unknown label type: continuous; give classes, or use damper.Regressor"),
        (fit(x, y[1:]), "y: has 299 labels, and X has 300 rows"),
        (fit(x, y, classes=[0]), "classes: y has one class only"),
        (fit(x, y, classes="0,1,2"), "classes: '0,1,2' is a text; give a list of the classes"),
        (fit(x, np.array(["a", None] * 150, object), classes=None), "y: has missing labels, or labels of several types"),
        (fit(x, y, classes=[0, 1, 1]), "classes: give each class once, all of one type"),
        (fit(x, y, network="cnn"), "network: cnn; give linear or mlp:64,32, or train a module by damper.fit"),
        (fit(x, y, network="mlp:0"), "mlp"),
        (fit(x, y, noise_multiplier=None), "epsilon"),
        (fit(x, y, options={"lr": 1}), "options: has lr, which is no other flag"),
        (fit(x, y, options={"max_grad_norm": 1}), "max_grad_norm"),
        (fit(x, y, normalize=(0, 0)), "normalize: give finite means and standard deviations above 0"),
        (fit(x, y, normalize=([1, 2], 1)), "normalize: give (mean, std), each a number, or 4 numbers"),
        (lambda: fitted.predict(x[:, 1:]), "X has 3 features, but Classifier is expecting 4 features as input; give the columns of fit"),
        (lambda: damper.Classifier().predict(x), "This Classifier instance is not fitted yet; call fit first"),
        (lambda: damper.Classifier(gamma=1), "gamma"),
        (lambda: damper.Classifier().set_params(gamma=1), "gamma: not a parameter of Classifier; use network, classes, epsilon"),
        (lambda: damper.Regressor(loss="ctc", **QUICK).fit(x, y), "loss: ctc; give mse, l1 or huber"),
        (lambda: damper.Regressor(scale=50, **QUICK).fit(x, y), "scale: give (mean, std)"),
    ]:
        with pytest.raises((ValueError, TypeError)) as raised:
            call()
        assert words in str(raised.value) and "\n" not in str(raised.value), raised.value
    assert not list(Path("damper-runs").glob("0002")), "a refused run leaves no folder"


def test_copies():
    x, y = clusters()
    model = damper.Classifier("mlp:5", classes=[0, 1, 2], normalize=(0, 1), **QUICK)
    assert repr(model).startswith("Classifier(network='mlp:5', classes=[0, 1, 2], delta=1e-05, noise_multiplier=0.3, ")
    assert repr(damper.Classifier()) == "Classifier()"
    assert type(model)(**model.get_params()).get_params() == model.get_params() and model.set_params(lr=0.1) is model and model.lr == 0.1
    model.fit(x, y)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert (other.predict_proba(x) == model.predict_proba(x)).all() and other.run_.path == model.run_.path
    assert (damper.Classifier(**model.get_params()).fit(x, y).predict_proba(x) == model.predict_proba(x)).all()


def test_columns_have_names():
    pd = pytest.importorskip("pandas")
    x, y = clusters()
    frame = pd.DataFrame(x, columns=list("abcd"))
    model = damper.Classifier(classes=range(3), **QUICK).fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == list("abcd") and model.n_features_in_ == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = model.predict(frame)
    assert (predicted == damper.Classifier(classes=range(3)).set_params(**QUICK).fit(x, y).predict(x)).all()
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(x)
    with pytest.raises(damper.Error, match="same order"):
        model.predict(frame[list("bacd")])
    assert not hasattr(model.fit(x, y), "feature_names_in_")


ALONE = """
import sys
sys.modules["sklearn"] = None
sys.modules["torch"] = None
import numpy as np, damper
x = np.random.default_rng(0).standard_normal((100, 2))
y = (x[:, 0] > 0).astype(int)
model = damper.Classifier(classes=[0, 1], epsilon=3, epochs=1)
try:
    model.predict(x)
except damper.Error as error:
    print(error)
print(model.fit(x, y[:, None]).predict(x).shape, model.run_.epsilon <= 3, model.get_params()["epsilon"])
print(damper.Regressor(epsilon=3, epochs=1).fit(x, x[:, 0]).predict(x).shape)
"""


def test_neither_sklearn_nor_torch_is_needed():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "This Classifier instance is not fitted yet; call fit first",
        "(100,) True 3",
        "(100,)",
    ], done.stderr
    loads = "import damper, sys; print([name for name in ('sklearn', 'torch', 'pandas') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", loads], text=True) == "[]\n"


def test_ctrl_c_keeps_what_was_charged(monkeypatch):
    import _thread

    x, y = clusters()
    monkeypatch.setattr(damper._fit._Bar, "_step", lambda *_: _thread.interrupt_main())
    settings = {**QUICK, "epochs": 2000, "seed": None, "noise_multiplier": 30}
    with pytest.raises(damper.Interrupted, match="which counts; it cannot be resumed") as raised:
        damper.Classifier(classes=range(3), progress=True, **settings).fit(x, y)
    run = raised.value.run
    assert not run.finished and 0 < run.steps < 2000 and 0 < run.epsilon < 3


def budget(limit):
    _damper.call("budget", ["all.budget"], {"create": "rows", "epsilon": limit, "delta": 1e-5, "json": True}, lambda _: None)


def charged():
    return json.loads(_damper.call("budget", ["all.budget"], {"json": True}, lambda _: None)[0])


PRIVATE = {"noise_multiplier": 4.0, "delta": 1e-6, "epochs": 1, "batch_size": 64, "classes": range(3), "options": {"workers": 1}}


def test_search_charges_all_fits_to_one_budget():
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    budget(20.0)
    x, y = clusters()
    pipeline = make_pipeline(FunctionTransformer(np.tanh), damper.Classifier(budget="all.budget", **PRIVATE))
    search = GridSearchCV(pipeline, {"classifier__lr": [0.01, 0.1]}, cv=KFold(3), n_jobs=2, error_score="raise").fit(x, y)
    # 2 candidates in 3 folds, and the fit of the best on all rows.
    found = charged()
    assert len(found["runs"]) == 7 and len(list(Path("damper-runs").glob("[0-9]*"))) == 7
    steps = [one["steps"] for one in found["runs"]]
    assert steps == [200 // 64 + 1] * 6 + [300 // 64 + 1]
    best = search.best_estimator_[-1]
    assert best.run_.epsilon < found["epsilon"] < 20 and search.score(x, y) == best.score(np.tanh(x), y)


def test_full_budget_refuses_a_fit():
    x, y = clusters()
    budget(1.2)
    model = damper.Classifier(budget="all.budget", **PRIVATE)
    alone = model.fit(x, y).run_.epsilon
    refused = 0
    for _ in range(9):
        before = charged()["epsilon"]
        try:
            model.fit(x, y)
        except damper.Error as error:
            assert "all.budget" in str(error) and charged()["epsilon"] == before
            refused += 1
    assert alone < 1.2 and refused > 0 and charged()["epsilon"] <= 1.2


@pytest.mark.parametrize("kind", [damper.Classifier, damper.Regressor])
def test_sklearn_checks(kind):
    """All checks pass, because a seed repeats the noise. Without one, those fail that compare two fits: check_fit_idempotent,
    check_supervised_y_2d, check_regressors_int and check_regressor_data_not_an_array."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Some checks have fewer rows than a batch of 64.
        results = checks.check_estimator(kind(**{**QUICK, "epochs": 8, "batch_size": None}), on_fail=None, on_skip=None)
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] == "failed"}
    assert not failed, failed
    # scikit-learn skips one check itself, which is for arrays of other libraries.
    assert [one["check_name"] for one in results if one["status"] == "skipped"] in ([], ["check_array_api_input"])
