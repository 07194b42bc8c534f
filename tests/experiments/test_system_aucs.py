"""AUCs that proofs leave: of observers who see all rounds of a run, and of attacks on sums."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.experiments.run import proofs_of
from tests.conftest import SetupOf
from tests.fixtures.there import there

ROUNDS, BANDS, SIGMA = 12, 6, 2.0


def column_length(bands: int) -> float:
    """Length of a column of C: the square roots' series (1 - x)^(-1/2), cut after some terms."""
    return math.sqrt(sum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(bands)))


def test_later_sums_tell_more_of_a_click_whose_noise_is_correlated(setup_of: SetupOf) -> None:
    """Whoever sees the sums of all rounds tells a click by a Gaussian of the length of a column of C."""
    chain = ("clip:norm=1", f"correlated-gaussian:sigma={SIGMA},bands={BANDS}")
    setup = setup_of(defense=chain, clients=100, rounds=ROUNDS)
    found = {proof.view: proof for proof in proofs_of(setup.privacy)}["aggregate"]
    mu = 2.0 * column_length(BANDS) / SIGMA
    assert found.auc == pytest.approx(norm.cdf(mu / math.sqrt(2)), abs=1e-3)
    assert there(found.auc) > norm.cdf(2.0 / SIGMA / math.sqrt(2)) + 0.05, "one round alone tells less"


def test_attacked_sums_are_not_those_of_a_round(setup_of: SetupOf) -> None:
    privacy = setup_of(defense=("clip:norm=1", "correlated-gaussian:sigma=9"), clients=100).privacy
    known = [proof.of for proof in proofs_of(privacy, AttackSpec(view="aggregate", repeats=8))]
    assert known == 6 * ["all rounds"]
    assert [proof.of for proof in proofs_of(privacy, AttackSpec())] == [*known, "attacked"]
