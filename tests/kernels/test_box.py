"""Regression in a box and without one, against SciPy's solvers and the conditions of an optimum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, lsq_linear

from foltr_audit.kernels.regression import box_least_absolute, box_least_squares, least_absolute
from foltr_audit.utils.arrays import Floats
from tests.fixtures.reference import numba_threads
from tests.kernels.test_lad import NOISES, noise, tied

Solver = Callable[[Floats, Floats, Floats], Floats]
BOTH = pytest.mark.parametrize("solver", [box_least_absolute, box_least_squares])
P = 46


def free(design: Floats, values: Floats, upper: Floats) -> Floats:
    """Least absolute deviations without a box."""
    return least_absolute(design, values)


EVERY = pytest.mark.parametrize("solver", [box_least_absolute, box_least_squares, free])


def laplacian(rng: np.random.Generator, rows: int, m: int) -> Floats:
    """What m clicks, in lists of at most ten, do to a model: `J^T L` of each list side by side, (rows, m)."""
    parts = []
    for start in range(0, m, 10):
        size = min(10, m - start)
        J, W = rng.normal(size=(rows, size)), np.triu(rng.random((size, size)), 1)
        parts.append(J @ (np.diag((W + W.T).sum(axis=1)) - W - W.T))
    return np.hstack(parts)


def systems(n: int, rows: int, m: int, kind: str, seed: int) -> tuple[Floats, Floats, Floats]:
    """Laplacian designs (n, rows, m), values (n, rows) and the clicks (n, m) behind them."""
    rng = np.random.default_rng(seed)
    design = np.stack([laplacian(rng, rows, m) for _ in range(n)])
    clicks = (rng.random((n, m)) < 0.4).astype(np.float64)
    clicks[:, ::10], clicks[:, 1::10] = 1.0, 0.0
    return design, np.einsum("npm,nm->np", design, clicks) + 10 * noise(kind, (n, rows), rng), clicks


def cost(solver: Solver, X: Floats, y: Floats, c: Floats) -> float:
    residuals = y - X @ c
    return float(residuals @ residuals if solver is box_least_squares else np.abs(residuals).sum())


def least(solver: Solver, X: Floats, y: Floats, upper: Floats) -> float:
    """The least cost in the box, from HiGHS or from SciPy's bounded least squares."""
    rows, m = X.shape
    size = float(np.median(np.abs(y[y != 0]))) if y.any() else 1.0
    if solver is not box_least_squares:
        ends = [(None, None)] * m if solver is free else [(0, bound) for bound in upper / size]
        program = linprog(
            np.concatenate([np.zeros(m), np.ones(2 * rows)]),
            A_eq=np.hstack([X, np.eye(rows), -np.eye(rows)]),
            b_eq=y / size,
            bounds=ends + [(0, None)] * (2 * rows),
            method="highs",
        )
        assert program.x is not None
        found = program.x[:m] * size
        return cost(solver, X, y, found if solver is free else np.clip(found, 0, upper))
    asked = upper > 0
    c = np.zeros(m)
    if asked.any():
        fit = lsq_linear(X[:, asked], y, (0, upper[asked]), method="bvls", tol=1e-15, max_iter=1000)
        c[asked] = np.clip(fit.x, 0, upper[asked])
    return cost(solver, X, y, c)


def tie_break(X: Floats, y: Floats, c: Floats) -> float:
    """The sum that is least at the answer among several minimizers."""
    spread = np.arange(y.size) * 0.6180339887498949 % 1.0
    return float(np.abs(X).sum(axis=0) @ c + spread @ np.abs(y - X @ c))


def solve(solver: Solver, X: Floats, y: Floats, upper: Floats) -> Floats:
    c = np.asarray(solver(X[np.newaxis], y[np.newaxis], upper[np.newaxis])[0])
    assert solver is free or np.all((c >= 0) & (c <= upper))
    return c


# --- they are minimisers -----------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize(("rows", "m"), [(46, 10), (46, 80), (150, 20), (5, 1), (1, 6), (46, 46)])
def test_scipy_does_no_better(solver: Solver, kind: str, rows: int, m: int) -> None:
    design, values, _ = systems(4, rows, m, kind, rows + m)
    rng = np.random.default_rng(1)
    upper = rng.choice([0.0, 0.5, 1.0, 7.0], size=(4, m), p=[0.1, 0.2, 0.6, 0.1])
    for X, y, u in zip(design, values, upper, strict=True):
        found = cost(solver, X, y, solve(solver, X, y, u))
        assert found <= least(solver, X, y, u) * (1 + 1e-9) + 1e-12 * cost(solver, X, y, np.zeros(m))


