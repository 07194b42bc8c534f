"""Correlated noise on sums: its law over rounds, what it proves, resumed runs, and audits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.defenses.correlated_gaussian import CorrelatedGaussianNoise
from scipy import linalg

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.privacy.accounting import UpperBound, upper_bound
from foltr_audit.privacy.events import (
    CorrelatedNoise,
    GridRounding,
    MessageAggregation,
    NoiseAddition,
    NormBound,
    OpaqueChange,
)
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.privacy.noise.gaussian import (
    noise_length,
    participation_sensitivity,
    square_root_coefficients,
)
from foltr_audit.simulation.federation import Federation
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES, accounting, context

ROUNDS, P = 12, 3
CLIP = NormBound(norm=1.5, ord=2, of="update")
DELTA = 1e-5


def noise(bands: int, *, rounds: int = ROUNDS, seed: int = 1, sigma: float = 2.0, size: int = P) -> Floats:
    """The noise of each round on a sum, float64 (T, P); the average is over four messages."""
    link, weights = CorrelatedGaussianNoise(sigma=sigma, bands=bands), np.full(4, 0.25)
    rows = [
        4.0 * link.on_aggregate(np.zeros(size), np.zeros((4, size)), weights, at_round(round_, seed))
        for round_ in range(rounds)
    ]
    return np.stack(rows)


def at_round(round_: int, seed: int = 1, **changes: Any) -> RoundContext:
    return replace(context([0, 1, 2, 3], seed=seed, round_=round_), **changes)


def bound(*events: PrivacyEvent, **values: Any) -> UpperBound:
    given = {"view": "aggregate", "unit": "client", "parameters": P, "shares": 100, "delta": DELTA, **values}
    return upper_bound(events, accounting(**given))


# --- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bands", [2, 5, 12, 40])
def test_its_covariance_over_rounds_is_that_of_the_matrix(bands: int) -> None:
    """Of 20,000 coordinates: each entry of `C^-1 C^-T` within 6 standard errors, 78 different entries."""
    count = 20_000
    rows = noise(bands, size=count, sigma=1.0)
    column = np.zeros(ROUNDS)
    column[:bands] = square_root_coefficients(bands)[:ROUNDS]
    inverse = np.linalg.inv(linalg.toeplitz(column, np.zeros(ROUNDS)))
    expected = inverse @ inverse.T
    deviations = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / count)
    assert (np.abs(rows @ rows.T / count - expected) < 6.0 * deviations).all()
    assert noise_length(bands, ROUNDS) == pytest.approx(math.sqrt(expected[-1, -1]), rel=1e-12)
    assert np.abs(rows[1] @ rows[0] / count) > 6.0 * deviations[0, 0], "rounds would seem independent"


def test_one_band_is_independent_noise() -> None:
    rows = noise(1, size=2000)
    assert abs(float(np.corrcoef(rows[0], rows[1])[0, 1])) < 6.0 / math.sqrt(2000)


def test_a_round_has_the_same_bytes_in_any_order() -> None:
    link, weights = CorrelatedGaussianNoise(sigma=1.0, bands=4), np.ones(1)
    straight = noise(4, sigma=1.0)

    def again(round_: int, seed: int = 1) -> Floats:
        return link.on_aggregate(np.zeros(P), np.zeros((1, P)), weights, at_round(round_, seed))

    for round_ in (7, 3, 8, 8, 0, 11, 2):
        assert again(round_).tobytes() == straight[round_].tobytes()
        assert again(round_, seed=2).tobytes() != straight[round_].tobytes()


def test_noise_is_scaled_by_the_largest_weight() -> None:
    link = CorrelatedGaussianNoise(sigma=1.0, bands=2)
    weights = [np.array([0.25, 0.75]), np.array([0.5, 0.5])]
    rows = [link.on_aggregate(np.zeros(P), np.zeros((2, P)), each, at_round(1)) for each in weights]
    np.testing.assert_allclose(rows[0] / 0.75, rows[1] / 0.5, rtol=1e-6)


def test_bands_follow_the_separation() -> None:
    link = CorrelatedGaussianNoise(sigma=1.0)
    assert link.events(at_round(0)) == (CorrelatedNoise(sigma=1.0, bands=1),)
    assert link.events(at_round(0, separation=7)) == (CorrelatedNoise(sigma=1.0, bands=7),)


# --- what is proven -------------------------------------------------------------------------------


def mu_bound(mu: float) -> float:
    return gaussian_epsilon(mu, DELTA)


def test_one_round_proves_as_much_as_independent_noise() -> None:
    for bands in (1, 10):
        found = bound(CLIP, CorrelatedNoise(sigma=6.0, bands=bands))
        assert found.epsilon == pytest.approx(mu_bound(0.5), rel=1e-12)


@pytest.mark.parametrize(("bands", "separation"), [(1, 1), (10, 10), (10, 25), (5, 1), (100, 100)])
def test_a_whole_run(bands: int, separation: int) -> None:
    times = math.ceil(100 / separation)
    found = bound(CLIP, CorrelatedNoise(sigma=60.0, bands=bands), rounds=100, separation=separation)
    length = participation_sensitivity(bands, 100, times, separation)
    assert found.epsilon == pytest.approx(mu_bound(3.0 * length / 60.0), rel=1e-12)
    fewer = bound(
        CLIP, CorrelatedNoise(sigma=60.0, bands=bands), rounds=100, separation=separation, participations=1
    )
    assert fewer.epsilon <= found.epsilon


def test_a_click_is_part_of_one_round_but_is_seen_in_later_ones() -> None:
    event = CorrelatedNoise(sigma=6.0, bands=10)
    one, run = (bound(CLIP, event, unit="click", rounds=rounds) for rounds in (1, 100))
    length = float(np.linalg.norm(square_root_coefficients(10)))
    assert one.epsilon == pytest.approx(mu_bound(0.5), rel=1e-12)
    assert run.epsilon == pytest.approx(mu_bound(0.5 * length), rel=1e-12)


@pytest.mark.parametrize("view", ["individual", "colluding", "individual+lists", "colluding+lists"])
@pytest.mark.parametrize("secure", [(), (MessageAggregation(at_least=60),)])
def test_nothing_is_proven_against_who_sees_more(view: str, secure: tuple[PrivacyEvent, ...]) -> None:
    found = bound(CLIP, *secure, CorrelatedNoise(sigma=1e6), view=view, unit="interaction")
    assert math.isinf(found.epsilon)
    assert "--view aggregate" in found.how


def test_lists_that_follow_clicks_reveal_them() -> None:
    event, more = CorrelatedNoise(sigma=6.0), {"view": "aggregate+lists", "unit": "interaction"}
    assert math.isinf(bound(CLIP, event, **more, interactions=4).epsilon)
    assert bound(CLIP, event, **more).epsilon == pytest.approx(mu_bound(0.5))
    assert math.isinf(bound(CLIP, event, **{**more, "unit": "client"}).epsilon)


def test_what_bounds_the_messages_when_they_are_summed() -> None:
    event, summed = CorrelatedNoise(sigma=6.0), MessageAggregation(at_least=60)
    assert math.isinf(bound(event).epsilon)
    assert "nothing bounds" in bound(event).how
    coarse = bound(CLIP, GridRounding(step=0.5, nearest=True), summed, event)
    assert coarse.epsilon == pytest.approx(mu_bound((3.0 + 0.5 * math.sqrt(P)) / 6.0))
    changed = bound(CLIP, summed, OpaqueChange(mechanism="median"), event)
    assert math.isinf(changed.epsilon)
    assert "median" in changed.how


def test_lost_messages_and_weights_change_nothing() -> None:
    event = CorrelatedNoise(sigma=6.0, bands=3)
    plain = bound(CLIP, event, rounds=9, separation=3).epsilon
    assert bound(CLIP, event, rounds=9, separation=3, arriving=1).epsilon == plain
    assert bound(CLIP, event, rounds=9, separation=3, largest_weight=5.0).epsilon == plain


@pytest.mark.parametrize("separation", [1, 4, 10])
def test_a_secret_sample_amplifies_each_turn(separation: int) -> None:
    """Noise that is independent from turn to turn proves what as much noise on messages would."""
    length = participation_sensitivity(separation, 40, 1, 40)
    sampled = {"sampled": 0.1, "cohorts": "secret"}
    event = CorrelatedNoise(sigma=6.0 * length, bands=separation)
    law = NoiseAddition(law=Gaussian(sigma=6.0 / math.sqrt(100)))
    turns = 40 // separation
    found = bound(CLIP, event, rounds=40, separation=separation, **sampled)
    assert found.epsilon == pytest.approx(bound(CLIP, law, rounds=turns, **sampled).epsilon, rel=1e-9)
    assert "amplified" in found.how
    assert found.epsilon < 0.8 * bound(CLIP, event, rounds=40, separation=separation).epsilon
    few = {"rounds": 40, "separation": separation, "participations": 2}
    assert bound(CLIP, event, **few, **sampled).epsilon == bound(CLIP, event, **few).epsilon
    wider = CorrelatedNoise(sigma=6.0 * length, bands=separation + 1)
    values = {"rounds": 40, "separation": separation}
    assert bound(CLIP, wider, **values, **sampled).epsilon == bound(CLIP, wider, **values).epsilon


class BoundOnTheSum(Defense):
    """Says of the sum that it bounds messages, and adds noise in a stage of messages."""

    name: ClassVar[str] = "bound-on-the-sum"
    works_on_sums: ClassVar[bool] = True

    def on_aggregate(self, aggregate: Floats, *given: object) -> Floats:
        return aggregate.copy()

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (NormBound(norm=1e-6, ord=2, of="update"),)


class SumNoiseOnMessages(Defense):
    """Declares noise on sums, but acts on messages."""

    name: ClassVar[str] = "sum-noise-on-messages"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models.copy()

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (CorrelatedNoise(sigma=6.0),)


def test_events_hold_in_their_own_stage_only() -> None:
    noise_on_sum = CorrelatedGaussianNoise(sigma=6.0)
    clip = parse_chain(["clip:norm=1.5,of=update"])
    for chain in ((*clip, BoundOnTheSum(), noise_on_sum), (*clip, SumNoiseOnMessages())):
        assert math.isinf(bound(*DefenseChain(chain).events(at_round(0))).epsilon)
    assert bound(*DefenseChain((*clip, noise_on_sum)).events(at_round(0))).epsilon < 3.0


# --- in an experiment -----------------------------------------------------------------------------


def test_a_resumed_run_has_the_same_bytes(setup_of: SetupOf) -> None:
    defense = ("clip:norm=1,of=update", "secure-aggregation", "correlated-gaussian:sigma=0.5,bands=3")
    setup = setup_of(rounds=6, clients=8, defense=defense, message="update")
    whole = [played.aggregate for played in Federation(setup).rounds(np.zeros(FEATURES))]
    later = Federation(setup).rounds(whole[2], first=3)
    assert [played.aggregate.tobytes() for played in later] == [each.tobytes() for each in whole[3:]]
    plain = setup_of(rounds=1, clients=8, defense=defense[:2], message="update")
    (first,) = Federation(plain).rounds(np.zeros(FEATURES))
    assert not np.array_equal(first.aggregate, whole[0])
