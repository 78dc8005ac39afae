"""`damper.accounting` against closed forms, against dp-accounting's events and bounds, and in Opacus."""

import math

import damper
import pytest
from damper import accounting as acc
from scipy import stats


def gaussian_delta(shift, epsilon):
    """δ of a Gaussian moved by `shift` standard deviations, by SciPy."""
    below = stats.norm.cdf
    return below(shift / 2 - epsilon / shift) - math.exp(epsilon) * below(-shift / 2 - epsilon / shift)


def dp_sgd(noise=1.1, rate=0.01, steps=1000):
    return acc.SelfComposed(acc.PoissonSampled(rate, acc.Gaussian(noise)), steps)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_gaussians_have_their_closed_form(epsilon):
    event, shift = acc.SelfComposed(acc.Gaussian(4.0), 9), 0.75
    exact = gaussian_delta(shift, epsilon)
    low, high = acc.delta_bounds(event, epsilon)
    assert low <= exact * (1 + 1e-9) and exact <= high * (1 + 1e-9) and high <= low * (1 + 1e-6)
    assert acc.epsilon(event, delta=exact) == pytest.approx(epsilon, rel=1e-6)
    replaced = gaussian_delta(2 * shift, epsilon)
    assert acc.delta(event, epsilon, neighbours="replace-one") == pytest.approx(replaced, rel=1e-6)
    assert acc.delta(event, epsilon, neighbours="zero-out") == high


def test_laplace_has_its_closed_form():
    event = acc.Laplace(2.0)
    for epsilon in (0.0, 0.1, 0.4):
        exact = 1 - math.exp((epsilon - 0.5) / 2)
        low, high = acc.delta_bounds(event, epsilon)
        assert low <= exact <= high <= 1.005 * exact
    # Two results of randomised response are at most twice its logarithm of 3.
    response = acc.SelfComposed(acc.RandomizedResponse(0.5, 2), 2)
    assert acc.epsilon(response, delta=1e-12, neighbours="replace-one") == pytest.approx(2 * math.log(3), rel=1e-6)


def test_epsilon_is_the_commands():
    command = damper.epsilon(noise_multiplier=1.1, sampling_rate=0.01, steps=1000, delta=1e-5)
    low, high = acc.epsilon_bounds(dp_sgd(), delta=1e-5)
    # The command accounts its integer noise, which costs four millionths more.
    assert low <= high <= command <= high * (1 + 1e-4)
    assert acc.epsilon(dp_sgd(), delta=1e-5, accountant="rdp") > high
    assert acc.delta(dp_sgd(), high) == pytest.approx(1e-5, rel=0.01)


def test_calibrate_any_value():
    budget = {"epsilon": 2.0, "delta": 1e-5}
    noise = acc.calibrate(lambda noise: dp_sgd(noise), low=0.1, high=10, **budget)
    assert acc.epsilon(dp_sgd(noise), 1e-5) <= 2 < acc.epsilon(dp_sgd(0.999 * noise), 1e-5)
    steps = acc.calibrate(lambda steps: dp_sgd(steps=steps), low=1, high=10**5, integer=True, **budget)
    assert isinstance(steps, int) and acc.epsilon(dp_sgd(steps=steps), 1e-5) <= 2
    scale = acc.calibrate(lambda scale: acc.Composed([dp_sgd(), acc.Laplace(scale)]), low=0.5, high=100, **budget)
    assert acc.epsilon(acc.Composed([dp_sgd(), acc.Laplace(scale)]), 1e-5) <= 2
    with pytest.raises(damper.Error, match="both ends of the search cost more"):
        acc.calibrate(lambda noise: dp_sgd(noise), low=0.1, high=0.2, **budget)
    with pytest.raises(ZeroDivisionError):
        acc.calibrate(lambda noise: dp_sgd(noise / 0), low=0.1, high=1, **budget)


