"""Power: mechanisms that are broken on purpose are refuted by trials, and their proof is withdrawn."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.conftest import SetupOf
from tests.fixtures.audits import CLIENT, Broken, ToyClip, ToyLaplace, findings

MESSAGES = {**CLIENT, "trials": 1500}
NO_CLICK = {**CLIENT, "units": ("interaction",), "canaries": ("data:no-click",), "trials": 500}


@pytest.mark.parametrize("seed", [1, 2, 3])
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
    setup_of: SetupOf, broken: Broken, clip_off: bool, game: dict[str, Any], seed: int
) -> None:
    wrong = setup_of(seed=seed, chain=(ToyClip(broken=clip_off), ToyLaplace(broken=broken)))
    mended = setup_of(seed=seed, chain=(ToyClip(), ToyLaplace()))
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


def test_the_worst_pair_shows_most_of_a_true_claim(setup_of: SetupOf) -> None:
    setup = setup_of(chain=(ToyClip(), ToyLaplace()))
    (found,) = findings(setup, **{**CLIENT, "trials": 100_000})
    assert found.exact == pytest.approx(1.2)
    assert 0.8 * 1.2 <= found.lower.epsilon <= 1.2
    assert found.verdict == "proven"
