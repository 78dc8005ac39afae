"""DataFrames: columns by name, categories by public lists."""

import warnings

import damper
import numpy as np
import pytest
import torch
from conftest import QUICK

pd = pytest.importorskip("pandas")


def quiet(call, *args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **settings)


def linear(width, classes=2):
    return torch.nn.Sequential(torch.nn.Linear(width, 8), torch.nn.Tanh(), torch.nn.Linear(8, classes))


def people(n=300):
    rng = np.random.default_rng(1)
    age, city, member = rng.normal(40, 15, n), rng.choice(["Oslo", "Rome", "Lima"], n), rng.random(n) < 0.5
    y = ((age > 40) ^ member).astype(np.int64)
    return pd.DataFrame({"age": age, "city": city, "member": member, "y": y})


CITIES = ["Lima", "Oslo", "Rome"]


def as_array(df, cities=CITIES):
    """Returns the expected array of the columns."""
    one_hot = [(df["city"] == city).to_numpy() for city in cities]
    return np.stack([df["age"], *one_hot, df["member"]], 1).astype(np.float32)


def digest(module, data, **settings):
    return quiet(damper.fit, module, data, seed=1, **{**QUICK, **settings}).details["params_digest"]


def test_every_form_has_the_same_bits():
    df, module = people(), linear(5)
    expected = digest(module, (as_array(df), df["y"].to_numpy()))
    typed = df.assign(city=pd.Categorical(df["city"], categories=CITIES))
    dummies = pd.get_dummies(df[["age", "city"]]).assign(member=df["member"])
    listed = {"categories": {"city": CITIES}}
    forms = {
        "alone": (df, {"label": "y", **listed}),
        "flag": (df, {"label_column": "y", "categories": ["city=Lima,Oslo,Rome"]}),
        "pair": ((df.drop(columns="y"), df["y"]), listed),
        "name": ((df, "y"), listed),
        "typed": ((typed, "y"), {}),
        "array of labels": ((typed.drop(columns="y"), df["y"].to_numpy()), {}),
        "bool dummies": ((dummies, df["y"]), {}),
        "float dummies": ((dummies.astype(float), df["y"]), {}),
        "sparse dummies": ((pd.get_dummies(df[["age", "city"]], sparse=True).assign(member=df["member"]), df["y"]), {}),
        "nullable": ((typed.convert_dtypes(), "y"), {}),
        "nullable labels": ((typed.drop(columns="y"), df["y"].astype("Int64")), {}),
        "bool labels": ((typed.drop(columns="y"), df["y"] == 1), {}),
        "another index": ((typed.set_index(df.index[::-1] + 7), "y"), {}),
    }
    if __import__("importlib").util.find_spec("pyarrow"):
        forms["pyarrow"] = (typed.convert_dtypes(dtype_backend="pyarrow"), {"label": "y"})
    found = {name: digest(module, data, **settings) for name, (data, settings) in forms.items()}
    assert {name for name, one in found.items() if one != expected} == set(), found


def test_test_data_match_by_name():
    df, module = people(), linear(5)
    test = people(200).sample(frac=1, random_state=0)
    listed = {"label": "y", "categories": {"city": CITIES}}
    by_name = quiet(damper.fit, module, df, test=test[["y", "member", "city", "age"]], seed=1, **listed, **QUICK)
    expected = quiet(damper.fit, module, (as_array(df), df["y"].to_numpy()), test=(as_array(test), test["y"].to_numpy()), seed=1, **QUICK)
    assert by_name.accuracy == expected.accuracy and by_name.loss == expected.loss
    # A type with its categories in another order.
    typed = test.assign(city=pd.Categorical(test["city"], categories=CITIES[::-1]))
    assert quiet(damper.fit, module, df, test=typed, seed=1, **listed, **QUICK).loss == expected.loss
    for other, match in (
        (test.rename(columns={"age": "years"}), "no column 'age' and has 'years'"),
        (test.drop(columns="member"), "no column 'member'"),
        (test.assign(more=1.0), "has 'more'"),
    ):
        with pytest.raises(damper.Error, match=match):
            quiet(damper.fit, module, df, test=other, **listed, **QUICK)
    with pytest.warns(damper.PrivacyWarning, match="taken by place: age, city, member"):
        damper.fit(module, df, test=(as_array(test), test["y"].to_numpy()), **listed, **QUICK)
    with pytest.raises(damper.Error, match="3 named columns"):
        quiet(damper.fit, module, df, test=(as_array(test)[:, :4], test["y"].to_numpy()), **listed, **QUICK)


