"""Losses that are functions of (output, target): gradients compared with torch.func's, and functions that mix samples."""

import warnings

import damper
import numpy as np
import onnxruntime
import pytest
import torch
from conftest import QUICK, full_step, mlp, separable
from damper import _fit
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

X, Y = separable(24)
VALUES = np.random.default_rng(3).standard_normal((24, 3)).astype(np.float32)


def smoothed(z, y):
    logs = F.log_softmax(z, 1)
    return -0.9 * logs.gather(1, y.unsqueeze(1)).squeeze(1) - 0.1 * logs.mean(1)


def focal(z, y):
    log = F.log_softmax(z, 1).gather(1, y.unsqueeze(1)).squeeze(1)
    return -((1 - log.exp()) ** 2) * log


def margin(z, y):
    own = z.gather(1, y.unsqueeze(1))
    is_own = (torch.arange(3) == y.unsqueeze(1)).to(z.dtype)
    return (F.relu(1 + z - own) * (1 - is_own)).sum(1)


def huber(z, y):
    away = (z - y).abs()
    return torch.where(away < 0.5, 0.5 * away**2, 0.5 * (away - 0.25)).mean(1)


def quantile(z, y):
    return torch.maximum(0.9 * (y - z), -0.1 * (y - z)).sum(1)


def cross_entropy(z, y):
    return F.cross_entropy(z, y, reduction="none")


def random_loss(seed):
    """Returns a loss of random operations, each on single samples."""
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(rng.standard_normal((3, 3)).astype(np.float32))
    kinds = [torch.tanh, torch.sigmoid, F.softplus, torch.sin, lambda v: v.abs(), lambda v: v**2, lambda v: F.log_softmax(v, 1)]
    first, second = (kinds[at] for at in rng.integers(0, len(kinds), 2))

    def loss(z, y):
        return (second(first(z @ weights) - y) * (1 + y.sin())).mean(1)

    return loss


CASES = {one.__name__: (one, Y) for one in (smoothed, focal, margin, cross_entropy)}
CASES |= {one.__name__: (one, VALUES) for one in (huber, quantile)}
CASES |= {f"random-{seed}": (random_loss(seed), VALUES) for seed in range(2)}


def per_sample(module, loss, y):
    """Returns the gradient of each sample by torch.func: `{name: [N, *shape]}`."""

    def of_one(params, x, target):
        return loss(functional_call(module, params, (x[None],)), target[None])[0]

    params = {name: value.detach() for name, value in module.named_parameters()}
    return vmap(grad(of_one), in_dims=(None, 0, 0))(params, torch.from_numpy(X), torch.from_numpy(y))


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_torch_func(name):
    loss, y = CASES[name]
    module = mlp()
    expected = {one: value.numpy() for one, value in per_sample(module, loss, y).items()}
    # Groups of two samples and of all: a gradient that depends on other samples would differ.
    for rows in ([5, 17], list(range(24))):
        run, found = full_step(module, (X[rows], y[rows]), loss)
        for one, value in expected.items():
            mean = value[rows].mean(0)
            assert np.abs(found[one] - mean).max() <= 1e-5 * np.abs(mean).max() + 5e-7, (one, rows)
    outputs = run.load_into(mlp())(torch.from_numpy(X))
    assert run.evaluate(X, y).loss == pytest.approx(float(loss(outputs, torch.from_numpy(y)).mean().detach()), rel=1e-5)
    assert np.allclose(run.predict(X), outputs.detach().numpy(), atol=1e-5)


