"""Noise laws: densities against integrals, closed forms, scipy and the sampler; texts that are read back."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from foltr_audit.defenses.laplace import GammaLaplace
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from foltr_audit.core.plugins import plain
from foltr_audit.errors import UsageError
from foltr_audit.privacy.noise import (
    FLOOR,
    AdditiveNoise,
    DiscreteGaussian,
    GammaShare,
    Gaussian,
    NoiseLaw,
    RoundingNoise,
    ScaleFreeNoise,
    Skellam,
)
from foltr_audit.privacy.noise.parse import parse_law
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from tests.fixtures import tiny
from tests.fixtures.reference import chi_square_p, numba_threads

SCALE = 2.5
FALSE_ALARM = 1e-4
PARTS = [(1000, 1), (100, 1), (10, 3), (2, 1), (1000, 501), (10, 9), (1, 1), (3, 4), (2, 5), (7, 210)]
SHARES = [GammaShare(n=n, scale=SCALE, count=count) for n, count in PARTS]
PROPER: list[NoiseLaw] = [*SHARES, Gaussian(sigma=0.3), RoundingNoise(resolution=2.0**-24)]
LARGE_SHAPE = GammaShare(n=1, scale=SCALE, count=10**6)
EVERY: list[NoiseLaw] = [*PROPER, LARGE_SHAPE, ScaleFreeNoise(resolution=2.0**-24)]


legendre = cache(np.polynomial.legendre.leggauss)


def both_sides(
    law: NoiseLaw, of: Callable[[Floats], Floats], low: float = FLOOR, high: float = 2e3, step: float = 0.5
) -> float:
    """Integral of `of(z)` times the density over low < |x| / scale < high, z = |x| / scale = exp(t).

    By Gauss-Legendre rules of two sizes on pieces of t, which have to agree.
    """
    ends = np.append(np.arange(math.log(low), math.log(high), step), math.log(high))
    half, centre = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    integrals = []
    for count in (80, 100):
        nodes, weights = legendre(count)
        t = (centre[:, np.newaxis] + np.outer(half, nodes)).ravel()
        z = np.exp(t)
        values = of(z) * np.exp(law.log_density(z * law.scale) + t) * law.scale
        integrals.append(2 * math.fsum(values * np.outer(half, weights).ravel()))
    assert integrals[0] == pytest.approx(integrals[1], rel=1e-10)
    return integrals[1]


def below_floor(law: NoiseLaw) -> float:
    """P(|x| < 1e-9 scale): where the density is infinite at 0, from the first two terms of its series.

    K_v(z) = pi / (2 sin(pi v)) (I_-v(z) - I_v(z)) with I_v(z) = (z/2)^v / Gamma(1 + v) for small z.
    """
    if not isinstance(law, GammaShare) or law.shape >= 0.5:
        at_floor = float(law.log_density(FLOOR * law.scale))
        return 2 * FLOOR * law.scale * math.exp(at_floor)
    a, v = law.shape, 0.5 - law.shape
    first = (FLOOR / 2) ** (2 * a) / (math.gamma(1 - v) * a)
    second = FLOOR / math.gamma(1 + v)
    return float((first - second) * math.sqrt(math.pi) / (math.sin(math.pi * v) * math.gamma(a)))


# --- the densities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", PROPER, ids=lambda law: law.text)
def test_densities_integrate_to_one(law: NoiseLaw) -> None:
    assert both_sides(law, np.ones_like) + below_floor(law) == pytest.approx(1.0, abs=2e-8)


@pytest.mark.parametrize("law", PROPER, ids=lambda law: law.text)
def test_variance_is_that_of_the_density(law: NoiseLaw) -> None:
    assert both_sides(law, lambda z: (z * law.scale) ** 2) == pytest.approx(law.variance, rel=1e-8)


@pytest.mark.parametrize("law", SHARES, ids=lambda law: law.text)
@pytest.mark.parametrize("t", [0.1, 1.0, 3.0])
def test_shares_add_up_to_laplace_noise(law: GammaShare, t: float) -> None:
    """The characteristic function is that of a Laplace variate to the power of the shape.

    1 - E cos(t X) sees nothing of what lies below the floor.
    """
    lost = both_sides(law, lambda z: 1.0 - np.cos(t * z), high=200.0, step=0.1)
    expected = -math.expm1(-law.shape * math.log1p(t * t))
    assert lost == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 0.3, 2.5, 1e9])
def test_all_shares_together_are_laplace_noise(scale: float) -> None:
    z = np.concatenate([[1e-9, 1e-6, 0.01], np.linspace(0.1, 50.0, 200)])
    for law in (GammaShare(n=1, scale=scale), GammaShare(n=40, scale=scale, count=40)):
        found = law.log_density(z * scale)
        np.testing.assert_allclose(found, -z - math.log(2 * scale), rtol=0, atol=1e-12)
    far = np.array([1e3, 9e3, 1.1e4, 1e6, 1e9, 1e12, 1e200])
    found = GammaShare(n=1, scale=scale).log_density(far * scale)
    np.testing.assert_allclose(found, -far - math.log(2 * scale), rtol=1e-14)


def sum_of_laplace(a: int, z: float) -> float:
    """Log density of a sum of `a` Laplace variates of scale 1, in 60 digits.

    K of order m + 1/2 is `sqrt(pi / (2 z)) exp(-z) sum_k (m + k)! / (k! (m - k)! (2 z)^k)`.
    """
    m = a - 1
    with localcontext() as context:
        context.prec = 60
        term, total = Decimal(1), Decimal(1)
        for k in range(m):
            term *= Decimal((m + k + 1) * (m - k)) / (Decimal(k + 1) * 2 * Decimal(z))
            total += term
        gamma = Decimal(math.factorial(m))
        return float((Decimal(z) / 2).ln() * m + total.ln() - Decimal(z) - gamma.ln() - Decimal(2).ln())


@pytest.mark.parametrize("a", [1, 2, 5, 25, 26, 27, 100, 1000])
def test_sums_of_many_laplace_variates_have_their_closed_form(a: int) -> None:
    """Also where the Bessel function overflows, and on both sides of where its expansion takes over."""
    law = GammaShare(n=1, scale=1.0, count=a)
    for z in (1e-9, 1e-3, 0.5, 3.0, 20.0, 24.9, 25.1, 300.0, 9_999.0, 10_001.0, 1e6):
        exact = sum_of_laplace(a, z)
        assert float(law.log_density(z)) == pytest.approx(exact, rel=1e-13, abs=2e-9), z


@pytest.mark.parametrize("order", [0.0, 1e-6, 0.3, 0.499, 7.7, 24.9])
def test_large_arguments_go_on_where_small_ones_end(order: float) -> None:
    """Against scipy's Bessel function where both can be had; that one gives NaN from about 1e9 on."""
    law = GammaShare(n=10**6, scale=1.0, count=round((0.5 + order) * 10**6))
    constant = math.lgamma(law.shape) + 0.5 * math.log(math.pi)
    z = np.array([9.9e3, 1.1e4, 2.3e5, 4e7])
    expected = order * np.log(z / 2) + np.log(special.kve(order, z)) - constant
    np.testing.assert_allclose(law.log_density(z) + z, expected, rtol=1e-9, atol=2e-8)
    assert np.isfinite(law.log_density([1e9, 1e15, 1e100, 1e300])).all()


