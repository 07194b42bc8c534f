"""Tests whether noise follows a law and outputs lie in declared balls and on declared grids.

Noise is tested for its distribution, its independence, and that it does not repeat. Each test counts
something that is binomial with a known probability if the law holds, so that its p-value is exact. `failure`
corrects for the number of tests (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from foltr_audit.core.plugins import PrivacyEvent
from foltr_audit.privacy.events import GridRounding, NoiseAddition, NormBound, NormScaling
from foltr_audit.privacy.noise import AdditiveNoise, NoiseLaw
from foltr_audit.privacy.noise.gamma_share import FLOOR
from foltr_audit.utils.arrays import Floats, Ints

_DECADES = (math.log10(FLOOR), 5.0)  # of |x| over the scale; smaller noise counts as 0
_PER_DECADE = 2000
_MOST_POINTS = 1 << 20  # points of a lattice that are summed; a finer lattice is integrated
_SMALL = 1e-6  # of the scale
_EXCESS = 1e-3  # by how much the total mass may exceed 1


class LawTable(NamedTuple):
    """P(|X| <= x) at ascending sizes x.

    Attributes:
        sizes: in units of the noise, float64 (T,); of a lattice half a step above each point.
        within: float64 (T,).
        repeats: probability that two draws are equal; 0 for a continuous law.
        small: a size below which rounding may make draws equal.
    """

    sizes: Floats
    within: Floats
    repeats: float
    small: float

    def level(self, level: float) -> tuple[float, float]:
        """The first size with at least this probability, and its exact probability."""
        index = min(int(np.searchsorted(self.within, level)), self.sizes.size - 1)
        return float(self.sizes[index]), float(self.within[index])


@lru_cache(maxsize=64)
def law_table(law: AdditiveNoise) -> LawTable | None:
    """The table of a law; None where its density integrates to more than 1: the law is no law."""
    step = law.grid
    far = 60.0 * math.sqrt(law.variance)
    table = _summed(law, step, far) if step > 0 and far < step * _MOST_POINTS else _integrated(law)
    return table if table.within[-1] <= 1.0 + _EXCESS else None


def _summed(law: AdditiveNoise, step: float, far: float) -> LawTable:
    points = np.arange(math.ceil(far / step) + 2) * step
    masses = np.exp(law.log_density(points)) * step
    # Before masses are doubled to cover both signs: two draws are equal only if their signs are too.
    repeats = float(masses[0] ** 2 + 2.0 * (masses[1:] ** 2).sum())
    masses[1:] *= 2.0
    return LawTable(np.asarray(points + 0.5 * step), np.cumsum(masses), repeats, 0.0)


def _integrated(law: AdditiveNoise) -> LawTable:
    """By Simpson's rule over ln x, since a density may be infinite at 0; missing mass counts at 0."""
    from scipy.integrate import cumulative_simpson

    low, high = _DECADES
    logs = np.linspace(low, high, round((high - low) * _PER_DECADE) + 1) * math.log(10.0)
    sizes = law.scale * np.exp(logs)
    density = 2.0 * np.exp(law.log_density(sizes) + logs + math.log(law.scale))
    within = cumulative_simpson(density, x=logs, initial=0.0)
    step = law.grid  # of a lattice too fine to sum
    repeats = step * math.exp(float(law.log_density(0.0))) if step > 0 else 0.0
    return LawTable(sizes, within + max(0.0, 1.0 - float(within[-1])), repeats, _SMALL * law.scale)


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


_MOST = 64  # rounds


