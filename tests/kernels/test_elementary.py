"""Our exponential, logarithm, sine and cosine against numbers of many digits, and at their ends."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.kernels import elementary
from foltr_audit.kernels.elementary import exp, power
from foltr_audit.kernels.jit import kernel

SMALLEST = sys.float_info.min


def units_off(found: float, exact: Any) -> float:
    """How far a number is from an exact one, in units of the last place of the exact one."""
    return float(abs(mpmath.mpf(found) - exact) / mpmath.mpf(math.ulp(float(exact))))


@pytest.fixture(autouse=True)
def _many_digits() -> Any:
    with mpmath.workdps(60):
        yield


def exact(function: Callable[..., Any], x: float) -> Any:
    """A function of mpmath of the exact value of a float."""
    with mpmath.workdps(60):
        return function(mpmath.mpf(x))


@kernel
def decay(x: float) -> float:
    return elementary.decay(x)


@kernel
def log(x: float) -> float:
    return elementary.log(x)


@kernel
def log2(x: float) -> float:
    return elementary.log2(x)


# --- the exponential ---------------------------------------------------------------------------------


@settings(max_examples=200, derandomize=True)
@given(st.floats(-700.0, 0.0))
def test_decay_is_the_exponential(x: float) -> None:
    assert units_off(decay(x), exact(mpmath.exp, x)) < 2.0


@settings(max_examples=200, derandomize=True)
@given(st.floats(-708.0, 709.78))
def test_the_exponential(x: float) -> None:
    assert units_off(exp(x), exact(mpmath.exp, x)) < 2.0
    if -700.0 <= x <= 0.0:
        assert exp(x) == decay(x)


def test_decay_at_its_ends() -> None:
    assert decay(0.0) == 1.0
    assert decay(-0.0) == 1.0
    assert decay(-1e-300) == 1.0
    for x in (-700.0, -701.0, -1e300, -math.inf):
        assert decay(x) == pytest.approx(math.exp(-700.0), rel=1e-15)
    halves = [-math.log(2.0) * (n + 0.5) for n in range(1000)]  # where the split changes
    assert max(units_off(decay(x), exact(mpmath.exp, x)) for x in halves) < 2.0


def test_the_exponential_at_its_ends() -> None:
    assert exp(0.0) == exp(-0.0) == exp(1e-300) == 1.0
    assert exp(-math.inf) == exp(-1e300) == exp(-746.5) == 0.0
    assert exp(math.inf) == exp(1e300) == exp(709.8) == math.inf
    assert math.isnan(exp(math.nan))
    assert math.isfinite(exp(709.782712893384))
    for x in (-709.0, -720.5, -740.25, -744.4):  # results without all of their digits
        assert abs(exp(x) - float(exact(mpmath.exp, x))) <= 2 * 5e-324


@settings(max_examples=100, derandomize=True)
@given(st.floats(-690.0, 0.0), st.floats(1e-9, 10.0))
def test_decay_falls(x: float, less: float) -> None:
    assert decay(x - less) < decay(x)


# --- the logarithm -----------------------------------------------------------------------------------


@settings(max_examples=200, derandomize=True)
@given(st.one_of(st.floats(5e-324, sys.float_info.max), st.floats(0.4, 2.5), st.floats(5e-324, SMALLEST)))
def test_the_logarithm(x: float) -> None:
    if x != 1.0:
        assert units_off(log(x), exact(mpmath.log, x)) < 2.0


def test_the_logarithm_at_its_ends() -> None:
    assert log(1.0) == 0.0
    assert log(0.0) == log(-0.0) == -math.inf
    assert log(math.inf) == math.inf
    assert math.isnan(log(math.nan))
    assert math.isnan(log(-1.0))
    assert math.isnan(log(-math.inf))
    near = [1.0 + i * 2.0**-52 for i in range(1, 300)] + [1.0 - i * 2.0**-53 for i in range(1, 300)]
    assert max(units_off(log(x), exact(mpmath.log, x)) for x in near) < 2.0


def test_logarithms_to_base_2() -> None:
    assert [log2(2.0**n) for n in range(-1022, 1024)] == [float(n) for n in range(-1022, 1024)]
    ranks = [float(rank) for rank in range(2, 2000)]
    assert max(units_off(log2(x), exact(lambda y: mpmath.log(y, 2), x)) for x in ranks) < 2.0


# --- sine and cosine ---------------------------------------------------------------------------------


@numba.njit(error_model="numpy")
def turned(u: float) -> tuple[float, float]:
    return elementary.cosine_and_sine(u)


@settings(max_examples=200, derandomize=True)
@given(st.floats(2.0**-53, 1.0 - 2.0**-53))
def test_cosine_and_sine(u: float) -> None:
    for found, function in zip(turned(u), (mpmath.cospi, mpmath.sinpi), strict=True):
        true = exact(lambda y, f=function: f(2 * y), u)
        assert abs(found - true) < 2.0**-52
        if abs(true) > 1e-3:
            assert units_off(found, true) < 2.0


# --- they are what wide loops compute, too -----------------------------------------------------------


@numba.njit(error_model="numpy")
def many(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i, 0] = elementary.decay(-x[i])
        out[i, 1] = elementary.log_normal(x[i])
        out[i, 2], out[i, 3] = elementary.cosine_and_sine(x[i])


def test_a_loop_has_the_bits_of_single_calls() -> None:
    x = np.random.default_rng(3).random(1001)
    out = np.empty((x.size, 4))
    many(x, out)
    single = [(decay(-u), log(u), *turned(u)) for u in x.tolist()]
    np.testing.assert_array_equal(out, np.array(single))


@settings(max_examples=100, derandomize=True)
@given(st.floats(0.5, 1.5), st.integers(0, 1000))
def test_powers(base: float, n: int) -> None:
    assert power(base, n) == pytest.approx(float(exact(lambda x: x**n, base)), rel=1e-13)
