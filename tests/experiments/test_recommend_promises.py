"""A search within a limit on what proofs leave to attacks: which epsilons it allows, and what breaks it."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import pytest

from foltr_audit.core.settings.defaults import SECURE_AGGREGATION
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.recommend.space import (
    CandidateAccountant,
    CandidatePoint,
    PrivacyLimits,
    SearchSpace,
)
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from tests.fixtures.audits import leave_out_law_tests
from tests.fixtures.command import answer

BASE = Spec.parse({"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 20}}, "")
SETUP = Runner().setup(BASE)
SUMS = ("--data", "synthetic:mq2007:300", "--clients", 100, "--rounds", 5, "--view", "aggregate")
"""Sixty queries, which can show that noise in sums costs little."""
STEP = 0.05
"""How far the largest epsilon that the search finds may be below the true one, as a share."""


@cache
def space(**limits: float | str) -> SearchSpace:
    return SearchSpace.of(CandidateAccountant(SETUP, PrivacyLimits(**limits)))  # type: ignore[arg-type]


def test_the_largest_epsilon_of_gaussian_noise_by_its_closed_form() -> None:
    """An AUC of A is mu = sqrt 2 Phi^-1(A), whose epsilon at delta 1e-5 has a formula."""
    searched = space(max_proven_auc=0.6).defenses["proven-gaussian"].eps
    exact = gaussian_epsilon(math.sqrt(2) * NormalDist().inv_cdf(0.6), 1e-5)
    assert searched is not None
    assert exact * (1 - STEP) < searched[1] < exact


def test_each_mechanism_has_a_largest_epsilon_of_its_own() -> None:
    found = {name: one.eps for name, one in space(max_proven_auc=0.6).defenses.items()}
    pure = math.log(0.6 / 0.4)
    for name, eps in found.items():
        assert eps is not None, f"{name}: noise is all that proofs rest on"
        assert eps[1] >= pure * (1 - STEP), "every (epsilon, delta) promises what the pure epsilon does"
    laplace, clicks = found["proven-laplace"], found["proven-click-rr"]
    assert laplace is not None
    assert clicks is not None
    assert laplace[1] < pure * (1 + STEP), "its worst pair differs in one coordinate"
    assert clicks[1] > 2 * laplace[1], "ten randomised clicks seldom all lie"


def test_both_limits_hold() -> None:
    limits = PrivacyLimits(max_eps=0.3, max_proven_auc=0.9)
    found = SearchSpace.of(CandidateAccountant(SETUP, limits)).defenses["proven-laplace"].eps
    assert found == (0.3 / 30.0, 0.3)


def test_what_has_no_proof_is_refused() -> None:
    refused = {one.point.alternative: one for one in space(max_proven_auc=0.6).refused}
    for name in ("none", SECURE_AGGREGATION, "proven-gamma-laplace"):
        assert refused[name].auc_proven == 1.0
        assert "AUC" not in refused[name].refused, "that nothing is proven says it"
    with_lists = space(max_proven_auc=0.6, view="individual+lists")
    assert "proven-laplace" in {one.point.alternative for one in with_lists.refused}


def test_a_candidate_above_the_limit_is_rejected_with_its_promise() -> None:
    asked = CandidateAccountant(SETUP, PrivacyLimits(max_proven_auc=0.6))
    above = asked.prove(CandidatePoint("proven-laplace", 1.2, 1.5))
    assert above.outcome == "refused"
    assert 0.6 < above.auc_proven < 1 / (1 + math.exp(-1.2))
    assert "above .600" in above.refused
    within = asked.prove(CandidatePoint("proven-laplace", 0.4, 1.5))
    assert not within.refused
    assert within.auc_proven <= 0.6


@pytest.mark.parametrize("limit", [0.5, 1.0, math.nan])
def test_limits_out_of_range(limit: float) -> None:
    with pytest.raises(UsageError, match=r"--max-proven-auc: .*; expected above 0\.5, below 1"):
        PrivacyLimits(max_proven_auc=limit)


def test_the_whole_command(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_law_tests(monkeypatch)
    found = answer("recommend --max-proven-auc 0.7 --candidates 4 --trials 40 --runs 1 --jobs 1", *SUMS)
    assert found["confirmed"]
    chosen, evidence = found["recommended"], found["evidence"]
    assert chosen["auc_proven"] <= 0.7
    said = f"no attack can infer a click of one interaction with an AUC above {chosen['auc_proven']:.3f}"
    assert said.replace(" 0.", " .") in found["sentence"]
    promised = {one["view"]: one["auc"] for one in evidence["ceilings"]}
    assert promised["aggregate"] == pytest.approx(chosen["auc_proven"])
    assert found["config"]["limits"]["max_eps"] == "inf"
