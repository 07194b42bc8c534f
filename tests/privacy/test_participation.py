"""Runs in which a client takes part in some rounds: against enumeration, other accounting, and cohorts."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.privacy.accounting import AccountingContext, SumMembers, run_bound, upper_bound
from foltr_audit.privacy.events import ClickRandomization, NoiseAddition, NormBound, PrivacyEvent
from foltr_audit.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon
from foltr_audit.privacy.loss.composition import (
    gaussian_sometimes,
    laplace_over,
    laplace_sometimes,
    participation,
    pure_over,
    pure_sometimes,
)
from foltr_audit.privacy.loss.losses import GaussianLoss, LaplaceLoss, PrivacyLoss, PureLoss
from foltr_audit.privacy.noise import GammaShare, Gaussian
from foltr_audit.simulation.federation import Federation
from tests.conftest import SetupOf

_CUT = 1e-4  # relative: a millionth of delta may be spent on runs with very many rounds


# --- against enumeration ----------------------------------------------------------------------------------


def delta_of_runs(once: float, rounds: int, clients: int, cohort: int, eps: float) -> float:
    """The exact delta of randomised response over all cohorts and answers, as the server sees them.

    Client 0 answers truly with probability e^once / (1 + e^once), in the rounds in which it takes part.
    """
    true = math.exp(once) / (1 + math.exp(once))
    cohorts = list(combinations(range(clients), cohort))
    total = 0.0
    for seen in product(cohorts, repeat=rounds):
        here = sum(0 in each for each in seen)
        chance = len(cohorts) ** -rounds
        for answers in product((True, False), repeat=here):
            one = math.prod(true if answer else 1 - true for answer in answers)
            other = math.prod(1 - true if answer else true for answer in answers)
            total += chance * max(0.0, one - math.exp(eps) * other)
    return total


@pytest.mark.parametrize(("rounds", "clients", "cohort"), [(1, 3, 1), (4, 3, 1), (4, 3, 2), (3, 4, 2)])
@pytest.mark.parametrize("delta", [0.02, 0.2])
def test_randomised_answers_over_all_cohorts(rounds: int, clients: int, cohort: int, delta: float) -> None:
    found = pure_sometimes(1.5, 1, rounds, cohort / clients, delta)
    assert delta_of_runs(1.5, rounds, clients, cohort, found) <= delta
    if found > 0:
        less = delta_of_runs(1.5, rounds, clients, cohort, found * (1 - 1e-3) - 1e-6)
        assert less > delta * (1 - _CUT), "no smaller epsilon holds"
    if found > 0:
        once = min(1.0, cohort / clients * 1.2)
        assert pure_sometimes(1.5, 1, rounds, once, delta) > found, "a wrong share would be noticed"


# --- against other accounting -----------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "share"), [(10, 0.3), (40, 0.05)])
@pytest.mark.parametrize("mu", [0.3, 1.5])
def test_gaussian_noise_against_the_convolution_of_losses(rounds: int, share: float, mu: float) -> None:
    width = 2e-3
    once = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=width)
    run = once.compute_mixture(pld.identity(width), share).self_compose(rounds)
    for delta in (1e-2, 1e-5):
        found = gaussian_sometimes(mu, rounds, share, delta)
        assert found == pytest.approx(run.get_epsilon_for_delta(delta), rel=2e-3, abs=2 * width)


@pytest.mark.parametrize(("rounds", "share"), [(6, 0.4), (30, 0.1)])
def test_laplace_noise_against_the_mean_over_numbers_of_rounds(rounds: int, share: float) -> None:
    """A convolution of all rounds against one for each number of rounds."""
    once, width = 0.8, 0.8 / 500
    loss = pld.from_laplace_mechanism(1.0, sensitivity=once, value_discretization_interval=width)
    for delta in (1e-2, 1e-5):
        found = laplace_sometimes(once, rounds, share, delta)
        spent = sum(
            stats.binom.pmf(count, rounds, share) * loss.self_compose(count).get_delta_for_epsilon(found)
            for count in range(1, rounds + 1)
        )
        assert spent == pytest.approx(delta, rel=2e-3)


def test_large_losses_are_composed_without_a_warning() -> None:
    """A run of so much loss that the probabilities of its largest losses vanish in float64."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = laplace_sometimes(32.0, 1000, 0.5, 1e-5)
    assert 15_000 < found <= 32_000


