"""The facts of Flower's LocalDpMod: the noise that follows from them, and what the clip makes of its claim.

Right numbers come from the definition of differential privacy of normal noise, solved by bisection.
"""

from __future__ import annotations

import math

import pytest
from scipy import optimize, stats

from foltr_audit.core.declared.checks import DeclarationFinding, findings
from foltr_audit.privacy.events import NoiseAddition, NormBound
from foltr_audit.trace.declared_header import declared_by
from foltr_audit.trace.header import Fact
from foltr_audit.trace.local_noise import LocalNoise
from tests.fixtures.there import there
from tests.trace.test_declared_header import header

HONEST: dict[str, Fact] = {"local_dp_clip": 0.05, "claimed_sensitivity": 0.1}
HONEST |= {"local_dp_eps": 1.0, "local_dp_delta": 1e-5}


def found_with(**changes: Fact) -> dict[str, DeclarationFinding]:
    """What is found in a header with these facts, by check."""
    return {found.check: found for found in findings(declared_by(header(**{**HONEST, **changes}), 50))}


def epsilon_over(distance: float, sigma: float, delta: float) -> float:
    """The epsilon of normal noise over an L2 distance: its privacy profile, solved for epsilon."""
    mu = distance / sigma

    def over(eps: float) -> float:
        upper = stats.norm.cdf(mu / 2 - eps / mu)
        return float(upper - math.exp(eps) * stats.norm.cdf(-mu / 2 - eps / mu)) - delta

    return float(optimize.brentq(over, 0.0, 200.0, xtol=1e-12))


def test_a_sensitivity_of_twice_the_clip_is_honest() -> None:
    assert found_with() == {}


@pytest.mark.parametrize("clip", [0.1, 0.2, 0.5])
def test_a_clip_that_allows_more_than_the_sensitivity(clip: float) -> None:
    found = found_with(local_dp_clip=clip)
    assert found["sensitivity"].severity == "error"
    assert found["sensitivity"].right == pytest.approx(2 * clip)
    sigma = 0.1 * math.sqrt(2 * math.log(1.25e5))
    follows = epsilon_over(2 * clip, sigma, 1e-5)
    assert f"epsilon {follows:.3g} at delta 1e-05, not 1" in found["sensitivity"].follows
    assert found_with(local_dp_clip=clip, claimed_sensitivity=2 * clip) == {}


def test_the_classical_formula_beyond_epsilon_1() -> None:
    assert set(found_with(local_dp_eps=5.0)) == {"noise scale"}


def test_a_sensitivity_without_a_clip() -> None:
    facts = {name: value for name, value in HONEST.items() if name != "local_dp_clip"}
    (found,) = findings(declared_by(header(**facts), 50))
    assert found.check == "sensitivity"
    assert "nothing that is declared bounds the messages" in found.follows


def test_steps_that_the_header_states_itself_get_the_numbers() -> None:
    sigma = 0.05 * math.sqrt(2 * math.log(1.25e5))
    events = ["bounded:of=update,norm=0.05,ord=2", f"noised:gaussian:sigma={sigma!r}"]
    system = declared_by(header(**{**HONEST, "claimed_sensitivity": 0.05, "events": events}), 50)
    bound, noise = system.steps
    assert isinstance(bound.event, NormBound)
    assert isinstance(noise.event, NoiseAddition)
    assert (noise.sensitivity, noise.epsilon, noise.delta) == (0.05, 1.0, 1e-5)
    assert {found.check for found in findings(system)} == {"sensitivity", "proof"}


def test_a_classical_formula_with_room_for_a_slightly_wider_clip() -> None:
    found = found_with(local_dp_clip=0.06)["sensitivity"]
    assert found.severity == "warning"
    assert epsilon_over(0.12, 0.1 * math.sqrt(2 * math.log(1.25e5)), 1e-5) < 1
    assert "the noise is enough all the same" in found.follows


def test_noise_of_another_formula_is_compared_by_its_sensitivity_alone() -> None:
    facts: dict[str, Fact] = {"local_dp_clip": 0.2, "claimed_sensitivity": 0.1, "noise": "gaussian:sigma=1"}
    (found,) = findings(declared_by(header(**facts), 50))
    assert found.check == "sensitivity"
    assert found.right == pytest.approx(0.4)
    assert "for a client the noise is 4 times too small" in found.follows
    assert findings(declared_by(header(**{**facts, "local_dp_clip": 0.05}), 50)) == ()


@pytest.mark.parametrize("delta", [0.0, 1.0, 2.0, True])
def test_a_delta_that_is_none(delta: float) -> None:
    local = there(LocalNoise.of({**HONEST, "local_dp_delta": delta}))
    assert (local.sigma, local.claims) == (None, ())
    assert LocalNoise.of({"local_dp_clip": 0.1, "local_dp_eps": 1.0, "local_dp_delta": 1e-5}) is None