def test_a_first_record_may_be_drawn():
    # Nothing is truncated: the neighbour of no records has one.
    alone = acc.epsilon(acc.PoissonSampled(0.5, acc.Gaussian(1.0)), 1e-5)
    assert acc.epsilon(acc.TruncatedSubsampledGaussian(0, 0.5, 5, 1.0), 1e-5) == pytest.approx(alone, rel=0.01)


def test_wrong_values_are_named():
    for event, neighbours, problem in [
        (acc.Gaussian(-1.0), "add-or-remove", "noise_multiplier -1"),
        (acc.PoissonSampled(2.0, acc.Gaussian(1.0)), "add-or-remove", "sampling_rate 2"),
        (acc.SampledWithoutReplacement(10, 2, acc.Gaussian(1.0)), "zero-out", "fixed size: has no proved bound under zero-out"),
        (acc.SingleEpochTreeAggregation(1.0, 8), "add-or-remove", "tree of sums: has no proved bound under add-or-remove"),
        (acc.Gaussian(1.0), "near", "neighbours near"),
        (acc.SelfComposed(acc.Gaussian(1.0), -1), "add-or-remove", "count -1: give an integer"),
        (acc.SelfComposed(acc.Gaussian(1.0), 1.5), "add-or-remove", "count 1.5: give an integer"),
        (acc.SelfComposed(acc.SelfComposed(acc.Gaussian(1e9), 2**40), 2**40), "add-or-remove", "more than 2.53 releases"),
        (acc.Laplace(1e-300), "add-or-remove", "noise_multiplier 0.*at least 0.001"),
        (acc.RepeatAndSelect(acc.Gaussian(1.0), 1e300, 1.0), "add-or-remove", "a mean from 1 to 1e9"),
    ]:
        with pytest.raises(damper.Error, match=problem):
            acc.epsilon(event, 1e-5, neighbours=neighbours)
    assert acc.epsilon(acc.NonPrivate(), 1e-5) == math.inf and acc.epsilon(acc.NoOp(), 1e-5) == 0


def events_of_dp_accounting(dp):
    """Events that both accountants bound by privacy loss distributions, and their relation."""
    poisson = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1))
    return [
        (dp.SelfComposedDpEvent(poisson, 1000), "ADD_OR_REMOVE_ONE"),
        (dp.SelfComposedDpEvent(poisson, 1000), "REPLACE_SPECIAL"),
        (dp.SelfComposedDpEvent(poisson, 1000), "REPLACE_ONE"),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(5.0), 10), "REPLACE_ONE"),
        (dp.SelfComposedDpEvent(dp.LaplaceDpEvent(3.0), 10), "ADD_OR_REMOVE_ONE"),
        (dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)), 100), "ADD_OR_REMOVE_ONE"),
        (dp.SelfComposedDpEvent(dp.DiscreteLaplaceDpEvent(0.3, 2), 10), "ADD_OR_REMOVE_ONE"),
        (dp.RandomizedResponseDpEvent(0.5, 5), "REPLACE_ONE"),
        (dp.RandomizedResponseDpEvent(0.5, 5), "REPLACE_SPECIAL"),
        (dp.SelfComposedDpEvent(dp.TruncatedSubsampledGaussianDpEvent(60000, 0.004, 400, 1.1), 100), "REPLACE_SPECIAL"),
        (dp.ComposedDpEvent([dp.SelfComposedDpEvent(poisson, 1000), dp.LaplaceDpEvent(2.0), dp.NoOpDpEvent()]), "ADD_OR_REMOVE_ONE"),
    ]


def test_events_of_dp_accounting_cost_as_much_there():
    dp_accounting = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting import dp_event, pld

    for event, relation in events_of_dp_accounting(dp_event):
        relation = dp_accounting.NeighboringRelation[relation]
        accountant = pld.PLDAccountant(relation)
        accountant.compose(event)
        theirs = accountant.get_epsilon(1e-5)
        ours = acc.epsilon(event, 1e-5, neighbours=relation)
        # dp-accounting rounds up on a grid of 1e-4.
        assert ours == pytest.approx(theirs, rel=5e-3, abs=2e-4), event
        within = 0.9 * theirs
        assert acc.delta(event, within, neighbours=relation) == pytest.approx(accountant.get_delta(within), rel=1e-2), event


