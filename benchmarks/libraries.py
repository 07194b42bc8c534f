"""What is written by hand, compared with the library that could do it: one thread each, in turn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.timing import TimingTask, interleave
from foltr_audit.kernels.regression import box_least_absolute, box_least_squares, least_absolute
from foltr_audit.utils.arrays import Floats

_PARAMETERS, _DOCUMENTS, _SYSTEMS = 46, 10, 64

Solver = Callable[[Floats, Floats], Floats]


def _systems(count: int) -> tuple[Floats, Floats]:
    """Updates of clicks with heavy-tailed noise, as attacks meet them: (n, P, m) and (n, P)."""
    rng = np.random.default_rng(1)
    columns = rng.normal(size=(count, _PARAMETERS, _DOCUMENTS))
    clicks = rng.random((count, _DOCUMENTS)) < 0.3
    noise = rng.laplace(size=(count, _PARAMETERS)) * (rng.random((count, _PARAMETERS)) < 0.1)
    return columns, np.einsum("npm,nm->np", columns, clicks) + noise


def _linear_program(columns: Floats, values: Floats, *, boxed: bool) -> Floats:
    """Least absolute deviations of one system as HiGHS solves it."""
    from scipy.optimize import linprog

    P, m = columns.shape
    cost = np.concatenate([np.zeros(m), np.ones(2 * P)])
    equal = np.hstack([columns, np.eye(P), -np.eye(P)])
    bounds = [(0, 1) if boxed else (None, None)] * m + [(0, None)] * (2 * P)
    found = np.asarray(linprog(cost, A_eq=equal, b_eq=values, bounds=bounds, method="highs").x)
    return found[:m]


def _each(solve: Solver, columns: Floats, values: Floats) -> None:
    for design, target in zip(columns, values, strict=True):
        solve(design, target)


def _bounded(columns: Floats, values: Floats) -> Floats:
    from scipy.optimize import lsq_linear

    return np.asarray(lsq_linear(columns, values, bounds=(0, 1)).x)


def libraries(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Systems a second of the solvers over those of the library."""
    columns, values = _systems(4 if options.quick else _SYSTEMS)
    upper, n = np.ones(columns.shape[::2]), len(columns)
    figures = []
    for name, text, ours, theirs in (
        (
            "lad",
            "L1 regression / scipy.optimize.linprog (HiGHS)",
            lambda: least_absolute(columns, values),
            lambda: _each(lambda c, v: _linear_program(c, v, boxed=False), columns, values),
        ),
        (
            "box_lad",
            "L1 regression in a box / scipy.optimize.linprog (HiGHS)",
            lambda: box_least_absolute(columns, values, upper),
            lambda: _each(lambda c, v: _linear_program(c, v, boxed=True), columns, values),
        ),
        (
            "box_ls",
            "least squares in a box / scipy.optimize.lsq_linear",
            lambda: box_least_squares(columns, values, upper),
            lambda: _each(_bounded, columns, values),
        ),
    ):
        figures.append(_ratio(f"libraries.{name}", text, ours, theirs, n, options))
    return figures


def _ratio(
    name: str,
    text: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    units: int,
    options: BenchmarkOptions,
) -> BenchmarkFigure:
    """How many times as fast the hand-written code is."""

    def repeated(work: Callable[[], object]) -> Callable[[int], None]:
        def run(times: int) -> None:
            for _ in range(times):
                work()

        return run

    tasks = [TimingTask("ours", repeated(ours), units), TimingTask("library", repeated(theirs), units)]
    rates = interleave(tasks, min(5, options.turns), options.least)
    return BenchmarkFigure.of(name, text, rates.ratio("ours", "library"), "x")