def fit(loss, y=Y, module=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return damper.fit(module or mlp(), (X, y), loss=loss, **{**QUICK, "batch_size": 8, "delta": 1e-3, **settings})


def mean_over_batch(z, y):
    return cross_entropy(z, y).mean().expand(len(z))


def divided(z, y):
    return cross_entropy(z, y) / len(z)


def normalised(z, y):
    return cross_entropy((z - z.mean(0)) / (z.std(0) + 1e-3), y)


def pairwise(z, y):
    return (z @ z.T).mean(1)


def rolled(z, y):
    return cross_entropy(z, y) + 0.1 * (z - z.roll(1, 0)).square().sum(1)


def above_the_mean(z, y):
    return cross_entropy(z, y) * (z[:, 0] >= z[:, 0].mean()).to(z.dtype)


MIXING = [mean_over_batch, divided, normalised, pairwise, rolled, above_the_mean]


@pytest.mark.parametrize("loss", MIXING, ids=lambda one: one.__name__)
def test_losses_that_mix_samples_are_refused(loss, monkeypatch, tmp_path):
    with pytest.raises(damper.Error, match=f"loss: {loss.__name__} mixes samples: the loss of a sample depends on"):
        fit(loss)
    # Without the comparison of values, the check of the graph refuses them.
    monkeypatch.setattr(_fit, "check_function", lambda *_: None)
    with pytest.raises(damper.Error):
        fit(loss)
    assert list(tmp_path.iterdir()) == []


def if_any(z, y):
    loss = cross_entropy(z, y)
    if (y == 2).any():
        loss = loss * 10
    return loss


def if_largest(z, y):
    return cross_entropy(z, y) * (3 if y.max() > 1 else 1)


def of_item(z, y):
    return cross_entropy(z, y) * (1 + float(z.detach().abs().sum()))


def of_numpy(z, y):
    return cross_entropy(z, y) * float(np.asarray(z.detach())[0, 0] > 0)


def of_a_changed_tensor(z, y):
    seen = torch.zeros(3)
    seen[y] = 1
    return cross_entropy(z, y) * (2 if seen.sum() == 3 else 1)


@pytest.mark.parametrize("loss", [if_any, if_largest, of_item, of_numpy, of_a_changed_tensor], ids=lambda one: one.__name__)
def test_losses_that_branch_on_values_are_refused(loss):
    with pytest.raises(damper.Error, match=f"loss: {loss.__name__} branches on values .*torch.where"):
        fit(loss)


def test_losses_of_the_size_of_a_batch_are_refused():
    with pytest.raises(damper.Error, match="mixes samples"):
        fit(lambda z, y: cross_entropy(z, y) * (2 if len(z) > 8 else 1))


def test_branches_on_constants_and_of_torch_are_no_error():
    weights = torch.tensor([1.0, 2.0, 0.5])
    module = mlp()

    def weighted(z, y):
        return cross_entropy(z, y) * (weights[y] if weights.sum() > 0 else 1)

    _, found = full_step(module, (X, Y), weighted)
    expected = nn.CrossEntropyLoss(weight=weights, reduction="none")(module(torch.from_numpy(X)), torch.from_numpy(Y)).mean()
    for name, grad in zip(dict(module.named_parameters()), torch.autograd.grad(expected, list(module.parameters()))):
        assert np.allclose(found[name], grad.numpy(), atol=1e-5), name
    # gaussian_nll_loss has a branch of its own.
    assert fit(lambda z, y: F.gaussian_nll_loss(z, y, torch.ones_like(z) + y * y, reduction="none").mean(1), VALUES).finished


def test_losses_of_parameters_are_refused():
    module = mlp()
    for captured in (module[0].weight, nn.Parameter(torch.ones(3))):
        with pytest.raises(damper.Error, match="loss: <lambda> depends on a tensor with requires_grad"):
            fit(lambda z, y: cross_entropy(z, y) + captured.square().sum(), module=module)
    module[0].requires_grad_(False)
    assert fit(lambda z, y: cross_entropy(z, y) + module[0].weight.square().sum(), module=module).finished


def test_losses_that_are_not_finite_everywhere():
    positive, unit = np.abs(VALUES) + 0.1, 1 / (1 + np.exp(-VALUES))
    assert fit(lambda z, y: (z - y.log()).square().mean(1), positive).finished
    assert fit(lambda z, y: (z - torch.logit(y)).square().mean(1), unit).finished
    for y, loss in ((positive, lambda z, y: (z - y.log()).mean().expand(len(z))), (unit, lambda z, y: (z - torch.logit(y)).mean().expand(len(z)))):
        with pytest.raises(damper.Error, match="mixes samples"):
            fit(loss, y)
    with pytest.raises(damper.Error, match="is not finite for synthetic outputs"):
        fit(lambda z, y: z.sum(1) * (-1 - y.square().sum(1)).sqrt(), VALUES)


def test_other_functions_are_refused():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, z, y):
            return cross_entropy(z * self.weight, y)

    def of_batch(z, y):
        return F.cross_entropy(z, y)

    cases = [
        (of_batch, "loss: of_batch gives one number for the whole batch"),
        (lambda z, y: z, r"loss: <lambda> gives the shape \[4, 3\] for 4 samples"),
        (lambda z, y: z.argmax(1), "return a float tensor"),
        (lambda z, y: (z - y).mean(1), "loss: <lambda> does not take output"),
        (Weighted(), "loss: Weighted has parameters"),
        (nn.HingeEmbeddingLoss(), "loss: HingeEmbeddingLoss"),
        (nn.NLLLoss(), "loss: NLLLoss gives one number for the whole batch"),
        (3, "loss: int; give a function"),
        (nn.NLLLoss, "loss: NLLLoss; give a function"),
    ]
    for loss, match in cases:
        with pytest.raises(damper.Error, match=match):
            fit(loss)
    with pytest.raises(damper.Error, match="normalize would scale the labels"):
        fit(huber, VALUES, normalize="0,2")


