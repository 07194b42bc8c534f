"""The paired t-test against plain formulas and Student's own data; bounds of a mean by other routes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, ttest_1samp
from scipy.stats import t as student

from foltr_audit.errors import UsageError
from foltr_audit.judge.significance import (
    MOST_RESAMPLED,
    PairedTest,
    bonferroni,
    mean_bounds,
    mean_ends,
    mean_interval,
    paired_t_test,
    simultaneous_tail,
    stars,
)
from foltr_audit.rng import Streams
from tests.fixtures.evidence import plain_ends

Array = NDArray[np.float64]

# Student 1908, "The probable error of a mean": hours of sleep that two drugs gained the same ten patients.
# t, p and interval as R prints them for t.test(extra ~ group, paired = TRUE) on its data set `sleep`.
ONE_DRUG = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
OTHER_DRUG = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])


def by_formula(a: Array, b: Array) -> PairedTest:
    d = [float(x - y) for x, y in zip(a, b, strict=True)]
    n = len(d)
    mean = math.fsum(d) / n
    sd = math.sqrt(math.fsum((x - mean) ** 2 for x in d) / (n - 1))
    error = sd / math.sqrt(n)
    reach = student.ppf(0.975, n - 1) * error
    return PairedTest(
        pairs=n,
        difference=mean,
        interval=(mean - reach, mean + reach),
        t=mean / error,
        p=2 * student.sf(abs(mean / error), n - 1),
        effect_size=mean / sd,
    )


def test_students_own_data() -> None:
    found = paired_t_test(ONE_DRUG, OTHER_DRUG)
    assert found.pairs == 10
    assert found.difference == pytest.approx(-1.58, abs=1e-12)
    assert found.t == pytest.approx(-4.0621, abs=5e-5)
    assert found.p == pytest.approx(0.002833, abs=5e-7)
    assert found.interval == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)
    assert found.effect_size == pytest.approx(-4.0621 / math.sqrt(10), abs=5e-5)


@pytest.mark.parametrize("n", [2, 3, 5, 25])
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 300.0, 1e9])
def test_every_number_equals_the_plain_formula(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    base = rng.normal(size=n)
    a, b = scale * (base + rng.normal(0.3, 0.2, size=n)), scale * base
    found, expected = paired_t_test(a, b), by_formula(a / scale, b / scale)
    for name in ("pairs", "t", "p", "effect_size"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
    for ours, theirs in zip(found.interval, expected.interval, strict=True):
        assert ours / scale == pytest.approx(theirs, rel=1e-9)
    assert found.difference / scale == pytest.approx(expected.difference, rel=1e-9)
    a, b = a / scale, b / scale
    unpaired = abs(a.mean() - b.mean()) / math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / n)
    assert abs(found.t) != pytest.approx(unpaired, rel=0.05), "the pairs would not matter"


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.6, 0.9])
def test_p_is_near_that_of_all_sign_flips(shift: float) -> None:
    differences = np.random.default_rng(7).normal(shift, 1.0, size=12)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=12)))
    exact = float(np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12))
    p = paired_t_test(differences, np.zeros(12)).p
    assert p == pytest.approx(exact, abs=0.02)
    assert p / 2 != pytest.approx(exact, abs=0.02) or exact < 0.04, "one-sided would pass"


@given(st.lists(st.tuples(*[st.floats(-100, 100)] * 2), min_size=2, max_size=12))
def test_swapping_the_systems_turns_every_sign(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(values) for values in zip(*pairs, strict=True))
    one, other = paired_t_test(a, b), paired_t_test(b, a)
    assert other.difference == -one.difference
    assert other.p == one.p
    assert other.interval == pytest.approx((-one.interval[1], -one.interval[0]), rel=1e-9, abs=1e-12)
    for name in ("t", "effect_size"):
        assert getattr(other, name) == pytest.approx(-getattr(one, name), nan_ok=True)
    assert one.interval[0] <= one.difference <= one.interval[1]
    assert 0 <= one.p <= 1


@given(st.integers(2, 10), st.floats(-1, 1), st.integers(0, 2**32 - 1))
def test_a_constant_difference_is_certain_and_none_is_none(n: int, shift: float, seed: int) -> None:
    base = np.random.default_rng(seed).random(n)
    same = paired_t_test(base, base)
    assert (same.p, same.difference, same.interval) == (1.0, 0.0, (0.0, 0.0))
    assert math.isnan(same.effect_size)
    assert math.isnan(same.t)
    if abs(shift) > 1e-6:
        moved = paired_t_test(base + shift, base)  # equal up to rounding only
        assert moved.p == 0.0
        assert moved.difference == pytest.approx(shift, rel=1e-6)
        assert moved.effect_size == moved.t == math.copysign(math.inf, shift)


def test_differences_near_rounding_are_still_tested() -> None:
    base = np.full(4, 300.0)
    other = base + np.array([1.0, 2.0, 3.0, 2.5]) * 1e-8
    found = paired_t_test(other, base)
    assert found.effect_size == pytest.approx(by_formula(other, base).effect_size)
    assert math.isfinite(found.t)


@pytest.mark.parametrize(
    ("a", "b"),
    [([1], [2]), ([], []), ([1, 2], [1]), ([1, math.nan], [1, 2]), ([1, 2], [math.inf, 2])],
)
def test_what_cannot_be_tested_is_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(UsageError, match=r"t-test: .*expected"):
        paired_t_test(np.array(a, dtype=float), np.array(b, dtype=float))


def test_bonferroni_by_hand_and_marks() -> None:
    assert bonferroni([0.001, 0.02, 0.4]) == pytest.approx([0.003, 0.06, 1.0], rel=1e-12)
    assert bonferroni([0.04]) == [0.04]
    assert [stars(p) for p in (0.0, 0.0099, 0.01, 0.0499, 0.05, 1.0)] == ["**", "**", "*", "*", "", ""]


def test_false_alarms_among_equal_systems() -> None:
    """Four equal systems in 500 studies of 8 pairs: an alarm anywhere in a study has probability <= .05.

    Thresholds: the 1 - 1e-4 quantile of the binomial law, and for a single test at .05 both ends of it.
    """
    rng, studies = np.random.default_rng(3), 500
    corrected = plain = single = 0
    for _ in range(studies):
        hard = rng.normal(size=(1, 8))  # what is hard in a repetition is so for all
        values = hard + rng.normal(size=(4, 8))
        p = [paired_t_test(a, b).p for a, b in itertools.combinations(values, 2)]
        corrected += min(bonferroni(p)) < 0.05
        plain += min(p) < 0.05
        single += p[0] < 0.05
    most = binom.isf(1e-4, studies, 0.05)
    assert 0 < corrected <= most
    assert plain > most, "without a correction it is caught"
    assert binom.ppf(1e-4, studies, 0.05) <= single <= most


def test_two_pairs_show_no_interval() -> None:
    assert paired_t_test(np.array([0.4, 0.5]), np.array([0.1, 0.3])).ends is None
    three = paired_t_test(np.array([0.4, 0.5, 0.7]), np.array([0.1, 0.3, 0.3]))
    assert three.ends == three.interval


def test_the_interval_of_a_mean_stays_within_its_ends() -> None:
    values = np.array([0.4, 0.42, 0.02])
    low, high = paired_t_test(values, np.zeros(3)).interval
    assert low < 0
    assert mean_interval(values) == (0.0, high)
    assert mean_interval(1 - values) == pytest.approx((1 - high, 1.0))
    assert mean_interval(-values, -1.0) == pytest.approx((-high, -low))
    assert mean_interval(values[:2]) is None


def test_the_interval_covers_the_true_difference() -> None:
    """Coverage over 600 draws of 5 pairs, within binomial limits at 1e-4; a normal quantile's is caught."""
    rng, draws = np.random.default_rng(4), 600
    covered = normal = 0
    for _ in range(draws):
        d = rng.normal(0.5, 1.0, size=5)
        found = paired_t_test(d, np.zeros(5))
        covered += found.interval[0] <= 0.5 <= found.interval[1]
        normal += abs(d.mean() - 0.5) <= 1.96 * d.std(ddof=1) / math.sqrt(5)
    least, most = binom.ppf(1e-4, draws, 0.95), binom.isf(1e-4, draws, 0.95)
    assert least <= covered <= most
    assert normal < least