def test_more_rounds_than_a_distribution_can_hold() -> None:
    """Then the loss is that of any mechanism of as large an epsilon."""
    found = laplace_sometimes(1e-3, 10**9, 0.1, 1e-5)
    assert found == laplace_over(1e-3, 10**9, 1e-5) == pure_over(1e-3, 10**9, 1e-5)


def test_one_round_by_its_closed_form() -> None:
    """A round in which a client takes part with probability q has q times the delta."""
    share, delta = 0.2, 1e-3
    assert gaussian_sometimes(1.0, 1, share, delta) == pytest.approx(
        gaussian_epsilon(1.0, delta / share), rel=1e-4
    )
    assert laplace_sometimes(2.0, 1, share, delta) == pytest.approx(
        2.0 + 2 * math.log1p(-delta / share), rel=1e-3
    )


# --- order relations --------------------------------------------------------------------------------------

LOSSES = st.one_of(
    st.floats(0.01, 3.0).map(PureLoss),
    st.floats(0.05, 2.0).map(LaplaceLoss),
    st.floats(0.01, 3.0).map(GaussianLoss),
)


@settings(max_examples=60)
@given(
    loss=LOSSES,
    rounds=st.integers(1, 60),
    share=st.floats(0.005, 1.0),
    delta=st.sampled_from([1e-9, 1e-5, 1e-2]),
)
def test_between_any_number_of_rounds_and_all(
    loss: PrivacyLoss, rounds: int, share: float, delta: float
) -> None:
    """With probability P(K >= k) the client takes part in k rounds at least."""
    found = loss.epsilon_sometimes(rounds, delta, share)
    assert found <= loss.epsilon(rounds, delta, 1.0) * (1 + _CUT) + 1e-6
    for count in {1, math.ceil(share * rounds), rounds}:
        likely = float(stats.binom.sf(count - 1, rounds, share))
        if likely > 10 * delta:
            assert found >= loss.epsilon(count, delta / likely, 1.0) * (1 - 1e-3) - 1e-6
    if rounds > 1:
        assert loss.epsilon_sometimes(rounds - 1, delta, share) <= found * (1 + _CUT) + 1e-6
    more = loss.epsilon_sometimes(rounds, delta, min(1.0, 1.5 * share))
    assert more >= found * (1 - _CUT) - 1e-6


def test_without_a_delta_the_worst_number_of_rounds_counts() -> None:
    assert pure_sometimes(0.5, 3, 20, 0.1, 0.0) == pytest.approx(pure_over(0.5, 60, 0.0)) == 30.0
    assert laplace_sometimes(0.5, 20, 0.1, 0.0) == pytest.approx(laplace_over(0.5, 20, 0.0)) == 10.0
    assert math.isinf(GaussianLoss(1.0).epsilon_sometimes(20, 0.0, 0.1))
    assert GaussianLoss(0.0).epsilon_sometimes(20, 0.0, 0.1) == 0.0


@pytest.mark.parametrize("rounds", [5_000, 1_000_000])
def test_long_runs_err_on_the_safe_side_by_little(rounds: int) -> None:
    """The law is coarser than the binomial one, and never smaller."""
    law = participation(rounds, 0.3, 1e-5)
    counts, chances = np.array(law).T
    assert len(law) <= 210
    below = stats.binom.cdf(counts, rounds, 0.3)
    assert np.cumsum(chances) == pytest.approx(below, rel=1e-9)
    mean = float(counts @ chances)
    assert 0.3 * rounds <= mean <= 0.3 * rounds * 1.01
    sure = gaussian_sometimes(0.01, rounds, 0.3, 1e-5)
    around = gaussian_epsilon(0.01 * math.sqrt(0.3 * rounds), 1e-5)
    assert around <= sure <= 1.15 * around
    assert gaussian_delta(0.01 * math.sqrt(0.3 * rounds), sure) <= 1e-5


# --- bounds of chains --------------------------------------------------------------------------------------

RUN = AccountingContext(
    view="individual",
    unit="client",
    parameters=3,
    members=SumMembers(cohort=50),
    rounds=30,
    sampled=0.1,
    delta=1e-5,
)
NOISY: list[list[PrivacyEvent]] = [
    [NormBound(norm=1.0, ord=1, of="model"), NoiseAddition(law=GammaShare(n=1, scale=4.0))],
    [NormBound(norm=1.0, ord=2, of="model"), NoiseAddition(law=Gaussian(sigma=4.0))],
]


