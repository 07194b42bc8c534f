"""Mechanisms whose epsilon is known: measured <= true <= proven, and broken ones are refuted by trials."""

from __future__ import annotations

import math
from typing import Any

import pytest

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.simulation.setup import Setup
from tests.conftest import SetupOf
from tests.fixtures.audits import CLIENT, Broken, ToyClip, ToyLaplace, findings, leave_out_law_tests

MESSAGES = {**CLIENT, "trials": 1500}
NO_CLICK = {**CLIENT, "units": ("interaction",), "canaries": ("data:no-click",), "trials": 500}


@pytest.mark.parametrize(
    ("broken", "clip_off", "game"),
    [
        ("half noise", False, MESSAGES),
        ("half scale", False, MESSAGES),
        ("one noise for all coordinates", False, MESSAGES),
        ("one noise a round", False, MESSAGES),
        ("", True, MESSAGES),
        ("silent", False, NO_CLICK),
    ],
)
def test_what_is_broken_is_refuted(
    setup_of: SetupOf, broken: Broken, clip_off: bool, game: dict[str, Any]
) -> None:
    wrong = setup_of(chain=(ToyClip(broken=clip_off), ToyLaplace(broken=broken)))
    mended = setup_of(chain=(ToyClip(), ToyLaplace()))
    (refuted,) = findings(wrong, **game)
    (left_alone,) = findings(mended, **game)
    assert refuted.verdict == "refuted"
    assert refuted.upper.epsilon == math.inf, "the proof is of what the chain says it does"
    assert refuted.declared == "broken"
    assert refuted.declared_why in refuted.upper.how
    assert left_alone.verdict == "proven"
    assert left_alone.declared == "as declared"
    assert left_alone.lower.epsilon < 1.2
    for bound in left_alone.estimates:
        assert bound.epsilon < 1.4, bound.estimator


CLICK = {"units": ("click",), "canaries": ("data:worst",), "views": ("individual",)}
GAUSSIAN = "clip:norm=1+gaussian:eps={eps},delta=0.00001,sensitivity=2"
CASES: list[Any] = [
    pytest.param("clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3", CLIENT, 1.2, id="laplace-1.2"),
    pytest.param("clip:norm=1.5,ord=1+laplace:eps=3,sensitivity=3", CLIENT, 3.0, id="laplace-3"),
    pytest.param(GAUSSIAN.format(eps=0.5), CLIENT, 0.5, id="gaussian-0.5"),
    pytest.param(GAUSSIAN.format(eps=1), CLIENT, 1.0, id="gaussian-1"),
    pytest.param(GAUSSIAN.format(eps=4), CLIENT, 4.0, id="gaussian-4"),
    pytest.param("click-rr:eps=0.5", CLICK, 0.5, id="click-rr-0.5"),
    pytest.param("click-rr:eps=1.5", CLICK, 1.5, id="click-rr-1.5"),
]


def audited(setup_of: SetupOf, chain: str, game: dict[str, Any], trials: int) -> Any:
    setup: Setup = setup_of(chain=parse_chain([chain]), learner="fpdgd:pairs=all,normaliser=shown")
    assert isinstance(setup.chain, DefenseChain)
    with pytest.MonkeyPatch.context() as patch:
        leave_out_law_tests(patch)
        (found,) = findings(setup, **game, trials=trials)
    return found


@pytest.mark.parametrize(("chain", "game", "true"), CASES)
def test_forty_thousand_trials_show_most_of_it(
    setup_of: SetupOf, chain: str, game: dict[str, Any], true: float
) -> None:
    found = audited(setup_of, chain, game, 40_000)
    assert found.eps_claimed == pytest.approx(true)
    assert found.exact == pytest.approx(true, rel=1e-3)
    assert 0.8 * true <= found.lower.epsilon <= true
    assert true <= found.upper.epsilon * (1 + 1e-6)
    assert found.upper.epsilon == pytest.approx(true, rel=1e-3)
    assert found.verdict == "proven"
    assert found.lower.estimator == ("gaussian-dp" if "gaussian" in chain else "one-run")


@pytest.mark.parametrize(("chain", "game", "true"), CASES)
def test_a_claim_of_half_of_it_is_refuted(
    setup_of: SetupOf, chain: str, game: dict[str, Any], true: float
) -> None:
    """By the exact loss of the pair, whatever trials show."""
    found = audited(setup_of, chain, {**game, "claim": true / 2}, 1000)
    assert found.verdict in ("refuted", "false by exact loss")
    assert math.isfinite(found.lower.epsilon)
