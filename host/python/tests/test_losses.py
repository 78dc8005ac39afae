"""Losses: names and PyTorch's classes, with gradients and figures compared with PyTorch's."""

import copy

import damper
import numpy as np
import pytest
import torch
from conftest import QUICK, assert_gradients_equal, full_step, mlp, separable
from damper._loss import FUNCTIONS, loss_settings
from torch import nn
from torch.nn import functional as F

N, T, K = 24, 7, 5


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(*shape, low=0, seed=1):
    return np.random.default_rng(seed).integers(low, K, shape)


class Places(nn.Module):
    """Logits `[N, T, K]` of sequences, or with `first` in the layout of PyTorch's CTC: `[T, N, K]`."""

    def __init__(self, first=False):
        super().__init__()
        self.layer, self.first = nn.Linear(4, K), first

    def forward(self, x):
        logits = self.layer(x)
        return logits.transpose(0, 1) if self.first else logits


class Tokens(nn.Module):
    """Logits `[N, T, K]` of the next token."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(K, 8), nn.Linear(8, K)

    def forward(self, ids):
        return self.head(self.embedding(ids).cumsum(1).tanh())


def checked(module, data, loss, expected, of_tokens=None, has_figure=True):
    """Compares a step's gradient with that of `expected(outputs, labels)`, a mean over samples.

    With `has_figure`, also compares the loss on held-out samples after the step, with `of_tokens` if given.
    """
    x, y = data
    train, test = (x[:-8], y[:-8]), (x[-8:], y[-8:])
    run, found = full_step(module, train, loss, test)
    assert_gradients_equal(found, module, expected(module(torch.from_numpy(train[0])), torch.from_numpy(train[1])))
    trained = run.load_into(copy.deepcopy(module))
    with torch.no_grad():
        figure = float((of_tokens or expected)(trained(torch.from_numpy(test[0])), torch.from_numpy(test[1])))
    assert not has_figure or run.loss == pytest.approx(figure, rel=1e-5)


def regression():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


OF_NUMBERS = [
    ("l1", nn.L1Loss(), "l1"), ("huber", nn.HuberLoss(), "huber"), ("mse", nn.MSELoss(), "mse"), (nn.L1Loss(), nn.L1Loss(), "l1"),
    (nn.HuberLoss(), nn.HuberLoss(), "huber"), (nn.SmoothL1Loss(), nn.SmoothL1Loss(), "huber"), (F.l1_loss, nn.L1Loss(), "l1"),
    (F.huber_loss, nn.HuberLoss(), "huber"), (F.smooth_l1_loss, nn.SmoothL1Loss(), "huber"),
]


@pytest.mark.parametrize("loss, expected, name", OF_NUMBERS, ids=lambda one: getattr(one, "__name__", str(one)))
def test_losses_of_numbers(loss, expected, name):
    assert loss_settings(loss, None) == {"loss": name}
    # Differences below and above the threshold of the Huber loss.
    labels = 2 * numbers(N, 3, seed=3)
    module = regression()
    with torch.no_grad():
        sizes = (module(torch.from_numpy(numbers(N, 6))) - torch.from_numpy(labels)).abs()
    assert (sizes < 1).any() and (sizes > 1).any()
    checked(module, (numbers(N, 6), labels), loss, expected)


@pytest.mark.parametrize("kind", [nn.L1Loss, nn.HuberLoss, nn.SmoothL1Loss, nn.MSELoss])
def test_sum_is_of_a_samples_numbers(kind):
    checked(regression(), (numbers(N, 6), numbers(N, 3, seed=3)), kind(reduction="sum"), lambda z, y: kind(reduction="sum")(z, y) / len(z))


def test_causal_lm():
    """The shift of `transformers`: logits at a position and the next position's token. -100 does not count."""
    labels = ids = whole(N, T)
    labels = np.where(np.arange(T) >= whole(N, 1, low=3, seed=4), -100, labels)

    def expected(logits, labels):
        each = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="none", ignore_index=-100)
        counted = (labels[:, 1:] != -100).sum(1)
        return (each.view(len(labels), -1).sum(1) / counted).mean()

    def of_tokens(logits, labels):
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())

    # A text's gradient is the mean over its tokens, and the figure the mean over all tokens. For texts of equal length
    # both are PyTorch's.
    checked(Tokens(), (ids, labels), "causal-lm", expected, of_tokens)
    checked(Tokens(), (ids, ids), "causal-lm", of_tokens)
    # Already shifted labels take the plain loss.
    shifted = np.concatenate([ids[:, 1:], np.full((N, 1), -100)], 1)
    _, plain = full_step(module := Tokens(), (ids, shifted), "softmax-cross-entropy")
    _, own = full_step(module, (ids, ids), "causal-lm")
    assert all(np.allclose(plain[name], own[name], atol=1e-6) for name in plain)


