"""Fixed cohorts: batches that never mix, drawn evenly, and what a Spec refuses."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from foltr_audit.core.settings.population import PopulationSpec
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.simulation.cohorts import CohortSampler


def sampler(*, fixed: bool, clients: int = 24, size: int = 4, separation: int = 1) -> CohortSampler:
    return CohortSampler(
        clients=np.arange(clients), size=size, separation=separation, streams=Streams(1), fixed=fixed
    )


@pytest.mark.parametrize("separation", [1, 2, 6])
def test_fixed_cohorts_never_mix(separation: int) -> None:
    found = {
        tuple(sampler(fixed=True, separation=separation).cohort(round_).tolist()) for round_ in range(90)
    }
    assert len(found) == 6
    assert sorted(client for cohort in found for client in cohort) == list(range(24))
    assert all(list(cohort) == sorted(cohort) for cohort in found)
    mixed = {tuple(sampler(fixed=False).cohort(round_).tolist()) for round_ in range(90)}
    assert len(mixed) > 60


def test_a_separation_holds_with_fixed_cohorts() -> None:
    drawn = sampler(fixed=True, separation=3)
    rounds = [set(drawn.cohort(round_).tolist()) for round_ in range(60)]
    for first, second, third in zip(rounds, rounds[1:], rounds[2:], strict=False):
        assert not first & second
        assert not first & third


def test_every_fixed_cohort_is_equally_likely() -> None:
    drawn = sampler(fixed=True)
    often = Counter(tuple(drawn.cohort(round_).tolist()) for round_ in range(1200))
    assert chisquare(list(often.values())).pvalue > 1e-3
    skewed = np.array([*often.values()]) + np.array([60, -60, 0, 0, 0, 0])
    assert chisquare(skewed).pvalue < 1e-3


def test_clients_are_a_multiple_of_a_fixed_cohort() -> None:
    assert PopulationSpec(clients=24, cohort=4, cohorts="sampled") == PopulationSpec(clients=24, cohort=4)
    with pytest.raises(ValueError, match=r"cohorts=fixed: 25 clients in cohorts of 4; expected"):
        PopulationSpec(clients=25, cohort=4, cohorts="fixed")
    with pytest.raises(ValueError, match=r"24 clients in cohorts of 4 times the separation 4"):
        PopulationSpec(clients=24, cohort=4, separation=4, cohorts="fixed")


def test_membership_has_cohorts_of_its_members() -> None:
    from foltr_audit.core.settings.experiment import Spec

    with pytest.raises(UsageError, match="expected cohorts=sampled"):
        Spec(population={"clients": 50, "cohort": 10, "cohorts": "fixed"}, membership={})