# --- bounds of a mean -----------------------------------------------------------------------------


SAMPLES = {
    "even": np.linspace(0.2, 0.7, 15),
    "right or wrong": (np.arange(20) < 17).astype(np.float64),
    "one is wrong": (np.arange(9) > 0).astype(np.float64),
    "mostly 0": np.concatenate([np.zeros(18), [0.02, 0.1, 0.05, 0.3, 0.01, 0.2]]),
    "two are not 0": np.concatenate([np.zeros(18), [0.1, 0.3]]),
    "three": np.array([0.4, 0.42, 0.02]),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(("lowest", "highest"), [(0.0, 1.0), (-1.0, 1.0), (-np.inf, np.inf)])
def test_the_ends_of_a_mean_are_those_of_plain_loops(name: str, lowest: float, highest: float) -> None:
    for tail in (0.025, 0.05):
        found = mean_ends(SAMPLES[name], lowest, highest, tail, streams=Streams(1))
        cut = max(found[0], lowest), min(found[1], highest)
        assert cut == pytest.approx(plain_ends(SAMPLES[name], lowest, highest, tail), rel=1e-9)


@pytest.mark.parametrize("hits", [1, 2, 5, 11, 12])
def test_of_values_that_are_0_or_1_no_end_is_farther_than_that_of_clopper_and_pearson(hits: int) -> None:
    """Up to the error of a thousand random weights."""
    low, high = mean_ends((np.arange(12) < hits).astype(np.float64), 0.0, 1.0)
    exact = binomtest(hits, 12).proportion_ci(0.95, method="exact")
    assert low >= exact.low - 0.02
    assert high <= exact.high + 0.02


@given(
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=30),
    st.floats(-1.0, 0.0),
    st.sampled_from([0.001, 0.01, 0.02]),
)
def test_ends_hold_the_mean_lie_in_the_range_and_move_out_with_the_tail(
    values: list[float], lowest: float, tail: float
) -> None:
    own = np.array(values)
    (low, high), (lower, upper) = (mean_ends(own, lowest, 1.0, each) for each in (tail, 0.05))
    slack = 1e-9
    assert lowest - slack <= low <= lower + slack
    assert lower <= own.mean() + slack
    assert own.mean() - slack <= upper <= high + slack <= 1.0 + 2 * slack