@pytest.mark.parametrize("events", NOISY)
def test_who_knows_more_learns_more(events: list[PrivacyEvent]) -> None:
    secret, known, always = (
        upper_bound(events, replace(RUN, cohorts=cohorts)) for cohorts in ("secret", "known", "any")
    )
    assert secret.epsilon < known.epsilon < 0.7 * always.epsilon
    assert "10 % of the clients, known to the observer" in known.how
    assert "secret sample of 10 %" in secret.how
    both = run_bound(events, replace(RUN, cohorts="known"))
    assert (both.upper, both.always) == (known, always)
    assert (both.unit, both.rounds, both.sampled) == ("client", 30, 0.1)
    everybody = run_bound(events, replace(RUN, cohorts="known", sampled=1.0))
    assert everybody.upper == everybody.always == always


def test_where_a_client_is_known_its_clicks_are_protected() -> None:
    clicks: list[PrivacyEvent] = [ClickRandomization(epsilon=0.2)]
    there = replace(RUN, cohorts="known")
    for view in ("individual", "individual+lists"):
        found = run_bound(clicks, replace(there, view=view))
        assert found.unit == "query"
        assert found.upper.epsilon == pytest.approx(pure_sometimes(0.2, 10, 30, 0.1, 1e-5))
        assert found.always.epsilon == pytest.approx(pure_over(0.2, 300, 1e-5))
    assert run_bound(NOISY[0], replace(there, view="individual+lists")).unit == "query"
    assert run_bound(NOISY[0], there).unit == "client"
    nothing = run_bound([], there)
    assert (nothing.unit, nothing.upper.epsilon) == ("client", math.inf)


@pytest.mark.parametrize("events", NOISY)
def test_one_round_and_one_interaction_are_as_without_sampling(events: list[PrivacyEvent]) -> None:
    """An interaction is in a round in which its client takes part."""
    for changes in ({"rounds": 1}, {"unit": "interaction"}, {"unit": "click"}):
        there = replace(RUN, **changes)
        assert upper_bound(events, replace(there, cohorts="known")) == upper_bound(events, there)


def test_pure_bounds_and_randomised_clicks_over_a_run() -> None:
    """A pure loss at delta 0 is that of all rounds, whatever is known."""
    pure = replace(RUN, cohorts="known", delta=0.0)
    assert upper_bound(NOISY[0], pure).epsilon == pytest.approx(30 * 0.5)
    clicks = [ClickRandomization(epsilon=0.2)]
    query = upper_bound(clicks, replace(RUN, unit="query", cohorts="known"))
    assert query.epsilon == pytest.approx(pure_sometimes(0.2, 10, 30, 0.1, 1e-5))


# --- cohorts as they are drawn ----------------------------------------------------------------------------


def test_with_a_separation_a_client_has_its_turns(setup_of: SetupOf) -> None:
    """No client takes part more often than the law of turns says: one-sided tests at 1e-7."""
    setup = setup_of(clients=20, cohort=5, separation=3, rounds=1500)
    there = setup.privacy.lifetime(setup.privacy.situation("individual", "interaction"))
    assert (there.unit, there.rounds, there.touched, there.separation) == ("client", 1500, 500, 3)
    assert there.sampled == 5 / 6, "the smallest third of twenty clients has six"
    assert there.delta == 1e-5
    federation = Federation(setup)
    counts = np.zeros(20, dtype=np.int64)
    for round_ in range(1500):
        counts[federation.setup.cohort(round_)] += 1
    for count in counts.tolist():
        assert stats.binomtest(count, 500, 5 / 6, alternative="greater").pvalue > 1e-7
    assert stats.binomtest(int(counts.max()), 500, 0.7, alternative="greater").pvalue < 1e-7


@pytest.mark.parametrize("epsilon", [501.0, 1e7, 1e12])
def test_huge_losses_are_those_of_the_pure_epsilon(epsilon: float) -> None:
    """No grid holds them; the bound stays finite, and no more than all rounds together."""
    assert 0 < laplace_over(epsilon, 20, 1e-5) <= 20 * epsilon
    assert 0 < laplace_sometimes(epsilon, 20, 0.1, 1e-5) <= laplace_over(epsilon, 20, 1e-5)