class Two(nn.Module):
    """Outputs by name."""

    def __init__(self):
        super().__init__()
        self.body, self.mean, self.log = nn.Linear(12, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return {"mean": self.mean(h), "log_std": self.log(h)}


def likelihood(out, y):
    return (out["log_std"] + 0.5 * ((y - out["mean"]) / out["log_std"].exp()) ** 2).sum(1)


def test_outputs_by_name_reach_the_function(tmp_path):
    module = Two()
    run, found = full_step(module, (X, VALUES), likelihood)
    likelihood(module(torch.from_numpy(X)), torch.from_numpy(VALUES)).mean().backward()
    for name, value in module.named_parameters():
        assert np.allclose(found[name], value.grad.numpy(), atol=1e-5), name
    outputs = run.predict(X)
    assert list(outputs) == ["mean", "log_std"]
    # The saved file has neither the loss nor the labels.
    session = onnxruntime.InferenceSession(run.save(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["x"]
    assert np.allclose(session.run(["mean"], {"x": X})[0], outputs["mean"])


def test_an_output_is_chosen_by_name():
    module = Two()
    module.log.requires_grad_(False)
    run = fit("mse", VALUES, module, output="mean")
    assert set(run.predict(X)) == {"mean", "log_std"}
    with pytest.raises(damper.Error, match="mean, log_std|log_std"):
        fit("mse", VALUES, Two())


def test_held_out_rows_private_figures_and_a_resumed_run(tmp_path):
    rest = separable(8, seed=0)
    run = fit(focal, test=rest, eval_every=1, epochs=2)
    assert run.loss == pytest.approx(run.evaluate(rest).loss, rel=1e-5) and len(run.history) >= 2
    run = fit(focal, test=0.25, test_metrics="private")
    assert run.history[-1]["test_metrics"] == "private"

    class Stop:
        def on_step(self, event):
            raise KeyboardInterrupt

    torch.manual_seed(0)
    whole = fit(focal, seed=1, epochs=4)
    torch.manual_seed(0)
    with pytest.raises(damper.Interrupted):
        fit(focal, seed=1, epochs=4, checkpoint_every=0, callbacks=[Stop()], out="run")
    resumed = damper.resume("run", (X, Y), progress=False)
    assert resumed.details["params_digest"] == whole.details["params_digest"]