@pytest.mark.parametrize("law", SHARES, ids=lambda law: law.text)
def test_a_pole_is_where_the_density_rises_towards_0(law: GammaShare) -> None:
    near, off = law.log_density([1e-9 * SCALE, 1e-6 * SCALE])
    assert law.has_pole == bool(near - off > 0.05)


@pytest.mark.parametrize("n", [3, 1000])
def test_the_density_of_a_share_stays_what_it_is_at_the_floor(n: int) -> None:
    law = GammaShare(n=n, scale=SCALE)
    at_floor = law.log_density(FLOOR * SCALE)
    for x in (0.0, 5e-324, 1e-300, 0.99e-9 * SCALE):
        assert law.log_density(x) == at_floor
    assert law.log_density(1.01e-9 * SCALE) < at_floor


def test_normal_and_rounding_laws_are_scipys() -> None:
    right = np.geomspace(1e-12, 500.0, 300)
    z = np.concatenate([-right, [0.0], right])
    for scale in (1e-8, 0.3, 40.0):
        x = z * scale
        normal, rounding = stats.norm(scale=scale), stats.laplace(scale=scale)
        np.testing.assert_allclose(Gaussian(sigma=scale).log_density(x), normal.logpdf(x), rtol=1e-13)
        np.testing.assert_allclose(
            RoundingNoise(resolution=scale).log_density(x), rounding.logpdf(x), rtol=1e-13, atol=1e-13
        )


def test_a_law_without_a_scale_is_the_limit_of_small_shares() -> None:
    x = np.array([1e-3, 1e-2, 0.05, 0.1, 1.0])
    free, share = ScaleFreeNoise(resolution=1e-12), GammaShare(n=10**8, scale=1e5)
    np.testing.assert_allclose(np.diff(free.log_density(x)), np.diff(share.log_density(x)), rtol=0, atol=3e-5)
    np.testing.assert_allclose(np.exp(free.log_density(x)), 1 / x, rtol=1e-7)
    assert free.log_density(0.0) == pytest.approx(-math.log(1e-12), abs=1e-12)
    assert free.variance == math.inf
    assert parse_law(free.text) is None