@EVERY
@settings(max_examples=80, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 25),
    m=st.integers(1, 12),
    largest=st.integers(1, 3),
    twins=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=3),
    empty=st.lists(st.integers(0, 11), max_size=3),
    fits=st.booleans(),
)
def test_small_whole_numbers(
    solver: Solver,
    seed: int,
    rows: int,
    m: int,
    largest: int,
    twins: list[tuple[int, int]],
    empty: list[int],
    fits: bool,
) -> None:
    """Many residuals are 0 at once, edges tie, columns depend on each other; some bounds are 0."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-largest, largest + 1, size=(rows, m)).astype(np.float64)
    for one, other in twins:
        X[:, one % m] = X[:, other % m]
    X[:, [column % m for column in empty]] = 0.0
    y = X @ rng.integers(0, 3, size=m) if fits else rng.integers(-3, 4, size=rows).astype(np.float64)
    upper = rng.integers(0, 4, size=m).astype(np.float64)
    c = solve(solver, X, y, upper)
    assert cost(solver, X, y, c) <= least(solver, X, y, upper) + 1e-8
    assert not c[[column % m for column in empty]].any()
    order = rng.permutation(m)
    again = np.empty(m)
    again[order] = solve(solver, X[:, order], y, upper[order])
    if solver is box_least_absolute:  # multiples of one column may be equally good
        assert tie_break(X, y, again) == pytest.approx(tie_break(X, y, c), abs=1e-6)
    else:
        np.testing.assert_allclose(again, c, rtol=0, atol=1e-6)


@EVERY
@pytest.mark.parametrize("seed", range(30))
def test_a_descent_that_marks_time(solver: Solver, seed: int) -> None:
    X, y = tied(seed)
    upper = np.ones(X.shape[1])
    assert cost(solver, X, y, solve(solver, X, y, upper)) <= least(solver, X, y, upper) * (1 + 1e-9)


@BOTH
@pytest.mark.parametrize("condition", [1e4, 1e7, 1e10])
def test_nearly_dependent_columns(solver: Solver, condition: float) -> None:
    rng = np.random.default_rng(21)
    for i in range(60):
        rows, m = int(rng.integers(10, 40)), int(rng.integers(3, 30))
        left, right = (np.linalg.qr(rng.normal(size=(size, min(rows, m))))[0] for size in (rows, m))
        X = left * condition ** -rng.random(min(rows, m)) @ right.T
        X[:, 1] = X[:, 0] * (1 + rng.normal(size=rows) / condition)
        y = X @ rng.random(m) + (0.0, 1e-9, 0.1)[i % 3] * rng.standard_cauchy(size=rows)
        upper = np.full(m, (1.0, 0.3, 3.0)[i % 3])
        room = (1e-12 if solver is box_least_absolute else 1e-8) * cost(solver, X, y, np.zeros(m))
        assert cost(solver, X, y, solve(solver, X, y, upper)) <= least(solver, X, y, upper) + room


# --- one of many minimisers --------------------------------------------------------------------------


def extreme_tie(X: Floats, y: Floats, weights: Floats, best: float, sign: int) -> float:
    """The least (1) or largest (-1) weighted sum of minimisers in [0, 2] and their absolute residuals."""
    rows, m = X.shape
    program = linprog(
        sign * weights,
        A_eq=np.hstack([X, np.eye(rows), -np.eye(rows)]),
        b_eq=y,
        A_ub=np.repeat([[0.0, 1.0]], [m, 2 * rows], axis=1),
        b_ub=np.array([best + 1e-9]),
        bounds=[(0, 2)] * m + [(0, None)] * (2 * rows),
        method="highs",
    )
    assert program.x is not None
    return float(weights @ program.x)


def test_which_of_several_minimisers_of_absolute_residuals() -> None:
    """Against a second linear program, over all unknowns of the least sum of absolute residuals.

    Made of whole numbers: seldom is the minimiser unique.
    """
    rng = np.random.default_rng(8)
    evenly = np.arange(7) * (np.sqrt(5) - 1) / 2 % 1
    several = 0
    for _ in range(60):
        X = rng.integers(-1, 2, size=(7, 6)).astype(np.float64)
        y = rng.integers(-2, 3, size=7).astype(np.float64)
        c = solve(box_least_absolute, X, y, np.full(6, 2.0))
        weights = np.concatenate([np.abs(X).sum(axis=0), evenly, evenly])
        best = cost(box_least_absolute, X, y, c)
        lowest, highest = (extreme_tie(X, y, weights, best, sign) for sign in (1, -1))
        several += highest > lowest + 1e-3
        assert weights[:6] @ c + evenly @ np.abs(y - X @ c) == pytest.approx(lowest, abs=1e-6)
    assert several > 10


@pytest.mark.parametrize("kind", NOISES)
def test_squares_of_the_shortest(kind: str) -> None:
    """Fewer equations than unknowns, all fitted inside the box: NumPy's shortest solution."""
    rng = np.random.default_rng(9)
    X, c = np.abs(rng.normal(size=(5, 12))) / 12, rng.uniform(0.9, 1.1, size=12)
    y = X @ c + 0.01 * noise(kind, (5,), rng).clip(-1, 1)
    shortest = np.linalg.lstsq(X / np.exp2(np.frexp(X.max(axis=0))[1]), y, rcond=None)[0]
    expected = shortest / np.exp2(np.frexp(X.max(axis=0))[1])
    assert np.all(expected > 0)
    np.testing.assert_allclose(solve(box_least_squares, X, y, np.full(12, 9.0)), expected, rtol=0, atol=1e-5)


