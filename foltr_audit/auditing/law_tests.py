"""Tests whether noise follows a law: its distribution, its independence, and that it does not repeat.

Each test counts something that is binomial with a known probability if the law holds, so that its p-value is
exact. `failure` corrects for the number of tests (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.law_table import LawTable
from foltr_audit.privacy.noise import NoiseLaw
from foltr_audit.utils.arrays import Floats, Ints

FALSE_ALARM = 1e-6
"""Probability, at most, that the tests of an audit together reject noise that is as declared."""

_LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 0.995, 0.999, 0.9999, 0.99999)
_COLUMN_LEVELS = (0.25, 0.75, 0.98)
RESOLVED = 1e3  # a size is tested if it is this many times its rounding
_COORDINATES = 64  # of a long message: all their pairs are compared


class LawTestResult(NamedTuple):
    """The result of one test.

    Attributes:
        p: its p-value.
        found: what a small p-value shows, in words.
    """

    p: float
    found: str


class NoiseDraws(NamedTuple):
    """Noise of N clients.

    Attributes:
        noise: float64 (N, P).
        where: for which input, in words that follow "noise".
        resolution: how far off rounding may have put a number.
    """

    noise: Floats
    where: str
    resolution: float = 0.0


def failure(tests: Sequence[LawTestResult], among: int) -> str | None:
    """What the test with the smallest p-value of `among` tests shows; None where chance explains it."""
    least = min(tests, key=lambda test: test.p, default=None)
    return None if least is None or least.p * among >= FALSE_ALARM else least.found


def check_noise(draws: NoiseDraws, law: NoiseLaw, table: LawTable) -> Iterator[LawTestResult]:
    """Test the distribution of noise, its independence, and its size in each coordinate."""
    yield from check_distribution(draws, law, table)
    yield from check_independence(draws, table)
    another = f"noise {draws.where} has another size in one coordinate"
    yield from check_each_column(draws.noise, table, another, draws.resolution)


def check_distribution(draws: NoiseDraws, law: NoiseLaw, table: LawTable) -> Iterator[LawTestResult]:
    """Test how many numbers are below some sizes, and how many are above 0."""
    sizes, count = np.abs(draws.noise), draws.noise.size
    deviation = float(np.sqrt(np.mean(np.square(draws.noise))) / np.sqrt(law.variance))
    what = f"noise {draws.where} has {deviation:.3g} times the declared standard deviation"
    # On a coarse lattice several levels fall on one point, which is tested once.
    for size, chance in dict.fromkeys(table.level(level) for level in _LEVELS):
        if size >= RESOLVED * draws.resolution:
            share = float(np.mean(sizes <= size))
            yield LawTestResult(
                two_sided(round(share * count), count, chance),
                f"{what}: {100 * share:.3g} % of it are at most {size:.3g}, of the law {100 * chance:.3g} %",
            )
    positive, there = int((draws.noise > 0).sum()), int((draws.noise != 0).sum())
    yield LawTestResult(two_sided(positive, there, 0.5), f"noise {draws.where} is not symmetric around 0")


def check_each_column(
    noise: Floats, table: LawTable, found: str, resolution: float = 0.0
) -> Iterator[LawTestResult]:
    """Test the sizes in each column of (N, P): the smallest p-value, corrected for their number."""
    sizes = np.abs(noise)
    for size, chance in dict.fromkeys(table.level(level) for level in _COLUMN_LEVELS):
        if size >= RESOLVED * resolution:
            within = (sizes <= size).sum(axis=0)
            yield LawTestResult(_least(within, np.full(within.size, len(noise)), chance), found)


def check_independence(draws: NoiseDraws, table: LawTable) -> Iterator[LawTestResult]:
    """Test whether coordinates of one client, and clients, are independent: signs, sizes, repetitions."""
    noise, P = draws.noise, draws.noise.shape[1]
    places = np.unique(np.linspace(0, P - 1, min(_COORDINATES, P)).astype(np.int64))
    yield from check_pairs(noise[:, places], table, f"noise {draws.where} is alike in two coordinates")
    half, alike = noise.shape[0] // 2, f"noise {draws.where} is alike for two clients"
    yield from check_pair(noise[: 2 * half : 2], noise[1 : 2 * half : 2], table, alike)
    rows = noise[(np.abs(noise) > table.small).any(axis=1)]
    repeated = rows.shape[0] - np.unique(rows, axis=0).shape[0]
    chance = 0.5 * rows.shape[0] ** 2 * table.repeats**P
    yield LawTestResult(
        min(1.0, chance) if repeated else 1.0, f"noise {draws.where} is the same for two clients"
    )


def check_pair(one: Floats, other: Floats, table: LawTable, found: str) -> Iterator[LawTestResult]:
    """Test whether noise (N, P) is independent of other noise (N, P), number by number."""
    signs = np.sign(one) * np.sign(other)
    yield LawTestResult(two_sided(int((signs > 0).sum()), int((signs != 0).sum()), 0.5), found)
    size, chance = table.level(0.5)
    alike = (np.abs(one) > size) == (np.abs(other) > size)
    yield LawTestResult(two_sided(int(alike.sum()), alike.size, chance**2 + (1 - chance) ** 2), found)


def check_pairs(noise: Floats, table: LawTable, found: str) -> Iterator[LawTestResult]:
    """The same for each pair of columns of (N, P): the smallest p-value, corrected for their number."""
    first, second = np.triu_indices(noise.shape[1], 1)
    if not first.size:
        return
    # counts of all pairs by matrix products, exact in float32 below 2^24 clients
    signs = np.sign(noise).astype(np.float32)
    there = np.abs(signs)
    counts = np.rint(there.T @ there)[first, second].astype(np.int64)
    agree = np.rint(0.5 * ((signs.T @ signs)[first, second] + counts)).astype(np.int64)
    yield LawTestResult(_least(agree, counts, 0.5), found)
    size, chance = table.level(0.5)
    large = np.where(np.abs(noise) > size, 1.0, -1.0).astype(np.float32)
    alike = np.rint(0.5 * ((large.T @ large)[first, second] + len(noise))).astype(np.int64)
    yield LawTestResult(_least(alike, np.full(first.size, len(noise)), chance**2 + (1 - chance) ** 2), found)


def _least(hits: Ints, trials: Ints, chance: float) -> float:
    return min(1.0, float(_two_sided(hits, trials, chance).min()) * hits.size)


def two_sided(hits: int, trials: int, chance: float) -> float:
    """Two-sided binomial p-value of a count; 1 without any trial."""
    return float(_two_sided(np.array([hits]), np.array([trials]), chance)[0]) if trials else 1.0


def upper_tail(hits: int, trials: int, chance: float) -> float:
    """Binomial probability of at least this many hits."""
    from scipy.special import bdtrc

    return float(bdtrc(hits - 1, trials, chance)) if hits > 0 else 1.0


def _two_sided(hits: Ints, trials: Ints, chance: float) -> Floats:
    from scipy.special import bdtr, bdtrc

    if chance >= 1.0:
        return np.where(hits == trials, 1.0, 0.0)
    least = np.minimum(bdtr(hits, trials, chance), np.where(hits > 0, bdtrc(hits - 1, trials, chance), 1.0))
    return np.minimum(1.0, 2.0 * least)
