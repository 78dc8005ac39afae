"""Data sets with columns, tokenizers, and models of transformers with outputs by name. Offline, from configurations."""

import warnings

import damper
import numpy as np
import pytest
import torch
from conftest import QUICK, mlp, separable

transformers = pytest.importorskip("transformers", reason="transformers is not installed: .ci/run python installs it")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: transformers installs it")

WORDS = "[PAD] [UNK] the film is good great warm bad dull cold".split()
GOOD = np.random.default_rng(0).integers(0, 2, 120)
TEXTS = [f"the film is {WORDS[5 + 3 * (1 - good) + at % 3]}" for at, good in enumerate(GOOD)]


class Columns:
    """A data set like those of the package `datasets`."""

    def __init__(self, columns):
        self.columns_, self.column_names = columns, list(columns)

    def __len__(self):
        return len(next(iter(self.columns_.values())))

    def __getitem__(self, name):
        return self.columns_[name]


def data_sets(columns):
    """Returns the stand-in, and a `datasets.Dataset` if that package is installed."""
    made = [Columns(columns)]
    try:
        import datasets
    except ImportError:
        return made
    return [*made, datasets.Dataset.from_dict(columns)]


def tokenizer():
    model = tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    own = tokenizers.Tokenizer(model)
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=own, pad_token="[PAD]", unk_token="[UNK]")


def bert():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=8
    )
    return transformers.BertForSequenceClassification(config)


def fit(module, data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return damper.fit(module, data, **{**QUICK, **settings})


def test_texts_with_a_tokenizer():
    module, own = bert(), tokenizer()
    run = fit(module, (TEXTS[:80], GOOD[:80]), test=(TEXTS[80:], GOOD[80:]), tokenizer=own, max_length=6, epsilon=None, seed=1)
    x, y = damper.tokenized((TEXTS[80:], GOOD[80:]), own, max_length=6)
    assert x["input_ids"].shape == (40, 6) and run.evaluate(x, y).accuracy == pytest.approx(run.accuracy)
    run.load_into(module).eval()
    with torch.no_grad():
        logits = module(**{name: torch.from_numpy(value) for name, value in x.items()}).logits.numpy()
    outputs = run.predict(x)
    assert np.allclose(outputs, logits, atol=1e-4)
    # The column names of a data set give the same run.
    for data in data_sets({"sentence": TEXTS[:80], "label": GOOD[:80].tolist(), "idx": list(range(80))}):
        again = fit(bert(), data, test=(TEXTS[80:], GOOD[80:]), tokenizer=own, max_length=6, seed=1)
        assert again.details["params_digest"] == run.details["params_digest"]


def test_columns_that_the_module_takes():
    x, y = separable(120)
    expected = fit(mlp(), (x, y), seed=1).details["params_digest"]
    for data in data_sets({"input": x.tolist(), "labels": y.tolist(), "note": ["a"] * 120}):
        # The module has the same initial weights again.
        torch.manual_seed(0)
        assert fit(mlp(), data, seed=1).details["params_digest"] == expected
    bad = Columns({"x": x.tolist(), "labels": y.tolist()})
    with pytest.raises(damper.Error, match="none of the columns 'x', 'labels' is an input"):
        fit(mlp(), bad)
    with pytest.raises(damper.Error, match=r"has texts or objects; give damper.tokenized\(data, tokenizer\)"):
        fit(mlp(), Columns({"input": TEXTS, "labels": GOOD.tolist()}))
    with pytest.raises(damper.Error, match="rows have different lengths"):
        fit(mlp(), Columns({"input": [[1.0], [1.0, 2.0]], "labels": [0, 1]}))
    with pytest.raises(damper.Error, match="has no column labels"):
        fit(mlp(), Columns({"input": x.tolist()}))
    with pytest.raises(damper.Error, match="no column of texts"):
        damper.tokenized(Columns({"words": TEXTS}), tokenizer())


def test_other_columns_of_a_tokenized_data_set():
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    own = tokenizer()
    rows = datasets.Dataset.from_dict({"sentence": TEXTS[:80], "label": GOOD[:80].tolist()})
    cut = rows.map(lambda row: own(row["sentence"], padding="max_length", max_length=6))
    expected = fit(bert(), damper.tokenized((TEXTS[:80], GOOD[:80]), own, max_length=6), seed=1).details["params_digest"]
    columns = ["input_ids", "attention_mask", "label"]
    for data in (cut, cut.with_format("torch"), cut.with_format("torch", columns=columns)):
        found = fit(bert(), data.remove_columns("token_type_ids") if "token_type_ids" in data.column_names else data, seed=1)
        assert found.details["params_digest"] == expected
    with pytest.raises(damper.Error, match="data, row 1: the text is a NoneType"):
        damper.tokenized([TEXTS[0], None], own)


def test_encodings_of_transformers_are_samples():
    own = tokenizer()
    encoded = own(TEXTS[:80], padding="max_length", max_length=6, return_tensors="pt")
    x, y = damper.tokenized((TEXTS[:80], GOOD[:80]), own, max_length=6)
    encoded = transformers.BatchEncoding({name: encoded[name] for name in x})
    run = fit(bert(), (encoded, GOOD[:80]), seed=1)
    assert run.details["params_digest"] == fit(bert(), (x, y), seed=1).details["params_digest"]
    for given in (encoded, damper.tokenized(TEXTS[:80], own, max_length=6)):
        assert np.array_equal(run.predict(given), run.predict(x))


def test_language_models_predict_the_next_token():
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=len(WORDS), n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    module = transformers.GPT2LMHeadModel(config)
    x, _ = damper.tokenized(TEXTS[:80], tokenizer(), max_length=6)
    with pytest.warns(damper.PrivacyWarning, match="loss: causal-lm, because a GPT2LMHeadModel predicts"):
        run = damper.fit(module, (x, x["input_ids"]), **QUICK, seed=1)
    torch.manual_seed(0)
    named = fit(transformers.GPT2LMHeadModel(config), (x, x["input_ids"]), loss="causal-lm", seed=1)
    assert run.details["params_digest"] == named.details["params_digest"]


class Heads(torch.nn.Module):
    """Outputs by name, of which `logits` feeds the loss."""

    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(12, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return {"hidden": h, "logits": self.head(h)}


def test_outputs_by_name():
    x, y = separable(120)
    module = Heads()
    run = fit(module, (x, y), test=separable(60, seed=0))
    outputs = run.predict(x)
    assert list(outputs) == ["hidden", "logits"]
    run.load_into(module)
    with torch.no_grad():
        own = module(torch.from_numpy(x))
    assert all(np.allclose(outputs[name], own[name].numpy(), atol=1e-5) for name in own)
    assert (run.predict(x, kind="class") == outputs["logits"].argmax(1)).all()