@pytest.mark.parametrize("law", EVERY, ids=lambda law: law.text)
def test_densities_are_finite_even_and_falling(law: NoiseLaw) -> None:
    x = np.concatenate([[0.0, 5e-324, 1e-320], np.geomspace(1e-300, 1e300, 2000), [1.79e308]])
    right = law.log_density(x)
    assert np.isfinite(right).all()
    np.testing.assert_array_equal(law.log_density(-x), right)
    assert np.all(np.diff(right) <= 1e-9 * np.abs(right[1:]))
    assert right[0] > right[-1]
    assert math.isnan(law.log_density(math.nan))


# --- density and sampler -----------------------------------------------------------------------------


def sampled(law: GammaShare, clients: int = 1000, size: int = 300) -> Floats:
    return law.sample(Streams(5).clients("noise", 0, np.arange(clients)), size)


def agreement(x: Floats, law: NoiseLaw) -> float:
    """Chi-square p value of the sizes of numbers under the law's density."""
    edges = [1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0]
    parts = [both_sides(law, np.ones_like, low, high) for low, high in pairwise([*edges, 1000.0])]
    kept = [i for i in range(len(edges)) if math.fsum(parts[i:]) < 1 - 1e-3]
    chances = [1 - math.fsum(parts[kept[0] :]), *(parts[i] for i in kept)]
    sizes = np.abs(x).ravel() / law.scale
    counts = np.bincount(np.searchsorted([edges[i] for i in kept], sizes), minlength=len(chances))
    return chi_square_p(counts, chances)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 1), (10, 1), (10, 3), (10, 10), (10, 25), (1, 4)])
def test_samples_follow_the_density(n: int, count: int) -> None:
    law = GammaShare(n=n, scale=SCALE, count=count)
    x = sampled(law)
    assert agreement(x, law) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert agreement(wrong * x, law) < FALSE_ALARM
    other = GammaShare(n=law.n * 10, scale=SCALE, count=law.count * 10 + 1)
    if law.shape < 1:  # a shape that is off by 10 % / count
        assert agreement(x, other) < FALSE_ALARM


def test_sums_of_shares_have_their_variance_on_both_sides_of_zero() -> None:
    for law in (GammaShare(n=10, scale=SCALE, count=7), GammaShare(n=10, scale=SCALE, count=35)):
        x = sampled(law)
        kurtosis = 3 + 3 / law.shape
        assert np.var(x) == pytest.approx(law.variance, rel=5 * math.sqrt((kurtosis - 1) / x.size))
        assert abs(x.mean()) < 5 * math.sqrt(law.variance / x.size)


STREAMED = [
    *(GammaShare(n=10, scale=1.0), GammaShare(n=4, scale=1.0, count=9), Gaussian(sigma=2.0)),
    *(Skellam(sigma=2.0, step=0.25), DiscreteGaussian(sigma=2.0, step=0.25)),
]


@pytest.mark.parametrize("law", STREAMED, ids=lambda law: law.text)
def test_samples_of_a_client_do_not_depend_on_what_else_is_drawn(law: AdditiveNoise) -> None:
    """Nor on how many coordinates follow; the number of shares comes from the law. On any threads."""
    ids = np.array([5, 2, 9])
    together = law.sample(Streams(3).clients("noise", 4, ids), 7)
    for row, client in zip(together, ids, strict=True):
        longer = law.sample(Streams(3).clients("noise", 4, np.array([client])), 200)
        np.testing.assert_array_equal(longer[0, :7], row)
    assert law.grid == 0 or np.array_equal(together / law.grid, np.rint(together / law.grid))
    assert law.sample(Streams(3).clients("noise", 4, ids), 0).shape == (3, 0)
    assert law.sample(Streams(3).clients("noise", 4, ids[:0]), 7).shape == (0, 7)
    streams, found = Streams(3).clients("noise", 4, np.arange(300)), []
    for threads in (1, 2):
        with numba_threads(threads):
            found.append(law.sample(streams, 50).tobytes())
    assert found[0] == found[1]


# --- texts -------------------------------------------------------------------------------------------

SCALES = st.one_of(st.floats(1e-300, 1e300), st.integers(1, 10**6).map(float))


@settings(max_examples=150, derandomize=True)
@given(n=st.integers(1, 10**15 - 1), scale=SCALES, count=st.one_of(st.just(1), st.integers(1, 10**15 - 1)))
def test_shares_are_read_back(n: int, scale: float, count: int) -> None:
    law = GammaShare(n=n, scale=scale, count=count)
    assert parse_law(law.text) == law
    assert law.text == f"gamma-share:n={n},scale={plain(scale)}" + (f",count={count}" if count > 1 else "")
    assert parse_law(f"laplace:scale={plain(scale)}") == GammaShare(n=1, scale=scale)


