"""What `recommend` searches, on objectives with a known optimum, and which candidate it confirms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.core.plugins import Calibration
from foltr_audit.core.results import AttackRecord, Estimate, ProofRecord
from foltr_audit.experiments.recommend.recommend import (
    BATCH,
    FEWEST_QUERIES,
    LARGEST_TIE,
    AttackSample,
    choose,
    search,
)
from foltr_audit.experiments.recommend.space import (
    FAIR_SHARE,
    Candidate,
    CandidatePoint,
    CandidateScore,
    PrivacyLimits,
    SearchedNumbers,
    SearchSpace,
)
from foltr_audit.judge.significance import mean_ends
from foltr_audit.privacy.accounting import UpperBound
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from tests.fixtures.there import there

# --- the search -----------------------------------------------------------------------------------


NORMS = Calibration().norms
EPS = (0.1, 4.0)
SPACE = SearchSpace(
    defenses={
        "none": SearchedNumbers(None, None),
        "click-rr": SearchedNumbers(EPS, None),
        "laplace": SearchedNumbers(EPS, NORMS),
    }
)
Found = list[tuple[CandidatePoint, CandidateScore | None]]


def scored(point: CandidatePoint) -> CandidateScore:
    """Utility grows with epsilon, which the limit holds down; one norm is best.

    Of `laplace` it is `.2 + .12 ln eps - .05 ln(norm)^2` where `eps <= 2 - norm / 4`; of `click-rr`
    `.15 + .02 ln eps`, everywhere; `none` has the most and breaks the limit.
    """
    if point.alternative == "none":
        return CandidateScore(utility=0.9, excess=0.3)
    eps = point.eps or math.nan
    if point.alternative == "click-rr":
        return CandidateScore(utility=0.15 + 0.02 * math.log(eps), excess=-0.1)
    norm = point.norm or math.nan
    utility = 0.2 + 0.12 * math.log(eps) - 0.05 * math.log(norm) ** 2
    return CandidateScore(utility=max(0.0, utility), excess=0.2 * (eps - 2.0 + norm / 4.0))


def best(found: Sequence[tuple[CandidatePoint, CandidateScore | None]]) -> int | None:
    """The chosen one of candidates whose queries are not known, so that only equals tie."""
    return choose([Candidate(point=point, score=score) for point, score in found])


def optimum() -> float:
    """The best utility within the limit, on the edge `eps = 2 - norm / 4`."""
    norm = np.linspace(NORMS[0], 7.5, 100_001)
    return float((0.2 + 0.12 * np.log(2.0 - norm / 4.0) - 0.05 * np.log(norm) ** 2).max())


def played(seed: int, candidates: int = 70) -> Found:
    def judge(points: Sequence[CandidatePoint]) -> list[CandidateScore | None]:
        return [scored(point) for point in points]

    return search(SPACE, judge, candidates, Streams(seed))


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_under_a_limit_is_found(seed: int) -> None:
    found = played(seed)
    number = there(best(found))
    point, score = found[number]
    assert score is not None
    assert point.alternative == "laplace"
    assert score.excess <= 0
    assert optimum() - 0.02 < score.utility <= optimum()


def test_it_learns_from_what_it_is_told() -> None:
    """Of the same defense in turn, later candidates are better than the first ones, drawn at random."""
    of_turns = [played(seed)[len(SPACE.defenses) : 50] for seed in range(3)]
    values = [[scored(point) for point, _ in one if point.alternative == "laplace"] for one in of_turns]
    within = [[score.utility if score.feasible else 0.0 for score in one] for one in values]
    early, late = (np.concatenate([one[part] for one in within]) for part in (slice(5), slice(-5, None)))
    assert late.mean() > early.mean() + 0.03


def test_every_defense_is_tried_at_the_limit_and_most_candidates_are_dealt_out() -> None:
    found = [point for point, _ in played(0, 40)]
    assert found[:3] == [
        CandidatePoint("none"),
        CandidatePoint("click-rr", 4.0),
        CandidatePoint("laplace", 4.0, 1.5),
    ]
    dealt = [point.alternative for point in found[3 : round(40 * FAIR_SHARE)]]
    assert dealt == [("click-rr", "laplace")[number % 2] for number in range(27)]
    assert [point for point, _ in played(0, 2)] == found[:2]


def test_the_same_seed_asks_for_the_same_candidates_in_batches_of_one_size() -> None:
    sizes: list[int] = []

    def judge(points: Sequence[CandidatePoint]) -> list[CandidateScore | None]:
        sizes.append(len(points))
        return [scored(point) for point in points]

    found = search(SPACE, judge, 18, Streams(3))
    assert found == played(3, 18)
    assert found != played(4, 18)
    assert sizes == [BATCH] * (18 // BATCH) + [18 % BATCH]


def test_candidates_stay_inside_the_space() -> None:
    for point, _ in played(1, 30):
        searched = SPACE.defenses[point.alternative]
        assert (point.eps is not None) == (searched.eps is not None)
        assert (point.norm is not None) == (searched.norms is not None)
        assert point.eps is None or EPS[0] * 0.99 <= point.eps <= EPS[1]
        assert point.norm is None or NORMS[0] * 0.99 <= point.norm <= NORMS[1] * 1.01


def test_what_could_not_be_scored_never_wins() -> None:
    def judge(points: Sequence[CandidatePoint]) -> list[CandidateScore | None]:
        return [None if point.alternative == "laplace" else scored(point) for point in points]

    found = search(SPACE, judge, 20, Streams(5))
    number = there(best(found))
    assert found[number][0].alternative == "click-rr"
    unscored = (CandidatePoint("laplace", 1.0, 1.0), None)
    assert best([unscored, (CandidatePoint("none"), CandidateScore(utility=0.9, excess=0.3))]) is None


def test_of_equals_the_first_is_best() -> None:
    equal = CandidateScore(utility=0.5, excess=0.0)
    assert best([(CandidatePoint("none"), equal), (CandidatePoint("laplace"), equal)]) == 0


@pytest.mark.parametrize(
    ("upper", "excess"), [(0.65, 0.05), (0.6, 0.0), (0.5, -0.1), (None, 1.0), (math.nan, 1.0)]
)
def test_the_upper_end_of_an_interval_is_what_a_limit_holds(upper: float | None, excess: float) -> None:
    limits = PrivacyLimits(max_eps=4.0, max_auc=0.6)
    assert limits.excess(upper) == pytest.approx(excess)
    assert PrivacyLimits(max_eps=4.0).excess(upper) < 0


def test_a_proven_epsilon_may_exceed_its_limit_by_rounding_only() -> None:
    limits = PrivacyLimits(max_eps=4.0)
    assert limits.proves(4.0 * (1 + 1e-10))
    assert not limits.proves(4.0001)
    assert not limits.proves(math.nan)
    assert PrivacyLimits(max_eps=math.inf).proves(math.inf)


# --- the choice -----------------------------------------------------------------------------------


NDCG = np.random.default_rng(1).random(400)


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
    """`NDCG` less a constant, with noise by query whose mean is exactly 0."""
    drawn = np.random.default_rng(seed).normal(size=NDCG.size)
    return np.asarray(NDCG - by + noise * (drawn - drawn.mean()))


def test_a_tie_goes_to_the_smaller_epsilon_and_then_to_the_better_attack_bound() -> None:
    first, same = candidate(NDCG, 4.0), candidate(shifted(0.002, 0.1), 1.2)
    assert choose([first, same]) == 1
    assert choose([same, first]) == 0
    unequal = candidate(shifted(0.002, 0.1), 4.0, upper=0.51)
    assert choose([first, unequal]) == 1
    assert choose([candidate(NDCG, 4.0, upper=0.51), candidate(shifted(0.002, 0.1), 4.0)]) == 0


@pytest.mark.parametrize(
    ("by", "noise", "tied"), [(0.004, 0.1, True), (0.004, 0.05, False), (0.006, 1.0, False)]
)
def test_a_tie_is_within_one_standard_error_and_never_large(by: float, noise: float, tied: bool) -> None:
    """The error by SciPy, for 400 queries; `LARGEST_TIE` caps it."""
    other = candidate(shifted(by, noise), 1.2)
    error = float(stats.sem(NDCG - shifted(by, noise)))
    assert tied == (by < error and by < LARGEST_TIE)
    assert choose([candidate(NDCG, 4.0), other]) == (1 if tied else 0)


def test_a_candidate_outside_of_the_limits_is_neither_chosen_nor_the_measure() -> None:
    assert choose([candidate(NDCG + 0.2, 0.1, kept=False), candidate(NDCG, 4.0)]) == 1
    assert choose([candidate(NDCG, kept=False), Candidate(point=CandidatePoint("none"))]) is None


def test_queries_that_do_not_count_are_left_out_and_unknown_ones_never_tie() -> None:
    missing = np.where(np.arange(NDCG.size) < 3, np.nan, shifted(0.002, 0.1))
    both = [candidate(np.where(np.isnan(missing), np.nan, NDCG), 4.0), candidate(missing, 1.2)]
    assert choose(both) in (0, 1)
    unknown = Candidate(
        point=CandidatePoint("laplace", 1.2),
        score=CandidateScore(utility=float(NDCG.mean()) - 1e-6, excess=-1.0),
    )
    assert choose([candidate(NDCG, 4.0), unknown]) == 0


@given(st.lists(st.tuples(st.floats(0, 0.02), st.floats(0.1, 8)), min_size=1, max_size=6))
def test_what_is_chosen_is_within_a_tie_of_the_best_and_no_safer_one_is(
    made: list[tuple[float, float]],
) -> None:
    judged = [candidate(shifted(by, 0.08, seed), eps) for seed, (by, eps) in enumerate(made)]
    chosen = there(choose(judged))
    ndcg = [one.score.utility for one in judged if one.score is not None]
    first = max(ndcg)
    assert first - ndcg[chosen] < LARGEST_TIE or math.isclose(first, ndcg[chosen])
    equals = [one.eps_proven for one, value in zip(judged, ndcg, strict=True) if value == first]
    assert judged[chosen].eps_proven <= min(equals)


# --- samples that are too small for a limit on attacks --------------------------------------------


@given(st.floats(0.001, 0.5), st.floats(0.701, 0.99), st.integers(1, 100), st.floats(0.5, 0.7))
def test_so_many_draws_let_a_guess_pass(half: float, limit: float, repeats: int, guess: float) -> None:
    sample = AttackSample(half, 40, repeats, guess)
    needed = math.ceil(sample.times(limit) * repeats)
    assert not AttackSample(half * (repeats / needed) ** 0.5, 40, needed, guess).too_small(limit)


def test_the_width_of_a_guess_falls_with_the_square_root_of_the_draws() -> None:
    """AUCs of random scores by their definition, on other numbers of lists of one clicked document in ten."""
    rng = np.random.default_rng(3)

    def spread(lists: int) -> float:
        scores = rng.random((400, lists, 10))
        clicked, others = scores[:, :, 0], scores[:, :, 1:].reshape(400, -1)
        ranks = (
            np.argsort(np.argsort(np.concatenate([clicked, others], axis=1), axis=1), axis=1)[:, :lists] + 1
        )
        aucs = (ranks.sum(axis=1) - lists * (lists + 1) / 2) / (lists * 9 * lists)
        return float(aucs.std())

    assert spread(10) / spread(40) == pytest.approx(2.0, rel=0.15)


def test_below_so_many_queries_no_number_of_draws_narrows_the_interval() -> None:
    """Queries that hardly differ are what very many draws would give; one more at an end is left."""

    def width(queries: int) -> float:
        low, high = mean_ends(np.linspace(0.5, 0.500001, queries), 0.0, 1.0, 0.05)
        return high - low

    assert width(FEWEST_QUERIES - 1) > 0.5
    assert width(FEWEST_QUERIES) == pytest.approx(1 / (FEWEST_QUERIES + 1), abs=1e-4)


def test_a_small_sample_is_told_with_the_size_that_would_do() -> None:
    said = AttackSample(0.15, 40, 2, 0.5).describe(0.6)
    assert "with 40 queries, 2 times each" in said
    assert "ends at about .650 (limit .600)" in said
    assert said.endswith("About --repeats 6 would be enough, or more queries.")
    assert "About 9 queries would be enough;" in AttackSample(0.15, 3, 2, 0.5).describe(0.6)
    assert AttackSample(0.05, 40, 1, 0.5).describe(0.6) == ""
    assert "No sample is large enough" in AttackSample(0.05, 40, 1, 0.62).describe(0.6)