def test_values_that_are_all_equal_may_hide_some_that_are_not() -> None:
    """Of 24 queries without a difference: 24 of a population where 14 % differ show none once in 40."""
    found = mean_bounds(np.zeros(24), -1.0)
    unseen = 1 - 0.025 ** (1 / 24)
    assert found.interval == pytest.approx((-unseen, unseen))
    assert found.upper == pytest.approx(1 - 0.05 ** (1 / 24))


def test_many_values_have_the_interval_of_students_t() -> None:
    values = np.random.default_rng(5).normal(0.0, 0.1, MOST_RESAMPLED + 1)
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert mean_ends(values, -1.0, 1.0) == pytest.approx((expected.low, expected.high), abs=1e-5)


def test_too_few_values_say_nothing() -> None:
    nothing, two = mean_bounds(np.array([])), mean_bounds(np.array([0.1, 0.2]), -1.0)
    assert math.isnan(nothing.mean)
    assert (nothing.interval, nothing.lower, nothing.upper, nothing.n) == (None, 0.0, 1.0, 0)
    assert (two.interval, two.lower, two.upper, two.n) == (None, -1.0, 1.0, 2)


def test_as_many_queries_as_are_needed_do() -> None:
    """Losses drawn anew, as many as 24 of them say: the bound is near the limit."""
    rng = np.random.default_rng(6)
    ends = []
    for _ in range(40):
        needed = mean_bounds(rng.exponential(0.02, 24), -1.0).needed(0.03)
        if needed is not None:
            ends.append(mean_bounds(rng.exponential(0.02, needed), -1.0).upper)
    assert len(ends) > 30
    assert np.median(ends) == pytest.approx(0.03, abs=0.004)


def test_a_limit_near_the_mean_takes_more_queries() -> None:
    found = mean_bounds(np.linspace(0.0, 0.2, 20), -0.8)
    assert found.needed(found.mean) is None
    assert found.needed(1.0) == found.needed(-0.5) == 20
    below = found.needed(2 * found.mean - 0.11)
    assert below == pytest.approx(found.needed(0.11), rel=0.05), "the values are symmetric"
    first, second = found.needed(0.12), found.needed(0.11)
    assert first is not None
    assert second is not None
    assert 20 < first < second


def test_a_joint_tail_lies_between_that_of_one_and_of_bonferroni() -> None:
    rng = np.random.default_rng(7)
    values = [rng.normal(size=30) for _ in range(8)]
    assert 0.025 / 8 <= simultaneous_tail(values) < 0.01
    alike = [values[0] + 1e-3 * each for each in values]
    assert 0.02 < simultaneous_tail(alike) <= 0.025
    assert simultaneous_tail([values[0], values[1][:20]]) == 0.0125