def test_names_travel_with_the_model(monkeypatch):
    df, module = people(2000), linear(5)
    settings = {**QUICK, "epochs": 3, "seed": 3, "checkpoint_every": 0, "label": "y", "categories": {"city": CITIES}, "scale": {"age": (40, 15)}}
    whole = quiet(damper.fit, module, df, **settings)
    known = whole._metadata()
    assert known["columns"] == {"input": {"names": ["age", "city", "member"], "categories": {"city": CITIES}}}
    import _thread

    monkeypatch.setattr(damper._fit._Bar, "_step", lambda self, event: _thread.interrupt_main())
    with pytest.raises(damper.Interrupted) as raised:
        quiet(damper.fit, module, df, **{**settings, "progress": True})
    monkeypatch.undo()
    with pytest.raises(damper.Error, match="no column 'city'"):
        damper.resume(raised.value.run.path, df.drop(columns="city"))
    resumed = quiet(damper.resume, raised.value.run.path, df[["member", "y", "city", "age"]], progress=False)
    assert resumed.details["params_digest"] == whole.details["params_digest"]


def test_numbers_of_columns_are_rounded_once():
    times = np.array([1_700_000_000, 1_700_000_001, 1_700_000_002])
    for constants in ((1.7e9, 1.0), (1_700_000_001.0, 0.5)):
        table = damper._frames.table(pd.DataFrame({"t": times}), "data", damper._frames.Reading(scale={"t": constants}), None)
        assert table.floats[:, 0].tolist() == [(int(t) - int(constants[0])) / constants[1] for t in times]
    nanoseconds = pd.DataFrame({"t": np.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_003])})
    table = damper._frames.table(nanoseconds, "data", damper._frames.Reading(scale={"t": (1.7e18, 2.0)}), None)
    assert table.floats[:, 0].tolist() == [0.5, 1.5]
    # By constants of `normalize` in the command, and by constants that a run releases.
    table = damper._frames.table(pd.DataFrame({"t": times}), "data", damper._frames.Reading(), None)
    assert table.floats.dtype == np.float64 and table.floats[:, 0].tolist() == times.tolist()
    assert table.integers[:, 0].tolist() == times.tolist()


def test_large_integers_are_rounded_once():
    ids = np.array([2**53 + 1, 2**53 + 3, -(2**60) - 1, 5])
    table = damper._frames.table(pd.DataFrame({"id": ids, "x": [0.1, 0.2, 0.3, 0.4]}), "data", damper._frames.Reading(), None)
    assert table.beyond_floats == "id"
    assert table.floats[:, 0].astype(np.float32).tolist() == [np.float32(int(one)) for one in ids]
    # 2**24 + 1 and a little. Rounded to float64 first, it would be a tie, and round to even.
    tie = 2**60 + 2**36 + 1
    table = damper._frames.table(pd.DataFrame({"id": [tie, 2**53 + 1]}), "data", damper._frames.Reading(), None)
    assert int(table.floats[0, 0]) == 2**60 + 2**37 and table.integers[0, 0] == tie
    df = pd.DataFrame({"id": np.resize(ids, 64), "x": np.linspace(0, 1, 64), "y": np.arange(64) % 2})
    for setting in ({"normalize": (float(2**53), 1.0)}, {"normalize_private": (0, 1)}):
        with pytest.raises(damper.Error, match=r"column 'id': has integers that 64-bit floats do not hold.*scale={'id'"):
            quiet(damper.fit, linear(2), (df, "y"), **setting, **QUICK)
    # Not for a module that takes them as integers, or with constants by column.
    table = damper._frames.table(df[["id"]], "data", damper._frames.Reading(scale={"id": (float(2**53), 1.0)}), None)
    assert table.beyond_floats is None and table.floats[:2, 0].tolist() == [1, 3]


def test_constants_of_scale_are_exact():
    read = damper._frames.of_options
    assert read({"scale": {"id": (2**53, "0.5"), "x": "1e3, 2"}}, None).scale == {"id": (2.0**53, 0.5), "x": (1000.0, 2.0)}
    for constants in ((2**53 + 1, 1), ("9007199254740993", 1), "9007199254740993,1", (np.int64(2**53 + 1), 1), (0, 2**53 + 1)):
        with pytest.raises(damper.Error, match="column 'id': 9007199254740993 is no 64-bit float; the nearest is 9007199254740992"):
            read({"scale": {"id": constants}}, None)


def test_truths_and_numbers_match_names():
    flag = pd.Series([True, False, True], name="flag")
    reading = damper._frames.Reading
    for listed in (["True", "False"], ["true", "false"], ["1", "0"], [True, False], [1, 0]):
        table = damper._frames.table(flag.to_frame(), "data", reading(categories={"flag": listed}), None)
        assert table.integers[:, 0].tolist() == [0, 1, 0], listed
        assert damper._frames.labels(flag, "labels", reading(classes=listed), None).tolist() == [0, 1, 0], listed
        nullable = flag.astype("boolean")
        assert damper._frames.labels(nullable, "labels", reading(classes=listed), None).tolist() == [0, 1, 0], listed
    assert damper._frames.labels(flag, "labels", reading(classes=["no", "yes"]), None).tolist() == [1, 0, 1]
    numbers = pd.Series([7, 3, 7], name="y")
    assert damper._frames.labels(numbers, "labels", reading(classes=["3", "7"]), None).tolist() == [1, 0, 1]
    with pytest.raises(damper.Error, match="not in its public list"):
        damper._frames.labels(numbers, "labels", reading(classes=["3", "5"]), None)


