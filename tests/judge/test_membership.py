"""The judge of membership: the truth is out of reach, metrics, and attacks where the best test is known."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from foltr_audit.inference.membership_attacks import (
    LikelihoodRatioAttack,
    MembershipAttack,
    RelativeAttack,
    update_evidence,
)
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.membership import FederationEvidence, membership_metrics
from foltr_audit.judge.scoring import ScoreRanking
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats
from tests.fixtures.there import there

ATTACKS: tuple[MembershipAttack, ...] = (
    LikelihoodRatioAttack(),
    LikelihoodRatioAttack(offline=True),
    RelativeAttack(),
    RelativeAttack(offline=True),
)
K, MEMBERS, P, NOISE = 500, 10, 6, 0.05
"""The toy: K federations of 10 members among 20 candidates, whose sum of P numbers is released with noise."""


def halves(rng: np.random.Generator) -> Bools:
    order = rng.permuted(np.tile(np.arange(2 * MEMBERS), (K, 1)), axis=1)
    return np.asarray(order < MEMBERS)


@cache
def toy(noise: float, seed: int = 1) -> tuple[FederationEvidence, float]:
    """The evidence of the toy, and the mean over candidates of the distance d between the two Gaussians.

    A candidate's value is the mean of the others, up to noise of known covariance, plus its own share.
    """
    rng = np.random.default_rng(seed)
    clients = rng.normal(size=(2 * MEMBERS + 100, P)) / MEMBERS
    candidates = clients[: 2 * MEMBERS]
    members = halves(rng)
    released = members @ candidates + noise * rng.normal(size=(K, P))
    baseline = candidates.mean(axis=0)
    found = update_evidence(released[:, np.newaxis], clients[:, np.newaxis], baseline[np.newaxis])
    shift = candidates - baseline
    # Sampling n of 2 n without replacement has the variance of fair coins times N / (N - 1).
    covariance = shift.T @ shift * 0.25 * 2 * MEMBERS / (2 * MEMBERS - 1) + noise**2 * np.eye(P)
    apart = shift * 2 * MEMBERS / (2 * MEMBERS - 1)  # in minus out: someone else takes the place
    within = covariance[np.newaxis] - 0.25 * apart[:, :, np.newaxis] * apart[:, np.newaxis]
    d = np.sqrt(np.einsum("np,npq,nq->n", apart, np.linalg.inv(within), apart))
    own, others = found[:, : 2 * MEMBERS], found[:, 2 * MEMBERS :]
    evidence = FederationEvidence(members=members, candidates=own, others=others)
    return evidence, float(d.mean())


@cache
def scores_of(attack: MembershipAttack, noise: float) -> Floats:
    return toy(noise)[0].scores(attack)


def auc_of(scores: Floats, members: Bools) -> float:
    return float(roc_auc_score(members.ravel(), scores.ravel()))


# --- the best test is known -----------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.2, 1.0, 3.0])
def test_lira_reaches_the_roc_curve_of_the_best_test_of_a_gaussian_mean(noise: float) -> None:
    """AUC Phi(d / sqrt 2) and TPR Phi(d - z) within .05.

    10,000 answers in 500 independent federations: a share has a standard deviation of at most
    sqrt(.25 / 500) = .022 if all answers of a federation were one, and .005 if they were independent; in the
    toy they are nearly so. Estimated means and variances and the pooling of candidates cost less than .02.
    """
    evidence, d = toy(noise)
    scores = scores_of(LikelihoodRatioAttack(), noise)
    assert auc_of(scores, evidence.members) == pytest.approx(norm.cdf(d / np.sqrt(2)), abs=0.05)
    rates, powers, _ = roc_curve(evidence.members.ravel(), scores.ravel())
    for rate in (0.1, 0.3, 0.5):
        assert np.interp(rate, rates, powers) == pytest.approx(norm.cdf(d - norm.isf(rate)), abs=0.05)


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_members_are_told_without_noise_and_hidden_by_much_noise(attack: MembershipAttack) -> None:
    """Evidence that ignores the members: AUC within .5 +- .11, five standard deviations of 500 trials."""
    told, nothing = (auc_of(scores_of(attack, noise), toy(noise)[0].members) for noise in (NOISE, 1e6))
    assert told > 0.7
    assert nothing == pytest.approx(0.5, abs=0.11)


# --- the truth ------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_the_members_of_the_attacked_federation_are_out_of_reach(attack: MembershipAttack) -> None:
    evidence, _ = toy(NOISE)
    before = scores_of(attack, NOISE)
    for number in (0, K - 1):
        members = evidence.members.copy()
        members[number] = ~members[number]
        other = FederationEvidence(members=members, candidates=evidence.candidates, others=evidence.others)
        np.testing.assert_array_equal(attack.scores(other.attacked(number)), before[number])


def test_an_attacker_has_all_other_federations() -> None:
    evidence, _ = toy(NOISE)
    known = evidence.attacked(3)
    assert len(known.shadows) == len(known.members) == len(known.shadow_others) == K - 1
    np.testing.assert_array_equal(known.shadows[3], evidence.candidates[4])
    np.testing.assert_array_equal(known.attacked, evidence.candidates[3])


# --- metrics --------------------------------------------------------------------------------------


def test_metrics_are_those_of_scikit_learn_with_intervals_around_them() -> None:
    evidence, _ = toy(0.2)
    scores = scores_of(LikelihoodRatioAttack(), 0.2)
    found = membership_metrics(scores, evidence.members, Streams(1))
    assert set(found) == {"auc", "tpr_at_1", "tpr_at_01"}
    assert found["auc"].value == pytest.approx(auc_of(scores, evidence.members))
    rates, powers, _ = roc_curve(evidence.members.ravel(), scores.ravel(), drop_intermediate=False)
    assert found["tpr_at_1"].value == pytest.approx(powers[rates <= 0.01].max())
    assert found["tpr_at_01"].value == pytest.approx(powers[rates <= 0.001].max())
    for each in found.values():
        low, high = there(each.ci95)
        assert low <= each.value <= high


def test_an_interval_covers_candidates_that_differ_and_federations_that_differ() -> None:
    """Scores that depend on one of the two alone: the wider interval is the one over it."""
    rng = np.random.default_rng(3)
    members = halves(rng)
    shape = members.shape
    by_candidate = np.broadcast_to(rng.normal(size=shape[1]), shape)
    by_federation = np.broadcast_to(3 * rng.normal(size=(shape[0], 1)), shape)
    noise = rng.normal(size=shape)
    ends: list[float] = []
    for effect in (by_candidate, by_federation, 0 * noise):
        found = membership_metrics(np.where(members, effect, 0.0) + noise, members, Streams(1))["auc"]
        low, high = there(found.ci95)
        ends.append(high - low)
        for cluster in np.indices(shape):
            resamples = QueryBootstrap(cluster.ravel().astype(np.str_), Streams(1))
            scores = (np.where(members, effect, 0.0) + noise).ravel()
            own = there(ScoreRanking.of(scores, members.ravel(), resamples.cluster).auc(resamples).ci95)
            assert low <= own[0] < own[1] <= high
    assert ends[0] > 2 * ends[2]
    assert ends[1] > 1.2 * ends[2]