def test_orders_of_dp_accounting_cost_as_much_there():
    dp_accounting = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting import dp_event as dp
    from dp_accounting import rdp

    gaussian = dp.GaussianDpEvent(5.0)
    for event, relation in [
        (dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)), 1000), "ADD_OR_REMOVE_ONE"),
        (dp.RepeatAndSelectDpEvent(gaussian, 10, 1), "ADD_OR_REMOVE_ONE"),
        (dp.RepeatAndSelectDpEvent(gaussian, 10, 0), "ADD_OR_REMOVE_ONE"),
        (dp.RepeatAndSelectDpEvent(gaussian, 10, math.inf), "ADD_OR_REMOVE_ONE"),
        (dp.ZCDpEvent(0.1, 0.02), "ADD_OR_REMOVE_ONE"),
        (dp.SingleEpochTreeAggregationDpEvent(5.0, [1000, 10]), "REPLACE_SPECIAL"),
        (dp.SelfComposedDpEvent(dp.LaplaceDpEvent(3.0), 10), "ADD_OR_REMOVE_ONE"),
    ]:
        relation = dp_accounting.NeighboringRelation[relation]
        accountant = rdp.RdpAccountant(neighboring_relation=relation)
        accountant.compose(event)
        ours = acc.epsilon(event, 1e-5, neighbours=relation, accountant="rdp")
        assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=5e-3), event


def test_unsupported_events_are_named():
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting import dp_event as dp

    for event in (dp.SampledWithReplacementDpEvent(10, 2, dp.GaussianDpEvent(1.0)), dp.UnsupportedDpEvent()):
        for wrapped in (event, dp.SelfComposedDpEvent(event, 3)):
            with pytest.raises(acc.UnsupportedEvent, match=f"^{type(event).__name__}: no event with a bound"):
                acc.from_dp_accounting(wrapped)
    converted = acc.from_dp_accounting(dp.ComposedDpEvent([dp.GaussianDpEvent(2.0), dp.NonPrivateDpEvent()]))
    assert converted == acc.Composed([acc.Gaussian(2.0), acc.NonPrivate()])


def test_opacus_has_damper_as_an_accountant():
    opacus = pytest.importorskip("opacus", reason="Opacus is not installed")
    torch = pytest.importorskip("torch")
    from opacus.accountants.utils import get_noise_multiplier

    acc.register_opacus()
    data = torch.utils.data.TensorDataset(torch.randn(200, 4), torch.randint(0, 2, (200,)))
    model = torch.nn.Linear(4, 2)
    engine = opacus.PrivacyEngine(accountant="damper")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=20),
        noise_multiplier=1.3,
        max_grad_norm=1.0,
    )
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert engine.accountant.history == [(1.3, 0.1, 20)] and len(engine.accountant) == 20
    known = acc.epsilon(acc.SelfComposed(acc.PoissonSampled(0.1, acc.Gaussian(1.3)), 20), 1e-5)
    assert engine.get_epsilon(1e-5) == known == acc.epsilon(acc.from_opacus(engine), 1e-5)
    low, high = engine.accountant.get_bounds(1e-5)
    prv = opacus.accountants.PRVAccountant()
    prv.history = list(engine.accountant.history)
    # Opacus gives the upper end of its own error of 0.01.
    assert low - 1e-3 <= prv.get_epsilon(1e-5) <= high + 0.02

    again = acc.register_opacus()()
    again.load_state_dict(engine.accountant.state_dict())
    assert again.get_epsilon(1e-5) == known
    noise = get_noise_multiplier(target_epsilon=2.0, target_delta=1e-5, sample_rate=0.1, steps=20, accountant="damper")
    found = acc.epsilon(acc.SelfComposed(acc.PoissonSampled(0.1, acc.Gaussian(noise)), 20), 1e-5)
    assert 1.98 <= found <= 2