def texts(padding):
    """Returns labels `[N, T]` with a text of 0 to 4 classes, including repeats. The last eight have three each, so that
    their loss has a single mean."""
    lengths = whole(N, 1, seed=5)
    lengths[-8:] = 3
    return np.where(np.arange(T) < lengths, whole(N, T, low=1), padding)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("loss", ["ctc", nn.CTCLoss(), nn.CTCLoss(zero_infinity=True), F.ctc_loss, nn.CTCLoss(reduction="sum")], ids=str)
def test_ctc(loss, first):
    reduction = getattr(loss, "reduction", "mean")
    assert loss == "ctc" or loss_settings(loss, None) == {"loss": "ctc", **({"reduction": "sum"} if reduction == "sum" else {})}

    def expected(logits, labels):
        places = logits if first else logits.transpose(0, 1)
        lengths = (labels > 0).sum(1)
        total = F.ctc_loss(places.log_softmax(2), labels.clamp(min=0), torch.full((len(labels),), T), lengths, reduction=reduction)
        return total / (len(labels) if reduction == "sum" else 1)

    assert {0, 4} <= set((texts(0) > 0).sum(1))
    checked(Places(first), (numbers(N, T, 4), texts(-100)), loss, expected, has_figure=reduction == "mean")
    if loss == "ctc":
        checked(Places(first), (numbers(N, T, 4), texts(0)), loss, expected)


def test_texts_that_do_not_fit_count_nothing():
    """As with `zero_infinity=True`: seven equal labels need blanks between them."""
    labels = texts(-100)
    labels[3] = 2

    def expected(logits, labels):
        lengths = (labels > 0).sum(1)
        places = logits.transpose(0, 1).log_softmax(2)
        return nn.CTCLoss(zero_infinity=True)(places, labels.clamp(min=0), torch.full((len(labels),), T), lengths)

    checked(Places(), (numbers(N, T, 4), labels), nn.CTCLoss(zero_infinity=True), expected)


def test_other_options_are_refused():
    class L1Loss(nn.Module):
        """Has the name of PyTorch's class."""

        def forward(self, z, y):
            return (z - y).abs().median()

    def l1_loss(z, y):
        return (z - y).abs().median()

    refused = [
        (nn.HuberLoss(delta=0.5), "delta=0.5 of HuberLoss"),
        (nn.SmoothL1Loss(beta=2.0), "beta=2 of SmoothL1Loss"),
        (nn.CTCLoss(blank=4), "blank=4 of CTCLoss; make class 0 the blank"),
        (nn.CTCLoss(reduction="none"), "CTCLoss with reduction='none'"),
        (nn.L1Loss(reduction="none"), "L1Loss with reduction='none'"),
        (nn.NLLLoss(), "NLLLoss does not take output"),
        (L1Loss(), "L1Loss gives one number"),
        (l1_loss, "l1_loss gives one number"),
    ]
    x, y = numbers(N, 6), numbers(N, 3)
    for loss, match in refused:
        with pytest.raises(damper.Error, match=match) as raised:
            damper.fit(regression(), (x, y), loss=loss, **QUICK)
        assert str(raised.value).startswith("loss: ")
    assert all(callable(getattr(F, name)) for name in FUNCTIONS)


def test_outputs_of_another_shape_are_refused():
    x, y = separable()
    for loss, labels, match in [("ctc", y[:, None], "logits of K classes at T places"), ("causal-lm", y, r"\[N, S, K\]|tokens|axis")]:
        with pytest.raises(damper.Error, match=match):
            damper.fit(mlp(), (x, labels), loss=loss, **QUICK)
