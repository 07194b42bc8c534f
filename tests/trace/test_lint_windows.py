"""How probable small noise is under a law, and what counts in windows can tell."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom

from foltr_audit.privacy.noise import AdditiveNoise, DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.rng import Streams
from foltr_audit.trace.declared_header import NoiseDeclaration, NoiseWindow
from foltr_audit.trace.lint.noise_checks import SURE, WindowCounter, enough_trials, inside, too_many
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import LAPLACE
from tests.fixtures.there import there


def _known(law: AdditiveNoise, size: Any) -> Floats:
    return there(law.probability_within(size))


def _most(law: AdditiveNoise, half: Any) -> Floats:
    return there(law.concentration(half))


# --- continuous laws ------------------------------------------------------------------------------


def test_laplace_and_gaussian_by_their_closed_forms() -> None:
    sizes = [0.0, 1e-12, 0.1, 1.0, 7.0, 1e6]
    laplace = _known(GammaShare(n=1, scale=2.5), sizes)
    np.testing.assert_allclose(laplace, [-math.expm1(-x / 2.5) for x in sizes], rtol=1e-12)
    gaussian = _known(Gaussian(sigma=0.5), sizes)
    np.testing.assert_allclose(gaussian, [math.erf(x / 0.5 / math.sqrt(2)) for x in sizes], rtol=1e-12)


@pytest.mark.parametrize(("n", "count"), [(1000, 1), (50, 1), (4, 1), (2, 1), (3, 2), (1, 3), (2, 13)])
def test_gamma_shares_by_integrating_their_density(n: int, count: int) -> None:
    law = GammaShare(n=n, scale=2.5, count=count)
    edges = [1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0]

    def density(u: float) -> float:
        return math.exp(u + float(law.log_density(math.exp(u))))

    for low, high in pairwise(edges):
        mass, _ = quad(density, math.log(low), math.log(high))
        difference = float(np.diff(_known(law, [low, high]))[0])
        assert difference == pytest.approx(2 * mass, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("n", [5, 100, 1000])
def test_gamma_shares_next_to_zero_by_the_leading_term(n: int) -> None:
    alpha, z = 1 / n, 1e-30
    leading = math.gamma(0.5 - alpha) / (math.sqrt(math.pi) * math.gamma(1 + alpha)) * (z / 2) ** (2 * alpha)
    assert float(_known(GammaShare(n=n, scale=1.0), z)) == pytest.approx(leading, rel=1e-9)


# --- laws on a grid -------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1e-3, 0.3, 1.0, 7.0, 90.0])
def test_skellam_noise_by_sums_of_exact_masses(spread: float) -> None:
    v = mpmath.mpf(spread) ** 2
    mass = [mpmath.exp(-v) * mpmath.besseli(k, v) for k in range(40)]
    exact = [float(mass[0] + 2 * mpmath.fsum(mass[1 : k + 1])) for k in range(40)]
    law = Skellam(sigma=spread * 0.01, step=0.01)
    np.testing.assert_allclose(_known(law, 0.01 * np.arange(40)), exact, 1e-9)


@pytest.mark.parametrize("spread", [0.5, 1.0, 7.0, 90.0])
def test_discrete_gaussian_noise_by_sums_of_exact_masses(spread: float) -> None:
    k = np.arange(-2000, 2001)
    weights = np.exp(-0.5 * (k / spread) ** 2)
    exact = [float(weights[np.abs(k) <= j].sum() / weights.sum()) for j in range(40)]
    law = DiscreteGaussian(sigma=spread * 0.25, step=0.25)
    np.testing.assert_allclose(_known(law, 0.25 * np.arange(40)), exact, 1e-12)


@pytest.mark.parametrize("law", [Skellam(sigma=4100.0, step=1.0), DiscreteGaussian(sigma=4100.0, step=1.0)])
def test_wide_noise_on_a_grid_by_summing_all_masses(law: Skellam | DiscreteGaussian) -> None:
    """From 4,096 steps on it is taken as normal: right to 1e-8, here against 50,000 masses."""
    mass = np.exp(law.log_density(np.arange(50_000.0)))
    within = mass[0] + 2 * np.concatenate([[0.0], np.cumsum(mass[1:])])
    steps = np.array([0, 3, 400, 4100, 9000, 20_000])
    np.testing.assert_allclose(_known(law, steps.astype(float)), within[steps], rtol=0, atol=1e-8)


@settings(max_examples=60)
@given(
    spread=st.floats(0.55, 30),
    half=st.floats(0.01, 60),
    centre=st.floats(-20, 20),
    discrete=st.booleans(),
)
def test_no_interval_of_a_grid_holds_more(spread: float, half: float, centre: float, discrete: bool) -> None:
    """By adding the masses of the grid points in the interval; and some interval is just as probable."""
    law: Skellam | DiscreteGaussian
    law = DiscreteGaussian(sigma=spread, step=1.0) if discrete else Skellam(sigma=spread, step=1.0)
    most = float(_most(law, half))

    def probability(middle: float) -> float:
        points = np.arange(-600.0, 601.0)
        return float(np.exp(law.log_density(points[np.abs(points - middle) < half])).sum())

    assert probability(centre) <= most + 1e-12
    best = max(probability(middle) for middle in (0.0, 0.5, *(half % 1 + shift for shift in (-1e-6, 1e-6))))
    assert best == pytest.approx(most, abs=1e-9) or half % 0.5 < 1e-5 or half % 0.5 > 0.5 - 1e-5


def test_unknown_laws_have_no_probability() -> None:
    assert GammaShare(n=1, scale=1.0, count=9).probability_within(1.0) is None
    assert DiscreteGaussian(sigma=1.0, step=1.0, count=2).probability_within(1.0) is None
    assert DiscreteGaussian(sigma=2.0, step=1.0, count=2).probability_within(1.0) is not None
    assert NoiseDeclaration(text="toy noise").within(1.0) is None
    assert NoiseDeclaration(text=f"toy+{LAPLACE}").laws == ()


@pytest.mark.parametrize("text", [LAPLACE, "gaussian:sigma=2", "skellam:sigma=3,step=1"])
def test_less_noise_has_that_share_of_the_variance(text: str) -> None:
    (law,) = NoiseDeclaration(text=text).laws
    assert law.with_variance(0.3).variance == pytest.approx(0.3 * law.variance)
    coarse = DiscreteGaussian(sigma=0.6, step=1.0)
    assert coarse.with_variance(0.1).scale == 0.5


# --- windows --------------------------------------------------------------------------------------


def _drawn(texts: list[str], factor: float = 1.0) -> Floats:
    drawn = np.zeros((1000, 200))
    for place, text in enumerate(texts):
        drawn += lint_traces.noise_of(text, place, seed=5, shape=drawn.shape)
    return factor * drawn


@pytest.mark.parametrize(
    "texts",
    [
        [LAPLACE],
        ["gamma-share:n=3,scale=2.5"],
        ["gamma-share:n=200,scale=2.5"],
        [LAPLACE, "gamma-share:n=2,scale=1"],
        ["skellam:sigma=0.8,step=0.5"],
        ["skellam:sigma=0.8,step=0.001"],
        ["discrete-gaussian:sigma=0.8,step=0.5"],
        ["discrete-gaussian:sigma=0.8,step=0.5", "gaussian:sigma=0.3"],
    ],
    ids="+".join,
)
def test_no_point_is_crowded_more_than_a_window_says(texts: list[str]) -> None:
    """200,000 draws, about six centres: within four standard errors."""
    declared = NoiseDeclaration(text="+".join(texts))
    drawn = _drawn(texts)
    assert 3 <= len(declared.windows) <= 8
    for window in declared.windows:
        error = math.sqrt(window.probability * (1 - window.probability) / drawn.size)
        for centre in (-2.0, -0.25, 0.0, 0.1, 0.3, 0.5):
            assert np.mean(np.abs(drawn - centre) < window.half) <= window.probability + 4 * error


def test_the_windows_of_a_grid_hold_a_whole_number_of_its_points() -> None:
    declared = NoiseDeclaration(text="skellam:sigma=2,step=0.25")
    halves = np.array([window.half for window in declared.windows]) / 0.25
    assert set((halves % 1).tolist()) == {0.5}
    assert halves[0] == 0.5
    assert declared.laws[0].half_widths()[0] == 0.125


def test_values_are_counted_where_rounding_cannot_have_moved_them_in() -> None:
    windows = [NoiseWindow(half=1.0, probability=0.1), NoiseWindow(half=2.0, probability=0.2)]
    values = np.array([[0.0, 0.95, -1.0], [1.5, 1.95, 9.0]])
    np.testing.assert_array_equal(inside(windows, values, 1), [[2, 0], [3, 2]])
    np.testing.assert_array_equal(inside(windows, values, 1, 0.1), [[1, 0], [3, 1]])
    np.testing.assert_array_equal(inside(windows, values, None, np.array([[0.1], [0.0]])), [[1], [5]])


@pytest.mark.parametrize("probability", [0.001, 0.3, 0.98])
@pytest.mark.parametrize("trials", [46, 4000, 184_000])
def test_a_count_is_too_many_by_the_binomial_law(probability: float, trials: int) -> None:
    windows = [NoiseWindow(half=1.0, probability=probability)]
    least = int(binom.isf(SURE, trials, probability)) + 1
    for hits in range(max(0, least - 2), min(trials, least + 2) + 1):
        rare = hits > 0 and binom.sf(hits - 1, trials, probability) < SURE
        assert bool(too_many(windows, np.array([[hits]]), trials)[0]) == rare
    assert enough_trials(windows, trials) == (probability**trials < SURE)


# --- power ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rows", "told"),
    [
        *[(text, rows, rows == 40) for text in (LAPLACE, "skellam:sigma=0.8,step=0.5") for rows in (5, 40)],
        *[("gamma-share:n=200,scale=2.5", rows, rows == 4000) for rows in (400, 4000)],
        ("gamma-share:n=1000,scale=2.5", 4000, False),
    ],
)
def test_power_is_told_as_trials_show_it(text: str, rows: int, told: bool) -> None:
    """Noise of half the variance: found in all of 20 trials where sound noise says so, else in few."""
    declared, found = NoiseDeclaration(text=text), 0
    weak = declared.laws[0].with_variance(0.5)
    assert isinstance(weak, GammaShare | Skellam)
    for seed in range(20):
        sound, less = WindowCounter(declared.windows), WindowCounter(declared.windows)
        noise = lint_traces.noise_of(text, seed, shape=(rows, 46))
        sound.add(inside(declared.windows, noise, None), noise.size)
        drawn = weak.sample(Streams(seed).clients("weak", 0, np.arange(rows)), 46)
        less.add(inside(declared.windows, drawn, None), drawn.size)
        found += bool(less.too_many.any())
        assert not sound.too_many.any()
        assert sound.would_detect(declared.ratios_of_weaker(0.5)) is told
    assert found == 20 if told else found < 10


def test_what_clients_learn_takes_the_power_away() -> None:
    declared = NoiseDeclaration(text=LAPLACE)
    noise = lint_traces.noise_of(LAPLACE, 0, shape=(400, 46))
    for size, told in ((0.1, True), (300.0, False)):
        moves = size * np.random.default_rng(3).normal(size=noise.shape)
        counted = WindowCounter(declared.windows)
        counted.add(inside(declared.windows, moves + noise, None), noise.size)
        assert counted.would_detect(declared.ratios_of_weaker(0.5)) is told
        assert counted.would_detect(declared.ratios_of_shared()) is told
