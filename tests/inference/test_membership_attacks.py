"""Membership: evidence by densities and scikit-learn; LiRA and RMIA against loops and closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.covariance import ledoit_wolf

from foltr_audit.core.settings.membership import MembershipMethod, MembershipSpec
from foltr_audit.errors import UsageError
from foltr_audit.inference.membership_attacks import (
    FEW,
    LikelihoodRatioAttack,
    RelativeAttack,
    ShadowEvidence,
    membership_attack,
    shrunk_covariance,
    update_evidence,
)
from foltr_audit.utils.arrays import Floats

S, N, Z = 150, 6, 9


def known(shadows: int = S, seed: int = 1) -> ShadowEvidence:
    """Evidence of candidates that differ in how much they leak and how much it varies."""
    rng = np.random.default_rng(seed)
    members = rng.random((shadows, N)) < 0.5
    leak, spread = np.linspace(0.0, 3.0, N), np.linspace(0.5, 2.0, N)
    return ShadowEvidence(
        attacked=rng.normal(size=N),
        shadows=leak * members + spread * rng.normal(size=(shadows, N)),
        members=members,
        attacked_others=rng.normal(size=Z),
        shadow_others=rng.normal(size=(shadows, Z)),
    )


def test_lira_is_a_ratio_of_fitted_densities() -> None:
    here = known()
    for c in range(N):
        there, absent = here.shadows[here.members[:, c], c], here.shadows[~here.members[:, c], c]
        online, offline = (
            LikelihoodRatioAttack().scores(here)[c],
            LikelihoodRatioAttack(offline=True).scores(here)[c],
        )
        fits = [norm(each.mean(), each.std(ddof=1)) for each in (there, absent)]
        assert online == pytest.approx(fits[0].logpdf(here.attacked[c]) - fits[1].logpdf(here.attacked[c]))
        assert norm.cdf(offline) == pytest.approx(fits[1].cdf(here.attacked[c]))


def test_with_few_shadows_candidates_share_a_variance() -> None:
    here = known(shadows=FEW - 1)
    rest = [here.shadows[~here.members[:, c], c] for c in range(N)]
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in rest)
    deviation = np.sqrt(squares / sum(each.size - 1 for each in rest))
    direct = [(here.attacked[c] - rest[c].mean()) / deviation for c in range(N)]
    np.testing.assert_allclose(LikelihoodRatioAttack(offline=True).scores(here), direct)


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_rmia_counts_pairs(gamma: float, *, offline: bool) -> None:
    """Each candidate against each other client, with ratios that are not taken in logarithms."""
    here, scale = known(), 0.3
    ratio = np.exp(here.shadows)
    direct = np.zeros(N)
    for c in range(N):
        without = ratio[~here.members[:, c], c].mean()
        there = scale * without + 1 - scale if offline else ratio[here.members[:, c], c].mean()
        mine = np.exp(here.attacked[c]) / (there + without)
        for z in range(Z):
            outside = np.exp(here.shadow_others[:, z]).mean()
            theirs = np.exp(here.attacked_others[z]) / (scale * outside + 1 - scale + outside)
            direct[c] += mine / theirs >= gamma
    found = RelativeAttack(offline=offline, gamma=gamma, scale=scale).scores(here)
    np.testing.assert_allclose(found, direct / Z)


@pytest.mark.parametrize("kind", [LikelihoodRatioAttack, RelativeAttack])
def test_offline_nothing_is_known_of_federations_with_a_candidate(
    kind: type[LikelihoodRatioAttack] | type[RelativeAttack],
) -> None:
    here = known()
    other = replace(here, shadows=np.where(here.members, here.shadows + 5.0, here.shadows))
    offline, online = kind(offline=True), kind()
    np.testing.assert_array_equal(offline.scores(other), offline.scores(here))
    assert (online.scores(other) != online.scores(here)).any()


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", get_args(MembershipMethod))
def test_scores_of_extreme_evidence_are_finite(name: MembershipMethod, scale: float) -> None:
    here = known()
    large = {each: 1e4 * getattr(here, each) for each in ("attacked", "shadows", "shadow_others")}
    everywhere = np.ones((S, N), dtype=np.bool_)
    attack = membership_attack(name, MembershipSpec(offline_scale=scale))
    for changes in (large, {"members": everywhere}, {"members": ~everywhere}):
        assert np.isfinite(attack.scores(replace(here, **changes))).all()


def test_a_name_means_its_attack() -> None:
    protocol = MembershipSpec(gamma=2.0, offline_scale=0.7)
    assert membership_attack("lira", protocol) == LikelihoodRatioAttack()
    assert membership_attack("lira-offline", protocol) == LikelihoodRatioAttack(offline=True)
    assert membership_attack("rmia", protocol) == RelativeAttack(gamma=2.0, scale=0.7)
    assert membership_attack("rmia-offline", protocol) == RelativeAttack(offline=True, gamma=2.0, scale=0.7)


def test_rmia_needs_others() -> None:
    alone = replace(known(), attacked_others=np.empty(0), shadow_others=np.empty((S, 0)))
    with pytest.raises(UsageError, match="took part in no federation"):
        RelativeAttack().scores(alone)


# --- evidence for an update in a change of the global model ----------------------------------------------


def changes_of(federations: int, rounds: int, parameters: int, seed: int = 1) -> Floats:
    """Changes whose coordinates depend on each other and differ in size."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(parameters, parameters)) * np.geomspace(1.0, 10.0, parameters)
    return np.asarray(rng.normal(size=(federations, rounds, parameters)) @ mixing + 3.0)


