"""How often audits of functions refute true and false claims: `python -m benchmarks.function_audits`.

Each mechanism claims an epsilon of 1.2, and is audited with other seeds, by all the defaults of
`audit FILE.py:FUNCTION` but for the number of trials. Broken mechanisms add 15 % less noise, or reuse a seed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.api import audit_mechanism

EPS, LESS = 1.2, 0.85

Vector = NDArray[np.float64]
Release = Callable[[Vector, np.random.Generator], object]


class NamedFunction(NamedTuple):
    """A mechanism, and how many numbers it releases."""

    name: str
    release: Release
    length: int


def laplace(scale: float) -> Release:
    """Laplace noise on each number."""
    return lambda x, rng: x + rng.laplace(scale=scale, size=x.shape)


def geometric(eps: float) -> Release:
    """The two-sided geometric mechanism, with whole numbers."""
    stop = 1 - math.exp(-eps)
    return lambda x, rng: x + rng.geometric(stop, size=x.shape) - rng.geometric(stop, size=x.shape)


def answer(eps: float) -> Release:
    """Randomised response."""
    return lambda x, rng: bool(x[0]) != bool(rng.random() < 1 / (1 + math.exp(eps)))


def reseeded(x: Vector, rng: np.random.Generator) -> Vector:
    """Noise of one of ten seeds."""
    return x + np.random.default_rng(int(rng.integers(10))).laplace(scale=1 / EPS, size=x.shape)


FUNCTIONS = (
    NamedFunction("Laplace, one number", laplace(1 / EPS), 1),
    NamedFunction("Laplace, ten numbers", laplace(1 / EPS), 10),
    NamedFunction("geometric", geometric(EPS), 1),
    NamedFunction("randomised response", answer(EPS), 1),
    NamedFunction("Laplace, one number, 15 % less noise", laplace(LESS / EPS), 1),
    NamedFunction("Laplace, ten numbers, 15 % less noise", laplace(LESS / EPS), 10),
    NamedFunction("geometric, 15 % less noise", geometric(EPS / LESS), 1),
    NamedFunction("randomised response, 15 % less noise", answer(EPS / LESS), 1),
    NamedFunction("Laplace, ten seeds", reseeded, 1),
)
"""What is audited: intact mechanisms, then broken ones."""


def rows(runs: int, sizes: Sequence[int], functions: Sequence[NamedFunction] = FUNCTIONS) -> Iterator[str]:
    """The table in Markdown: per number of trials the mean bound, and the share of audits that refute."""
    heads = [f"{n:,} trials: mean bound | refuted | noise repeats" for n in sizes]
    yield f"| mechanism | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * 3 * len(sizes)}"
    for each in functions:
        inputs = np.zeros(each.length), np.eye(each.length)[0]
        cells = []
        for n in sizes:
            found = [
                audit_mechanism(each.release, inputs, eps=EPS, trials=n, seed=seed).results[0]
                for seed in range(runs)
            ]
            bound = np.mean([row["eps_lower"] for row in found])
            refuted = np.mean([row["verdict"] == "refuted" for row in found])
            repeats = np.mean([row["repeats"] is not None for row in found])
            cells.append(f"{bound:.2f} | {100 * refuted:.1f} % | {100 * repeats:.1f} %")
        yield f"| {each.name} | {' | '.join(cells)} |"


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="Audits of each mechanism.")
    parser.add_argument("--trials", type=int, nargs="+", default=[2000, 10_000], help="Evaluated trials.")
    options = parser.parse_args(given)
    for line in rows(options.runs, options.trials):
        print(line, flush=True)


if __name__ == "__main__":
    main()