@BOTH
def test_twins_share_their_weight(solver: Solver) -> None:
    rng = np.random.default_rng(10)
    X = rng.normal(size=(30, 4))
    X[:, 2] = X[:, 0]
    y = X @ [1.0, 0.4, 0.2, 0.0]
    np.testing.assert_allclose(solve(solver, X, y, np.ones(4)), [0.6, 0.4, 0.6, 0.0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(
        solve(solver, X, y, np.array([0.0, 1.0, 2.0, 1.0])), [0.0, 0.4, 1.2, 0.0], rtol=0, atol=1e-7
    )


def test_twins_of_absolute_residuals_share_in_the_ratio_of_their_bounds() -> None:
    X = np.array([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0]])
    c = solve(box_least_absolute, X, X @ [0.3, 0.6], np.array([0.5, 1.0]))
    np.testing.assert_allclose(c, [0.3, 0.6], rtol=0, atol=1e-12)


# --- what does not change them -----------------------------------------------------------------------


@BOTH
@settings(max_examples=40, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(NOISES),
    order=st.permutations(range(30)),
    exponent=st.integers(-300, 300),
)
def test_permuted_and_scaled_systems(
    solver: Solver, seed: int, kind: str, order: list[int], exponent: int
) -> None:
    design, values, _ = systems(3, P, 30, kind, seed)
    upper = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], size=(3, 30))
    c = solver(design, values, upper)
    np.testing.assert_allclose(
        solver(design[..., order], values, upper[:, order]), c[:, order], rtol=0, atol=1e-6
    )
    large = solver(design, np.ldexp(values, exponent), np.ldexp(upper, exponent))
    assert np.array_equal(large, np.ldexp(c, exponent))
    exponents = np.where(np.arange(30) % 3, exponent, -exponent)
    stretched = solver(np.ldexp(design, exponents), values, np.ldexp(upper, -exponents))
    assert np.array_equal(stretched, np.ldexp(c, -exponents))


@EVERY
def test_systems_at_once_equal_systems_one_by_one(solver: Solver) -> None:
    parts = [systems(6, P, 30, kind, 11) for kind in NOISES]
    design, values = (np.concatenate([part[i] for part in parts]) for i in range(2))
    upper = np.ones((30, 30))
    design[3, :, 4] = design[3, :, 2]
    design[7, :, 5] = values[9] = upper[11] = upper[12, ::3] = 0.0
    together = solver(design, values, upper)
    for i in range(30):
        alone = solver(design[i : i + 1], values[i : i + 1], upper[i : i + 1])
        assert alone.tobytes() == together[i].tobytes()
    with numba_threads(1):
        assert solver(design, values, upper).tobytes() == together.tobytes()


@EVERY
def test_views_in_any_memory_order_that_may_not_be_written(solver: Solver) -> None:
    given_ = (*systems(3, P, 10, "sparse", 12)[:2], np.ones((3, 10)))
    frozen = tuple(np.asfortranarray(part) for part in given_)
    for part in frozen:
        part.flags.writeable = False
    assert np.array_equal(solver(*frozen), solver(*given_))


# --- numbers of any size -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-20, 1e20, 1e300])
def test_values_of_any_size_in_a_box_of_one(solver: Solver, kind: str, size: float) -> None:
    """Values too small to matter give next to nothing; huge ones push every unknown to an end."""
    design, values, _ = systems(4, P, 10, kind, 13)
    c = solver(design, values * size, np.ones((4, 10)))
    assert np.all((c >= 0) & (c <= 1))
    if size < 1:
        assert np.all(c <= 1e6 * size)
    elif kind in ("laplace", "cauchy"):
        weights = np.sign(values) if solver is box_least_absolute else values
        falls = np.einsum("npm,np->nm", design, weights)
        np.testing.assert_array_equal(c, (falls > 0).astype(np.float64))


@EVERY
def test_systems_without_content(solver: Solver) -> None:
    rng = np.random.default_rng(14)
    X, y, ones = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5)), np.ones((2, 3))
    nothing = [[0.0] * 3] * 2
    assert solver(X, np.zeros((2, 5)), ones).tolist() == nothing
    assert solver(np.zeros((2, 5, 3)), y, ones).tolist() == nothing
    assert solver is free or solver(X, y, np.zeros((2, 3))).tolist() == nothing
    assert solver(X[:, :0], y[:, :0], ones).tolist() == nothing
    assert solver(X[..., :0], y, ones[:, :0]).shape == (2, 0)
    assert solver(X[:0], y[:0], ones[:0]).shape == (0, 3)