@pytest.mark.parametrize(("federations", "parameters"), [(40, 3), (12, 30)])
def test_it_is_the_ratio_of_two_gaussian_densities(federations: int, parameters: int) -> None:
    """With the shrunk covariance written out, also with more parameters than federations."""
    rounds, clients = 2, 4
    rng = np.random.default_rng(2)
    changes = changes_of(federations, rounds, parameters)
    expected = rng.normal(size=(clients, rounds, parameters))
    baseline = expected.mean(axis=0)
    direct = np.zeros((federations, clients))
    for t in range(rounds):
        mean = changes[:, t].mean(axis=0)
        centred = changes[:, t] - mean
        shrinkage, scale = shrunk_covariance(centred)
        covariance = (1 - shrinkage) * centred.T @ centred / federations
        covariance += shrinkage * scale * np.eye(parameters)
        for client in range(clients):
            half = 0.5 * (expected[client, t] - baseline[t])
            there, absent = (multivariate_normal(mean + sign * half, covariance) for sign in (1, -1))
            direct[:, client] += there.logpdf(changes[:, t]) - absent.logpdf(changes[:, t])
    np.testing.assert_allclose(update_evidence(changes, expected, baseline), direct, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("federations", "parameters"), [(200, 5), (20, 5), (10, 60)])
def test_the_shrinkage_is_that_of_scikit_learn(federations: int, parameters: int) -> None:
    rows = changes_of(federations, 1, parameters)[:, 0]
    centred = rows - rows.mean(axis=0)
    shrinkage, scale = shrunk_covariance(centred)
    covariance, theirs = ledoit_wolf(centred, assume_centered=True)
    assert shrinkage == pytest.approx(theirs, rel=1e-9)
    mine = (1 - shrinkage) * centred.T @ centred / federations + shrinkage * scale * np.eye(parameters)
    np.testing.assert_allclose(mine, covariance, rtol=1e-9, atol=1e-9)


def test_what_never_differs_says_nothing() -> None:
    """Changes that are all alike, and a client who is like the one in its place."""
    same, baseline = np.full((20, 2, 3), 7.0), np.zeros((2, 3))
    assert not update_evidence(same, np.ones((5, 2, 3)), baseline).any()
    assert not update_evidence(changes_of(20, 2, 3), np.zeros((2, 2, 3)), baseline).any()


def test_evidence_does_not_depend_on_units_of_the_parameters() -> None:
    """Multiplied models and updates, as of another learning rate, give the same evidence."""
    changes, expected = changes_of(30, 2, 6), changes_of(4, 2, 6, seed=5)
    baseline = expected.mean(axis=0)
    one = update_evidence(changes, expected, baseline)
    np.testing.assert_allclose(update_evidence(1e3 * changes, 1e3 * expected, 1e3 * baseline), one, rtol=1e-8)
