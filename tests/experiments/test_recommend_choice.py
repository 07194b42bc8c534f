"""Which candidate `recommend` confirms: the best one, or one that ties with it and has a safer bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.core.results import AttackRecord, Estimate, ProofRecord
from foltr_audit.experiments.recommend.recommend import LARGEST_TIE, choose
from foltr_audit.experiments.recommend.space import Candidate, CandidatePoint, CandidateScore
from foltr_audit.privacy.accounting import UpperBound
from foltr_audit.utils.arrays import Floats

BASE = np.random.default_rng(1).random(400)


def candidate(queries: Floats, eps: float = 1.0, upper: float = 0.55, *, kept: bool = True) -> Candidate:
    """A candidate with the nDCG of its queries, a proven epsilon and the worst attack's upper end."""
    point, bound = CandidatePoint("laplace", eps), UpperBound(epsilon=eps, delta=0.0, how="")
    return Candidate(
        point=point,
        proof=ProofRecord(of="all rounds", view="individual", unit="interaction", rounds=1, upper=bound),
        queries=queries,
        attack=AttackRecord(task="clicks", method="map", metrics={"auc": Estimate(0.5, (0.45, upper))}),
        score=CandidateScore(utility=float(np.nanmean(queries)), excess=-0.1 if kept else 0.1),
    )


def shifted(by: float, noise: float, seed: int = 2) -> Floats:
    """`BASE` less a constant, with noise by query whose mean is exactly 0."""
    drawn = np.random.default_rng(seed).normal(size=BASE.size)
    return np.asarray(BASE - by + noise * (drawn - drawn.mean()))


def test_a_tie_goes_to_the_smaller_epsilon_and_then_to_the_better_attack_bound() -> None:
    best, same = candidate(BASE, 4.0), candidate(shifted(0.002, 0.1), 1.2)
    assert choose([best, same]) == 1
    assert choose([same, best]) == 0
    unequal = candidate(shifted(0.002, 0.1), 4.0, upper=0.51)
    assert choose([best, unequal]) == 1
    assert choose([candidate(BASE, 4.0, upper=0.51), candidate(shifted(0.002, 0.1), 4.0)]) == 0


@pytest.mark.parametrize(
    ("by", "noise", "tied"), [(0.004, 0.1, True), (0.004, 0.05, False), (0.006, 1.0, False)]
)
def test_a_tie_is_within_one_standard_error_and_never_large(by: float, noise: float, tied: bool) -> None:
    """The error by SciPy, for 400 queries; `LARGEST_TIE` caps it."""
    other = candidate(shifted(by, noise), 1.2)
    error = float(stats.sem(BASE - shifted(by, noise)))
    assert tied == (by < error and by < LARGEST_TIE)
    assert choose([candidate(BASE, 4.0), other]) == (1 if tied else 0)


def test_a_candidate_outside_of_the_limits_is_neither_chosen_nor_the_measure() -> None:
    assert choose([candidate(BASE + 0.2, 0.1, kept=False), candidate(BASE, 4.0)]) == 1
    assert choose([candidate(BASE, kept=False), Candidate(point=CandidatePoint("none"))]) is None


def test_queries_that_do_not_count_are_left_out_and_unknown_ones_never_tie() -> None:
    missing = np.where(np.arange(BASE.size) < 3, np.nan, shifted(0.002, 0.1))
    both = [candidate(np.where(np.isnan(missing), np.nan, BASE), 4.0), candidate(missing, 1.2)]
    assert choose(both) in (0, 1)
    unknown = Candidate(
        point=CandidatePoint("laplace", 1.2),
        score=CandidateScore(utility=float(BASE.mean()) - 1e-6, excess=-1.0),
    )
    assert choose([candidate(BASE, 4.0), unknown]) == 0


@given(st.lists(st.tuples(st.floats(0, 0.02), st.floats(0.1, 8)), min_size=1, max_size=6))
def test_what_is_chosen_is_within_a_tie_of_the_best_and_no_safer_one_is(
    made: list[tuple[float, float]],
) -> None:
    judged = [candidate(shifted(by, 0.08, seed), eps) for seed, (by, eps) in enumerate(made)]
    chosen = choose(judged)
    assert chosen is not None
    ndcg = [one.score.utility for one in judged if one.score is not None]
    best = max(ndcg)
    assert best - ndcg[chosen] < LARGEST_TIE or math.isclose(best, ndcg[chosen])
    equals = [one.eps_proven for one, value in zip(judged, ndcg, strict=True) if value == best]
    assert judged[chosen].eps_proven <= min(equals)