def test_scaled_labels_keep_their_unit():
    x = np.linspace(0, 1, 400)
    df = pd.DataFrame({"a": x, "price": 250_000 + 100_000 * x})
    settings = {**QUICK, "loss": "mse", "seed": 1}
    said = {"test": df.iloc[::7], "label": "price", "scale": {"price": (250_000, 100_000)}}
    of_frame = quiet(damper.fit, linear(1, 1), df, **said, **settings)
    y = df[["price"]].to_numpy()
    given = (x[:, None], y)
    of_arrays = quiet(damper.fit, linear(1, 1), given, test=(given[0][::7], y[::7]), scale={"labels": (250_000, 100_000)}, **settings)
    for run in (of_frame, of_arrays):
        # Each started with its own weights.
        module = run.load_into(linear(1, 1))
        guessed = 250_000 + 100_000 * module(torch.tensor(given[0][::7], dtype=torch.float32)).detach().numpy()
        expected = float(((guessed - y[::7]) ** 2).mean())
        assert abs(run.details["test_loss"] / expected - 1) < 1e-3, (run.details["test_loss"], expected)
    with pytest.raises(damper.Error, match="column 'town'|no column 'town'"):
        quiet(damper.fit, linear(1, 1), df, label="price", scale={"town": (0, 1)}, **settings)


def test_float_classes_without_a_loss_are_refused():
    x = np.ones((8, 1), np.float32)
    with pytest.raises(damper.Error, match="bce-with-logits.*mse"):
        damper.fit(linear(1, 1), (x, np.array([0.0, 1.0] * 4)[:, None]), **QUICK)
    with pytest.raises(damper.Error, match="softmax-cross-entropy.*mse"):
        damper.fit(linear(1), (x, np.eye(2)[[0, 1] * 4]), **QUICK)


def test_what_has_no_number_is_refused_by_name():
    df = people()

    def refused(data, match, width=5, **settings):
        with pytest.raises(damper.Error, match=match):
            quiet(damper.fit, linear(width), data, **QUICK, **settings)

    refused(df, "alone has no labels.*label=")
    refused((df, "y"), r"column 'city': has values of type .*categories={'city'")
    refused((df.assign(city=df["city"].astype(object)), "y"), "column 'city'")
    refused((df, "z"), "no column 'z'")
    refused((df, "y"), "column 'city': has a value that is not in its public list", categories={"city": ["Oslo", "Rome"]})
    refused((df, "y"), "no column 'town'", categories={"town": ["a", "b"]})
    refused((df.drop(columns="city").assign(born=pd.Timestamp(0)), "y"), "column 'born': has times")
    refused((df.drop(columns="y").assign(city=1), df["city"]), r"labels, column 'city'.*classes=\[")
    refused((df.drop(columns="y").assign(city=1), df["y"].sample(frac=1, random_state=0)), "another order.*X.index")
    refused((df.drop(columns="city").assign(AGE=1), "y"), "'age' and 'AGE' differ by case")
    twice = df[["age", "age", "member", "y"]]
    refused((twice, "y"), "'age' is there twice")
    missing = df.drop(columns="city").assign(age=pd.array([None, *df["age"][1:]], dtype="Float64"))
    refused((missing, "y"), "(?i)row.*NaN|NaN.*row", width=2)
    refused((df.drop(columns="city"), df["y"].astype("Int64").mask(df.index == 3)), "missing label", width=2)


def test_bad_rows_can_be_dropped():
    df = people(400)
    data = df.drop(columns="city").assign(age=pd.array([None, *df["age"][1:]], dtype="Float64"))
    run = quiet(damper.fit, linear(2), (data.drop(columns="y"), df["y"].astype("Int64").mask(df.index == 3)), on_bad_row="drop", **QUICK)
    assert run.finished


def test_integers_are_what_the_module_takes():
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.integers(0, 9, (200, 4)), columns=list("abcd"))
    y = (df["a"] > 4).astype(int)
    ids = torch.nn.Sequential(torch.nn.Embedding(9, 3), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    for module in (ids, linear(4)):
        assert digest(module, (df, y)) == digest(module, (df.to_numpy() if module is ids else df.to_numpy(np.float32), y.to_numpy()))


def test_classes_have_public_names():
    df, module = people(), linear(5)
    x, expected = as_array(df), digest(module, (as_array(df), df["y"].to_numpy()))
    names = df["y"].map({0: "no", 1: "yes"})
    frame = pd.DataFrame(x, columns=list("abcde"))
    assert digest(module, (frame, names), classes=["no", "yes"]) == expected
    assert digest(module, (frame, pd.Series(pd.Categorical(names, categories=["no", "yes"])))) == expected
    with pytest.warns(damper.PrivacyWarning, match="count as public classes"):
        damper.fit(module, (frame, names.astype("category")), **QUICK)
