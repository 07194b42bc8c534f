"""The exact loss of a pair of neighbouring inputs, against closed forms and enumeration."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from foltr_audit.auditing.canaries import Canary, LogCanary
from foltr_audit.auditing.session import AuditSession
from foltr_audit.auditing.trial_scores import ObservationNoise, exact_epsilon, log_ratio
from foltr_audit.core.plugins import Defense, ModelLearner
from foltr_audit.core.plugins.registry import make
from foltr_audit.privacy.events import (
    ClickRandomization,
    GridRounding,
    MessageAggregation,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
    PrivacyEvent,
)
from foltr_audit.privacy.noise import GammaShare, Gaussian
from foltr_audit.simulation.setup import learner_as
from tests.conftest import SetupOf
from tests.fixtures.audits import ToyClip, ToyLaplace, session

LAPLACE = GammaShare(n=1, scale=2.5)
BALL = NormBound(norm=1.0, ord=2, of="model")


def loss(played: AuditSession, canary: Canary, noise: ObservationNoise, delta: float = 0.0) -> float | None:
    return exact_epsilon(noise, played.games, canary, delta)


def worst(played: AuditSession, unit: str = "interaction") -> LogCanary:
    canary = played.canary("data:worst", unit)
    assert isinstance(canary, LogCanary)
    return canary


@pytest.mark.parametrize("messages", [1, 3])
def test_laplace_noise(setup_of: SetupOf, messages: int) -> None:
    played = session(setup_of(chain=(ToyClip(norm=10), ToyLaplace())), messages=messages, units=("query",))
    canary = worst(played)
    shift = np.subtract(*played.games.quiet(canary)[0])
    assert loss(played, canary, ObservationNoise(law=LAPLACE)) == pytest.approx(
        messages * np.abs(shift).sum() / 2.5
    )


@pytest.mark.parametrize("delta", [1e-6, 0.01])
def test_gaussian_noise(setup_of: SetupOf, delta: float) -> None:
    played = session(setup_of(), messages=2, units=("query",))
    canary = worst(played)
    shift = np.subtract(*played.games.quiet(canary)[0])
    epsilon = loss(played, canary, ObservationNoise(law=Gaussian(sigma=0.5)), delta)
    mu = math.sqrt(2) * np.linalg.norm(shift) / 0.5
    assert epsilon is not None
    # the privacy profile of two normals at distance mu, by integrating the positive part (not by its formula)
    x = np.linspace(-12 - mu, 12 + mu, 400_001)
    excess = np.maximum(stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x), 0.0)
    assert np.trapezoid(excess, x) == pytest.approx(delta, rel=1e-3)
    assert loss(played, canary, ObservationNoise(law=Gaussian(sigma=0.5))) == math.inf


def test_nothing_random(setup_of: SetupOf) -> None:
    played = session(setup_of())
    canary = worst(played)
    assert loss(played, canary, ObservationNoise(certain=True)) == math.inf
    same = LogCanary(
        name="x", unit="click", about="", queries=canary.queries[[0, 0]], clicks=canary.clicks[[0, 0]]
    )
    assert loss(played, same, ObservationNoise(certain=True)) == 0.0
    assert loss(played, same, ObservationNoise()) is None


@pytest.mark.parametrize("learner", ["fpdgd:pairs=all,normaliser=shown", "fpdgd"])
@pytest.mark.parametrize("unit", ["click", "interaction"])
def test_randomised_clicks_by_every_report(setup_of: SetupOf, learner: str, unit: str) -> None:
    setup, epsilon = setup_of(learner=learner), 0.8
    played = session(setup)
    fresh = played.fresh
    vars(fresh)["queries"] = fresh.queries[fresh.data.lengths[fresh.queries] <= 8]
    canary = worst(played, unit)
    found = loss(played, canary, ObservationNoise(reports=epsilon))
    data, query = fresh.data, int(canary.queries[0, 0])
    model = played.clients.parameters
    scores, starts = setup.ranker.scores(model[np.newaxis], data, np.array([query]))
    width = min(10, scores.size)
    shown = np.full((1, 10), -1)
    shown[0, :width] = np.argsort(-scores, kind="stable")[:width]
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    chances: list[dict[bytes, float]] = [{}, {}]
    for report in product([False, True], repeat=width):
        clicks = np.zeros((1, 10), dtype=bool)
        clicks[0, :width] = report
        after, _ = learner_as(setup.learner, ModelLearner).local_step(
            model[np.newaxis], data, np.array([query]), scores, starts, shown, clicks, setup.ranker
        )
        message = (after + 0.0).tobytes()
        for h in (0, 1):
            flips = int((canary.clicks[h, 0, :width] != report).sum())
            chance = keep ** (width - flips) * (1 - keep) ** flips
            chances[h][message] = chances[h].get(message, 0.0) + chance
    assert sum(chances[0].values()) == pytest.approx(1.0)
    ratios = [abs(math.log(chances[1][message] / chances[0][message])) for message in chances[0]]
    assert found == pytest.approx(max(ratios), rel=1e-9)
    differ = int((canary.clicks[0] != canary.clicks[1]).sum())
    assert max(ratios) <= differ * epsilon + 1e-9


NOISE, CLICKS, ROUNDING = NoiseAddition(law=LAPLACE), ClickRandomization(epsilon=1.0), GridRounding(step=0.1)
NOTHING = ObservationNoise(certain=True)


@pytest.mark.parametrize(
    ("events", "summed", "expected"),
    [
        ((), 1, NOTHING),
        ((BALL, MessageAggregation(at_least=3)), 5, NOTHING),
        ((BALL, NOISE), 1, ObservationNoise(law=LAPLACE)),
        ((BALL, NOISE), 4, ObservationNoise(law=GammaShare(n=1, scale=2.5, count=4))),
        ((BALL, NOISE, MessageAggregation(at_least=2)), 4, ObservationNoise(law=LAPLACE.summed(4))),
        ((NOISE, NOISE), 1, ObservationNoise()),
        ((NOISE, BALL), 1, ObservationNoise()),
        ((OpaqueChange(mechanism="?"), NOISE), 1, ObservationNoise()),
        ((NOISE, NormScaling(factor=2.0, of="update")), 1, ObservationNoise()),
        ((CLICKS, BALL), 1, ObservationNoise(reports=1.0)),
        ((CLICKS, NOISE), 1, ObservationNoise()),
        ((BALL, NOISE, ROUNDING), 1, ObservationNoise(law=LAPLACE, rounded=True)),
        ((BALL, ROUNDING), 1, ObservationNoise()),
    ],
)
def test_what_stands_between_messages_and_observer(
    events: tuple[PrivacyEvent, ...], summed: int, expected: ObservationNoise
) -> None:
    acts = [(make(Defense, "none"), event) for event in events]
    assert ObservationNoise.of(acts, summed, 1) == expected


def test_the_likelihood_ratio_is_that_of_the_densities() -> None:
    rng = np.random.default_rng(2)
    seen, means = rng.normal(size=(50, 3)), rng.normal(size=(2, 3))
    by_hand = (stats.laplace.logpdf(seen, means[1], 2.5) - stats.laplace.logpdf(seen, means[0], 2.5)).sum(
        axis=1
    )
    np.testing.assert_allclose(log_ratio(LAPLACE, seen, means), by_hand, atol=1e-12)