def some_rounds(rounds: int) -> list[int]:
    """Rounds whose noise is compared: the first ones and, in a long run, the last ones.

    >>> some_rounds(1), some_rounds(5), some_rounds(100)[-3:], len(some_rounds(100))
    ([0, 1], [0, 1, 2, 3, 4], [97, 98, 99], 64)
    """
    if rounds <= _MOST:
        return list(range(max(2, rounds)))
    return [*range(_MOST // 2), *range(rounds - _MOST // 2, rounds)]


def check_rounds(
    noise: Floats, law: AdditiveNoise, table: LawTable, where: str, resolution: float
) -> Iterator[LawTestResult]:
    """Test whether noise follows its law in each round and for each client, independently between them.

    Sums over clients, as a server sees them, and over rounds must follow the law of such a sum: noise that
    cancels between many clients may look independent for any two.

        noise: for T rounds, C clients and P coordinates, float64 (T, C, P).
        law, table: its declared law, and the table of that.
        where: for which input, in words that follow "noise for".
        resolution: how far off rounding may have put a number.
    """
    T, C, P = noise.shape
    by_round, by_client = noise.reshape(T, C * P).T, noise.transpose(0, 2, 1).reshape(T * P, C)
    for columns, inside, what in ((by_round, "in", "round"), (by_client, "for", "client")):
        another = f"noise for {where} has another size {inside} one {what}"
        yield from check_each_column(columns, table, another, resolution)
        yield from check_pairs(columns, table, f"noise for {where} is alike {inside} two {what}s")
    for sums, count, over in ((noise.sum(axis=1), C, "clients"), (noise.sum(axis=0), T, "rounds")):
        summed = law.summed(count)
        of_sum = law_table(summed)
        if of_sum is not None:
            draws = NoiseDraws(sums, f"for {where}, summed over {count} {over},", resolution * count)
            yield from check_distribution(draws, summed, of_sum)


_SLACK = 1e-6  # relative: what rounding may add to a norm


def check_balls(
    events: Sequence[PrivacyEvent], after: Floats, parameters: Floats, copies: int
) -> Iterator[LawTestResult]:
    """Whether outputs lie in every declared ball, as far as later events of the link allow to tell.

    With noise after it that is symmetric around 0, at most half of the clients with the same model may lie
    beyond the ball in any direction, however large the noise.

    Clients with equal inputs are in groups of `copies` in the outputs (C, P).
    """
    for number, ball in enumerate(events):
        later = events[number + 1 :]
        if not (isinstance(ball, NormBound) and ball.always) or not _keep(later):
            continue
        inside = after if ball.of == "model" else after - parameters
        step = sum(event.step for event in later if isinstance(event, GridRounding))
        room = _SLACK * (ball.norm + float(np.abs(parameters).max())) + _norm(
            np.full((1, parameters.size), step), ball.ord
        )
        limit = ball.norm + float(np.max(room))
        if any(isinstance(event, NoiseAddition) for event in later):
            yield from _check_noisy(inside, ball, limit, copies)
        else:
            largest = float(_norm(inside, ball.ord).max())
            yield LawTestResult(0.0 if largest > limit else 1.0, _outside(ball, f"a norm of {largest:.4g}"))


def _keep(later: Sequence[PrivacyEvent]) -> bool:
    return all(isinstance(event, NormBound | GridRounding | NoiseAddition) for event in later)


def _outside(ball: NormBound, reached: str) -> str:
    return f"{ball.of}s reach {reached}, outside the declared ball of {ball.norm:.4g}"


def _check_noisy(inside: Floats, ball: NormBound, limit: float, copies: int) -> Iterator[LawTestResult]:
    """The first half of a group gives the direction, the second half is tested: so p-values stay exact."""
    half = copies // 2
    for group in inside.reshape(-1, copies, inside.shape[1]):
        middle = np.median(group[:half], axis=0)
        axis = np.sign(middle) * (np.arange(middle.size) == np.abs(middle).argmax())
        directions = [np.sign(middle), axis] if ball.ord == 1 else [middle if ball.ord == 2 else axis]
        for direction in directions:
            size = float(np.linalg.norm(direction, ord=_DUAL[ball.ord]))
            along = group[half:] @ direction
            reached = f"{float(np.median(along)) / max(size, 1e-300):.4g} in the median"
            beyond = int((along > limit * size).sum())
            yield LawTestResult(upper_tail(beyond, along.size, 0.5), _outside(ball, reached))


_DUAL = {1: math.inf, 2: 2, math.inf: 1}
"""The dual norm: its product with the radius bounds a ball's points in a direction."""


def check_grid(events: Sequence[PrivacyEvent], after: Floats) -> Iterator[LawTestResult]:
    """Whether outputs lie on the grid that a link declares last."""
    if events and isinstance(events[-1], GridRounding):
        steps = after / events[-1].step
        with np.errstate(invalid="ignore"):  # beyond 2^40 steps float64 cannot tell a thousandth of a step
            off = float(np.abs(steps - np.rint(steps))[np.abs(steps) < 2.0**40].max(initial=0.0))
        yield LawTestResult(
            0.0 if off > 1e-3 else 1.0, f"messages lie off the declared grid of {events[-1].step:g}"
        )


def check_scaling(
    events: Sequence[PrivacyEvent], before: Floats, after: Floats, parameters: Floats
) -> Iterator[LawTestResult]:
    """Whether no norm grows by more than a declared factor."""
    if len(events) != 1 or not isinstance(events[0], NormScaling):
        return
    event = events[0]
    middle = np.zeros_like(parameters) if event.of == "model" else parameters
    for order in (1, 2, math.inf):
        sizes = [_norm(models - middle, order) for models in (before, after)]
        grown = bool(np.any(sizes[1] > event.factor * sizes[0] * (1 + _SLACK) + _SLACK))
        yield LawTestResult(
            0.0 if grown else 1.0, f"a norm grows by more than the declared factor of {event.factor:g}"
        )


def _norm(models: Floats, order: float) -> Floats:
    return np.asarray(np.linalg.norm(models, ord=order, axis=1))