@settings(max_examples=60, derandomize=True)
@given(sigma=SCALES)
def test_normal_laws_are_read_back(sigma: float) -> None:
    assert Gaussian(sigma=sigma).text == f"gaussian:sigma={plain(sigma)}"
    assert parse_law(Gaussian(sigma=sigma).text) == Gaussian(sigma=sigma)


def test_texts_as_they_are_written() -> None:
    assert GammaShare(n=1000, scale=2.5).text == "gamma-share:n=1000,scale=2.5"
    assert GammaShare(n=1000, scale=3.0, count=7).text == "gamma-share:n=1000,scale=3,count=7"
    assert Gaussian(sigma=1e-7).text == "gaussian:sigma=1e-07"
    assert RoundingNoise(resolution=1.0).text == "none"
    defense, context = GammaLaplace(eps=1.2, sensitivity=3.0), tiny.context([0, 1], shares=500)
    assert parse_law(defense.law(context).text) == defense.law(context)


SHARE = "gamma-share:n=10,scale=2.5"
VALID = (SHARE, f"{SHARE},count=3", "laplace:scale=2", "gaussian:sigma=1")
NO_SCALES = "0 -1 nan inf 1e400 1e-400 1e301 1e-310 1_0 0x1 \u0662"
NO_SHARES = (
    "|n=10|scale=2.5|scale=2.5,n=10|n=0,scale=2.5|n=-1,scale=2.5|n=1.5,scale=2.5|n=1e3,scale=2.5"
    "|n=10,scale=2.5,count=0|n=10,scale=2.5,shape=1|n=10,n=10,scale=2.5|n=10000000000000000,scale=2.5"
)


@pytest.mark.parametrize(
    "text",
    [
        *("", "none", "unknown", "gamma-share", "laplace:b=1", "laplace:2", "gaussian:sigma=0"),
        *("gaussian:scale=1", "discrete-gaussian:sigma=0.4,step=1", "skellam:sigma=1"),
        "gaussian:sigma=" + "9" * 400,
        *(f"gamma-share:{wrong}" for wrong in NO_SHARES.split("|")),
        *(f"laplace:scale={wrong}" for wrong in NO_SCALES.split()),
        *(f"{one}+{other}" for one in VALID for other in VALID),
        *(form.format(text) for text in VALID for form in (" {}", "{} ", "{}\n", "{},", "x{}", "{}x")),
        *(text.upper() for text in VALID),
    ],
)
def test_what_is_no_law_is_none(text: str) -> None:
    assert parse_law(text) is None


@settings(max_examples=100, derandomize=True)
@given(st.one_of(st.text(), st.from_regex(r"(gamma-share|laplace|gaussian):[a-z=,.0-9e+-]{0,30}")))
def test_any_text_is_a_law_that_can_be_used_or_none(text: str) -> None:
    law = parse_law(text)
    if law is not None:
        assert np.isfinite(law.log_density([0.0, 1.0, 1e300])).all()
        assert law.variance >= 0


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_impossible_numbers_are_refused(wrong: float) -> None:
    for name, law in (
        ("scale", lambda: GammaShare(n=1, scale=wrong)),
        ("sigma", lambda: Gaussian(sigma=wrong)),
        ("resolution", lambda: RoundingNoise(resolution=wrong)),
        ("resolution", lambda: ScaleFreeNoise(resolution=wrong)),
    ):
        with pytest.raises(UsageError, match=f"noise: {name} {wrong}; expected a positive number"):
            law()
    if wrong <= 0:
        count = int(wrong)
        with pytest.raises(UsageError, match=f"noise: {count} Gamma shares; expected at least 1"):
            GammaShare(n=count, scale=1.0)
        with pytest.raises(UsageError, match=f"noise: a sum of {count} Gamma shares; expected at least 1"):
            GammaShare(n=5, scale=1.0, count=count)


# --- the loss of a shift next to the peak -----------------------------------------------------------------


@pytest.mark.parametrize(("n", "count"), [(100, 51), (100, 60), (100, 75), (100, 99), (1000, 501), (3, 2)])
@pytest.mark.parametrize("shift", [1e-18, 1e-12, 9.6e-9, 1.04e-8, 1e-6, 1e-3, 0.00999, 0.0101, 1.0])
def test_the_loss_of_a_small_shift_is_exact(n: int, count: int, shift: float) -> None:
    """Against 60 digits: the difference of two logarithms once was 2e-9 (relative) too small there."""
    import mpmath

    law = GammaShare(n=n, scale=1.0, count=count)
    with mpmath.workdps(60):
        order, z = mpmath.mpf(count) / n - mpmath.mpf(1) / 2, mpmath.mpf(shift)
        peak = mpmath.mpf(2) ** (order - 1) * mpmath.gamma(order)
        exact = max(-mpmath.log(z**order * mpmath.besselk(order, z) / peak), z)
        assert abs(float(mpmath.mpf(float(law.worst_loss(shift))) / exact - 1)) < 1e-12
