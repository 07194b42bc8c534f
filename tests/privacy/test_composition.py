"""Composition: against enumeration, convolution and integrals that take no short cut."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal, special, stats

from foltr_audit.privacy.loss.composition import amplified, laplace_over, pure_over
from foltr_audit.privacy.loss.losses import GaussianLoss, LaplaceLoss
from foltr_audit.privacy.noise import DiscreteGaussian, Skellam

Masses = NDArray[np.float64]


def delta_of(one: Masses, other: Masses, eps: float) -> float:
    """The smallest delta at eps of two laws on the same points."""
    return float(np.maximum(one - math.exp(eps) * other, 0.0).sum())


# --- pure mechanisms --------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("delta", [1e-3, 0.05, 0.3])
def test_randomised_response_that_runs_several_times(times: int, delta: float) -> None:
    """All outcomes, in exact fractions of the odds 9 : 1."""
    found = pure_over(math.log(9), times, delta)
    one, other = [], []
    for bits in product((9, 1), repeat=times):
        one.append(float(Fraction(math.prod(bits), 10**times)))
        other.append(float(Fraction(math.prod(10 - bit for bit in bits), 10**times)))
    assert delta_of(np.array(one), np.array(other), found) <= delta * (1 + 1e-9)
    if found > 0:
        assert delta_of(np.array(one), np.array(other), found - 1e-6) > delta


@pytest.mark.parametrize("epsilon", [1e-3, 2.0, 800.0])
@pytest.mark.parametrize("times", [1, 20_000])
@pytest.mark.parametrize("delta", [1e-15, 0.1])
def test_a_delta_never_makes_it_worse_than_adding_up(epsilon: float, times: int, delta: float) -> None:
    assert pure_over(epsilon, times, 0.0) == times * epsilon
    laplace, response = laplace_over(epsilon, times, delta), pure_over(epsilon, times, delta)
    assert 0 <= laplace <= response * (1 + 1e-3) <= times * epsilon * (1 + 2e-3)


def laplace_deltas(epsilon: float, times: int, eps: float) -> tuple[float, float]:
    """Deltas below and above that of Laplace noise on a whole shift, run several times.

    Its privacy loss is +epsilon with mass 1/2, -epsilon with mass e^-epsilon / 2, and in between has the
    density e^((l - epsilon) / 2) / 4: each bin moved to its lower or to its upper end, then convolved.
    """
    bins = 4000
    ends = np.linspace(-epsilon, epsilon, bins + 1)
    inside = np.diff(0.5 * np.exp(0.5 * (ends - epsilon)))
    low, high = np.zeros(bins + 1), np.zeros(bins + 1)
    low[:-1], high[1:] = inside, inside
    deltas = []
    for masses in (low, high):
        masses[0] += 0.5 * math.exp(-epsilon)
        masses[-1] += 0.5
        assert masses.sum() == pytest.approx(1.0)
        total = masses
        for _ in range(times - 1):
            total = signal.fftconvolve(total, masses)
        losses = np.linspace(-times * epsilon, times * epsilon, total.size)
        deltas.append(float(total @ np.maximum(0.0, -np.expm1(np.minimum(0.0, eps - losses)))))
    return deltas[0], deltas[1]


@pytest.mark.parametrize(("epsilon", "times"), [(1.2, 1), (1.2, 4), (0.1, 12), (5.0, 3)])
@pytest.mark.parametrize("delta", [1e-4, 0.05])
def test_laplace_noise_that_runs_several_times(epsilon: float, times: int, delta: float) -> None:
    found = laplace_over(epsilon, times, delta)
    assert laplace_deltas(epsilon, times, found)[0] <= delta * (1 + 1e-9), "never too small"
    less = found - 0.01 * min(1.0, times * epsilon)
    if less > 0:
        assert laplace_deltas(epsilon, times, less)[1] > delta, "nor much too large"


# --- noise on a grid --------------------------------------------------------------------------------------


def grid_masses(law: DiscreteGaussian | Skellam) -> Masses:
    """The masses of a law around 0, the sum of several discrete Gaussians by convolution."""
    k = np.arange(-60.0, 61.0)
    if isinstance(law, Skellam):
        v = (law.sigma / law.step) ** 2
        bessel: list[float] = [special.ive(abs(order), v).item() for order in k]
        return np.array(bessel)
    one = np.exp(-0.5 * (k * law.step / law.sigma) ** 2)
    one /= one.sum()
    total: Masses = one
    for _ in range(law.count - 1):
        total = np.convolve(total, one)
    return total


LAWS = [
    DiscreteGaussian(sigma=3.0, step=1.0),
    DiscreteGaussian(sigma=0.6, step=1.0),
    DiscreteGaussian(sigma=1.0, step=1.0, count=6),
    DiscreteGaussian(sigma=0.5, step=0.5, count=3),
    Skellam(sigma=3.0, step=1.0),
    Skellam(sigma=0.7, step=1.0),
    Skellam(sigma=1.0, step=0.25),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.text)
@pytest.mark.parametrize(("shift", "rounds"), [(1, 1), (2, 1), (1, 4)])
def test_grid_noise_is_never_bounded_too_low(
    law: DiscreteGaussian | Skellam, shift: int, rounds: int
) -> None:
    """One coordinate, with every mass summed up; and the bound is not twice the truth either."""
    loss = GaussianLoss(shift * law.step * law.gaussian_slope, normal=False)
    masses = grid_masses(law)
    one, other = np.pad(masses, (shift, 0)), np.pad(masses, (0, shift))
    for _ in range(rounds.bit_length() - 1):
        one, other = np.outer(one, one).ravel(), np.outer(other, other).ravel()
        kept = one > 1e-14
        one, other = one[kept], other[kept]
    for delta in (1e-5, 1e-2):
        found = loss.epsilon(rounds, delta, 1.0)
        assert delta_of(one, other, found) <= delta
        if law.scale < 2 * law.step or (isinstance(law, DiscreteGaussian) and law.tau > 0.01):
            continue  # few grid steps: that bound is a loose one
        assert delta_of(one, other, 0.8 * found) > delta


# --- Gaussian noise, samples ------------------------------------------------------------------------------


def test_gaussian_noise_without_a_delta() -> None:
    for mu in (1e-30, 1e-3, 1e12):
        assert GaussianLoss(mu).epsilon(1, 0.0, 0.1) == math.inf
    assert GaussianLoss(0.0).epsilon(1, 0.0, 1.0) == 0.0
    assert GaussianLoss(1e12).epsilon(1, 1e-5, 1.0) == math.inf


@given(epsilon=st.floats(1e-6, 900.0), share=st.floats(1e-6, 1.0))
def test_amplification_is_the_formula_where_that_can_be_computed(epsilon: float, share: float) -> None:
    found = amplified(epsilon, share)
    assert 0 <= found <= epsilon * (1 + 1e-12) + 1e-12
    if epsilon < 600:
        assert found == pytest.approx(math.log1p(share * math.expm1(epsilon)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_samples_of_laplace_noise_over_rounds(delta: float) -> None:
    """Three rounds, each of a tenth of the clients: the pair where all others are like the replacement."""
    found = LaplaceLoss(1.0).epsilon(3, delta, 0.1)
    x = np.linspace(-12, 12, 121)
    edges = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])
    base = np.diff(stats.laplace.cdf(edges))
    mixed = 0.1 * np.diff(stats.laplace.cdf(edges, 1.0)) + 0.9 * base
    one, other = mixed, base
    for _ in range(2):
        one, other = np.multiply.outer(one, mixed), np.multiply.outer(other, base)
    assert delta_of(one, other, found) <= delta + 1e-12
    assert delta_of(other, one, found) <= delta + 1e-12
    assert delta_of(one, other, 0.4 * found) > delta
