"""Tables of log densities against the laws that they were made of."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.kernels import density
from foltr_audit.kernels.density import FLOOR, HIGHEST, DensityTable, tabulate
from foltr_audit.privacy import noise
from foltr_audit.privacy.noise import GammaShare, Gaussian, NoiseLaw, RoundingNoise, ScaleFreeNoise

ACCURACY = 1e-7
COUNTS = (1, 10, 100, 300, 500, 900, 1000, 2000, 5000, 20_000)
LAWS: list[NoiseLaw] = [
    *(GammaShare(n=1000, scale=2.5, count=count) for count in COUNTS),
    *(GammaShare(n=1000, scale=scale) for scale in (1e-300, 1e300)),
    *(Gaussian(sigma=sigma) for sigma in (0.3, 1e-9)),
    *(RoundingNoise(resolution=2.0**-bits) for bits in (24, 50)),
    ScaleFreeNoise(resolution=2.0**-24),
]
EVERY_LAW = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.text},unit={law.scale:g}")


@numba.njit(error_model="numpy")
def looked_up(table: DensityTable, x: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = density.log_density_at(table, x[i])
    return out


def table_of(law: NoiseLaw) -> DensityTable:
    return tabulate(law.log_density, law.scale)


def log_uniform(low: float, high: float, size: int, seed: int = 0) -> NDArray[np.float64]:
    return np.exp(np.random.default_rng(seed).uniform(math.log(low), math.log(high), size))


@EVERY_LAW
def test_tables_agree_with_their_law(law: NoiseLaw) -> None:
    z = np.concatenate(
        [log_uniform(FLOOR, HIGHEST, 200_000), np.random.default_rng(1).uniform(0, 100.0, 20_000)]
    )
    x = np.maximum(z, FLOOR) * law.scale
    assert np.abs(looked_up(table_of(law), x) - law.log_density(x)).max() < ACCURACY


@EVERY_LAW
def test_tables_meet_their_law_at_the_ends_of_every_cell(law: NoiseLaw) -> None:
    """Every 1/32 of an octave, and the numbers right beside."""
    cells = (2.0 ** np.arange(-29, 12)[:, np.newaxis] * (1 + np.arange(32) / 32)).ravel()
    table, exact = table_of(law), law.log_density(cells * law.scale)
    for beside in (cells * (1 - 2.0**-52), cells, cells * (1 + 2.0**-52)):
        np.testing.assert_allclose(looked_up(table, beside * law.scale), exact, rtol=1e-12, atol=1e-11)


@EVERY_LAW
def test_tables_are_even_finite_and_falling(law: NoiseLaw) -> None:
    table = table_of(law)
    multiples = np.sort(np.concatenate([log_uniform(1e-12, 1e6, 100_000), np.geomspace(1e-320, 1e308, 2000)]))
    with np.errstate(over="ignore"):
        x = np.minimum(multiples * law.scale, np.finfo(np.float64).max)
    right = looked_up(table, x)
    assert np.isfinite(right).all()
    np.testing.assert_array_equal(looked_up(table, -x), right)
    assert np.all(np.diff(right) <= 1e-14 * (1 + np.abs(right[1:])))  # but for the last digits
    assert right[0] - right[-1] > 5.0


@EVERY_LAW
def test_numbers_beyond_all_others_have_a_density(law: NoiseLaw) -> None:
    table = table_of(law)
    at_floor, at_zero, tiny, infinite, nothing = looked_up(
        table, np.array([FLOOR * law.scale, 0.0, 1e-320 * min(law.scale, 1.0), math.inf, math.nan])
    )
    assert at_zero == tiny == pytest.approx(at_floor, abs=1e-9)
    assert at_zero == pytest.approx(float(law.log_density(FLOOR * law.scale)), abs=1e-9)
    assert -math.inf < infinite < -1e290  # 136 of them still have a finite sum
    assert nothing == infinite


@EVERY_LAW
def test_tables_go_on_in_a_straight_line(law: NoiseLaw) -> None:
    table = table_of(law)
    z = np.array([HIGHEST, 1e4, 3e4, 1e7])
    found = looked_up(table, z * law.scale)
    slopes = np.diff(found) / np.diff(z)
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9)
    h = 1e-2
    beside = law.log_density(np.array([HIGHEST - h, HIGHEST + h]) * law.scale)
    assert slopes[0] == pytest.approx((beside[1] - beside[0]) / (2 * h), rel=1e-4)
    assert found[0] == pytest.approx(float(law.log_density(HIGHEST * law.scale)), abs=1e-8)


def test_a_rising_end_goes_on_level() -> None:
    table = tabulate(lambda x: x, 1.0)
    assert looked_up(table, np.array([1e5, 1e300])).tolist() == [HIGHEST, HIGHEST]


def test_one_call_gives_what_the_loop_gives() -> None:
    table = table_of(LAWS[0])
    x = log_uniform(1e-12, 1e5, 50)
    single = [looked_up(table, x[i : i + 1])[0] for i in range(x.size)]
    np.testing.assert_array_equal(single, looked_up(table, x))


def test_tables_begin_where_the_laws_do() -> None:
    assert noise.FLOOR == FLOOR
