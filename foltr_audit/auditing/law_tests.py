"""Tests whether noise follows a law and outputs lie in declared balls and on declared grids.

Each test counts something that is binomial with a known probability if the law holds, so that its p-value is
exact. `failure` corrects for the number of tests (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import PrivacyEvent
from foltr_audit.privacy.events import GridRounding, NoiseAddition, NormBound, NormScaling
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.noise.gamma_share import FLOOR
from foltr_audit.utils.arrays import Bools, Floats, Ints

T = TypeVar("T", bound=np.generic)

_DECADES = (math.log10(FLOOR), 5.0)  # of |x| over the scale; smaller noise counts as 0
_PER_DECADE = 2000
_MOST_POINTS = 1 << 20  # points of a lattice that are summed; a finer lattice is integrated
_EXCESS = 1e-3  # by how much the total mass may exceed 1


class LawTable(NamedTuple):
    """P(|X| <= x) at ascending sizes x.

    Attributes:
        sizes: in units of the noise, float64 (T,); of a lattice half a step above each point.
        within: float64 (T,).
        repeats: probability that two draws are equal; 0 for a continuous law.
    """

    sizes: Floats
    within: Floats
    repeats: float

    def levels(self, levels: Sequence[float], resolution: float = 0.0) -> list[tuple[float, float]]:
        """The first size with at least each of some probabilities, and its exact probability, once each.

        A size is far above the `resolution` of numbers, where rounding does not change its probability.
        """
        least = int(np.searchsorted(self.sizes, RESOLVED * resolution))
        places = np.clip(np.searchsorted(self.within, levels), least, None).clip(max=self.sizes.size - 1)
        return [(float(self.sizes[place]), float(self.within[place])) for place in dict.fromkeys(places)]

    def crowding(self, least: float, most: float) -> tuple[float, float]:
        """The integral of the squared density of |X| above a size: how often two draws come close.

        Above the first size of at least `least` for which it is at most `most`, with that size.
        """
        squares = np.diff(self.within) ** 2 / np.diff(self.sizes)
        above = np.append(np.cumsum(squares[::-1])[::-1], 0.0)
        first = int(np.argmax((self.sizes >= least) & (above <= most)))
        return float(self.sizes[first]), float(above[first])


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
    return LawTable(np.asarray(points + 0.5 * step), np.cumsum(masses), repeats)


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
    return LawTable(sizes, within + max(0.0, 1.0 - float(within[-1])), repeats)


FALSE_ALARM = 1e-6
"""Probability, at most, that the tests of an audit together reject noise that is as declared."""

_LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 0.995, 0.999, 0.9999, 0.99999)
_COLUMN_LEVELS = (0.25, 0.75, 0.98)
_FINEST = 2.0**-48  # of the scale: numbers of a stream have 52 bits
RESOLVED = 1e3  # a size is tested if it is this many times its rounding
PAIRED = 64
"""Columns of which all pairs are compared."""

_TRIPLES, _QUADRUPLES, _TUPLE_ROWS = 48, 24, 1024  # columns that are compared, on so many rows
_PARITIES, _SPARE = 512, 128  # columns whose parities are looked for, and rows beyond their number
_DIGITS = 20_000  # numbers whose digits are looked at
_ONES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


class LawTestResult(NamedTuple):
    """The p-value of one test, and what a small one shows, in words."""

    p: float
    found: str


class NoiseDraws(NamedTuple):
    """Noise of many clients.

    Attributes:
        noise: float64 (..., P).
        where: for which input, in words that follow "noise".
        resolution: how far off rounding may have put a number.
        axes: what each axis counts; empty for one that counts copies.
    """

    noise: Floats
    where: str
    resolution: float = 0.0
    axes: tuple[str, ...] = ("client", "coordinate")


def failure(tests: Sequence[LawTestResult], among: int) -> str | None:
    """What the test with the smallest p-value of `among` tests shows; None where chance explains it."""
    least = min(tests, key=lambda test: test.p, default=None)
    return None if least is None or least.p * among >= FALSE_ALARM else least.found


def check_noise(
    draws: NoiseDraws, law: AdditiveNoise, table: LawTable, rng: np.random.Generator
) -> Iterator[LawTestResult]:
    """Test the distribution of noise, its digits, and along each axis its size and independence.

    `rng` draws which numbers are compared.
    """
    yield from check_distribution(draws, law, table)
    yield from _check_digits(draws, law, table, rng)
    for axis, name in enumerate(draws.axes):
        sizes = np.abs(columns_of(draws.noise, axis))
        for size, chance in table.levels(_COLUMN_LEVELS if name else (), draws.resolution):
            p = _least((sizes <= size).sum(axis=0), len(sizes), chance)
            yield LawTestResult(p, f"noise {draws.where} has another size in one {name}")
    bits = fair_bits(draws.noise, table, rng, draws.resolution)
    yield from check_dependence(bits, draws.axes, f"noise {draws.where} is alike in several", rng)


def fair_bits(
    noise: Floats, table: LawTable, rng: np.random.Generator, resolution: float = 0.0
) -> list[Bools]:
    """Signs of noise (..., P), and whether it is small: fair bits, if it follows the law of a table."""
    positive = (noise > 0) | ((noise == 0) & (rng.random(noise.shape) < 0.5))
    ((size, chance),) = table.levels((0.5,), resolution)
    # A size that more than half of the numbers do not exceed is drawn as often as one that they do.
    return [positive, (np.abs(noise) <= size) & (rng.random(noise.shape) * chance < 0.5)]


def columns_of(values: NDArray[T], axis: int) -> NDArray[T]:
    """The numbers along one axis side by side, (N, d)."""
    return np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])


def check_distribution(draws: NoiseDraws, law: AdditiveNoise, table: LawTable) -> Iterator[LawTestResult]:
    """Test how many numbers are below some sizes and above 0; also of sums along each axis but the last.

    Noise that cancels between many clients may look independent for any two.
    """
    sizes, count = np.abs(draws.noise), draws.noise.size
    deviation = float(np.sqrt(np.mean(np.square(draws.noise))) / np.sqrt(law.variance))
    what = f"noise {draws.where} has {deviation:.3g} times the declared standard deviation"
    for size, chance in table.levels(_LEVELS, draws.resolution):
        within = int((sizes <= size).sum())
        share = f"{100 * within / count:.3g} % of it are at most {size:.3g}, of the law {100 * chance:.3g} %"
        yield LawTestResult(two_sided(within, count, chance), f"{what}: {share}")
    positive, there = int((draws.noise > 0).sum()), int((draws.noise != 0).sum())
    yield LawTestResult(two_sided(positive, there, 0.5), f"noise {draws.where} is not symmetric around 0")
    for axis, name in enumerate(draws.axes[:-1]):
        number = draws.noise.shape[axis]
        summed = law.summed(number)
        its_table = law_table(summed) if name else None
        if its_table is not None:
            where = f"{draws.where}, summed over {number} {name}s,"
            sums = NoiseDraws(draws.noise.sum(axis=axis), where, draws.resolution * number, axes=())
            yield from check_distribution(sums, summed, its_table)


def _check_digits(
    draws: NoiseDraws, law: AdditiveNoise, table: LawTable, rng: np.random.Generator
) -> Iterator[LawTestResult]:
    """Test whether numbers come again, and whether noise is on a coarser grid than its law says.

    What noise adds to a message shows the digits below its own; a grid is told by how many numbers are equal,
    and a fine one by how many are near the multiples of a power of 2 or 10.
    """
    from scipy.special import pdtrc

    noise, again = draws.noise, f"noise {draws.where} comes again, whatever its sign"
    resolution = max(draws.resolution, float(np.spacing(np.abs(noise).max(initial=0.0))))
    some = rng.choice(np.abs(noise).ravel(), min(_DIGITS, noise.size), replace=False)
    if law.grid > 0:
        rows = np.abs(noise).reshape(-1, noise.shape[-1])
        repeated = len(rows) - np.unique(rows, axis=0).shape[0]
        chance = 0.5 * len(rows) ** 2 * min(1.0, 2.0 * table.repeats) ** rows.shape[1]
        yield LawTestResult(min(1.0, chance) if repeated else 1.0, again)
        low, high = law.grid, law.scale / 8
    else:
        close = 4.0 * resolution + _FINEST * law.scale
        pairs = 1.5 * noise.size**2 * close
        least, crowding = table.crowding(RESOLVED * resolution, 1.0 / pairs)
        sizes = np.sort(np.abs(noise), axis=None)
        equal = int((np.diff(sizes[np.searchsorted(sizes, least) :]) <= close).sum())
        yield LawTestResult(float(pdtrc(equal - 1, pairs * crowding)) if equal else 1.0, again)
        low, high = 2**10 * resolution, law.scale / 64
    low = max(low, _FINEST * law.scale, 1.5 * law.grid)
    # Powers of 2 and 10; for a lattice law, its step times such powers.
    units = [(law.grid or 1.0) * base**power for base in (2.0, 10.0) for power in range(-300, 300)]
    for step in (unit for unit in units if low <= unit <= high):
        # Of a continuous law the numbers far above a step are spread evenly between its multiples.
        near, chance = (0.25 * law.grid / step, law.grid / step) if law.grid > 0 else (1 / 16, 1 / 8)
        multiples = (some if law.grid > 0 else some[some >= 64 * step]) / step
        hits = int((np.abs(multiples - np.rint(multiples)) <= near).sum())
        few = f"noise {draws.where} has fewer digits than messages: it lies on a grid of {step:.3g}"
        yield LawTestResult(upper_tail(hits, multiples.size, chance), few)


def check_dependence(
    kinds: Sequence[Bools],
    axes: Sequence[str],
    found: str,
    rng: np.random.Generator,
    bits: Sequence[Bools] = (),
) -> Iterator[LawTestResult]:
    """Test whether fair bits, of one or several kinds at each place, are independent along each axis.

    Neighbours together, pairs, triples, quadruples; and whether any parity of columns always holds, also of
    all the last axis for two neighbours. `bits`: whose parities these are, if not theirs.
    """
    bits = bits or kinds
    for axis, name in enumerate(axes):
        d, alike = kinds[0].shape[axis], f"{found} {name}s"
        if not name or d < 2:
            continue
        # half of the columns of each test next to each other
        order = np.roll(np.arange(d), -int(rng.integers(d)))
        for fair in (columns_of(each, axis) for each in kinds):
            beside = int((fair[:, 1:] == fair[:, :-1]).sum())
            yield LawTestResult(two_sided(beside, len(fair) * (d - 1), 0.5), alike)
            rows = rng.permutation(len(fair))[:_TUPLE_ROWS]
            for size, some in ((2, PAIRED), (3, _TRIPLES), (4, _QUADRUPLES)):
                few = fair[:, _half_drawn(order, some, rng)]
                yield _tuples(few if size == 2 else few[rows], size, alike)
        yield check_parities(np.hstack([columns_of(each, axis) for each in bits]), alike, rng)
        if axis < len(axes) - 1:
            for each in kinds:
                all_of_them = columns_of(np.logical_xor.reduce(each, axis=-1), axis)
                yield _tuples(all_of_them[:, _half_drawn(order, PAIRED, rng)], 2, alike)
            pairs = [
                np.concatenate([each.take(np.arange(part, d - d % 2, 2), axis) for part in (0, 1)], axis=-1)
                for each in bits
            ]
            joined = np.hstack([columns_of(each, len(axes) - 1) for each in pairs])
            yield check_parities(joined, f"{found} {axes[-1]}s of two {name}s", rng)


def _half_drawn(order: Ints, count: int, rng: np.random.Generator) -> Ints:
    """At most so many of some columns: the first ones, and as many of the others, which are drawn."""
    return np.concatenate([order[: count // 2], rng.permutation(order[count // 2 :])[: count - count // 2]])


def _tuples(bits: Bools, size: int, found: str) -> LawTestResult:
    """How often the parity of so many columns of fair bits (N, d) is odd: the smallest p-value, corrected."""
    packed = np.packbits(bits.T, axis=1)
    which = np.array(list(combinations(range(bits.shape[1]), size)), dtype=np.int64).reshape(-1, size)
    odd = np.bitwise_xor.reduce(packed[which], axis=1)
    return LawTestResult(_least(_ONES[odd].sum(axis=1, dtype=np.int64), len(bits), 0.5), found)


def check_parities(bits: Bools, found: str, rng: np.random.Generator) -> LawTestResult:
    """Whether the parity of any set of columns of (N, d) is the same in all rows, by their rank over GF(2).

    Columns are drawn, as many as N allows to tell; those that hardly ever differ are left out.
    """
    count = min(_PARITIES, bits.shape[1], (len(bits) - _SPARE) // 2)
    if count < 2:
        return LawTestResult(1.0, found)
    rows = rng.permutation(len(bits))[: 4 * count + _SPARE]
    some = bits[np.ix_(rows, rng.permutation(bits.shape[1])[:count])]
    some = some[:, np.minimum(some.sum(axis=0), (~some).sum(axis=0)) >= _SPARE // 4]
    # With a column of ones a parity that is always odd shows as well.
    packed = np.packbits(np.column_stack([some, np.ones(len(some), np.bool_)]), axis=1)
    pivots: dict[int, int] = {}
    for row in packed:
        number = int.from_bytes(row.tobytes(), "big")
        while number and number.bit_length() in pivots:
            number ^= pivots[number.bit_length()]
        if number:
            pivots[number.bit_length()] = number
        if len(pivots) > some.shape[1]:
            return LawTestResult(1.0, found)
    return LawTestResult(2.0 ** (some.shape[1] + 1 - rows.size), found)


def _least(hits: Ints, trials: int, chance: float) -> float:
    """The smallest p-value of counts, corrected for their number: that of the lowest or the highest."""
    if not hits.size:
        return 1.0
    ends = (two_sided(int(end), trials, chance) for end in (hits.min(), hits.max()))
    return min(1.0, min(ends) * hits.size)


def two_sided(hits: int, trials: int, chance: float) -> float:
    """Two-sided binomial p-value of a count; 1 without any trial."""
    from scipy.special import bdtr

    if not trials or chance >= 1.0:
        return float(hits == trials)
    return min(1.0, 2.0 * min(float(bdtr(hits, trials, chance)), upper_tail(hits, trials, chance)))


def upper_tail(hits: int, trials: int, chance: float) -> float:
    """Binomial probability of at least this many hits."""
    from scipy.special import bdtrc

    return float(bdtrc(hits - 1, trials, chance)) if hits > 0 else 1.0


_SLACK = 1e-6  # relative: what rounding may add to a norm
_DUAL = {1: math.inf, 2: 2, math.inf: 1}
"""The dual norm: its product with the radius bounds a ball's points in a direction."""


def check_outputs(
    events: Sequence[PrivacyEvent], before: Floats, after: Floats, parameters: Floats, copies: int
) -> Iterator[LawTestResult]:
    """Whether outputs lie in declared balls and on a grid declared last, and no norm grows beyond a factor.

    Inputs and outputs (C, P) are at the global model (P,); clients with equal inputs are in groups of
    `copies`. A ball is tested as far as later events of the link allow. With noise after it that is symmetric
    around 0, at most half of a group may lie beyond the ball in any direction, however large the noise.
    """
    for number, ball in enumerate(events):
        later = events[number + 1 :]
        tellable = all(isinstance(event, NormBound | GridRounding | NoiseAddition) for event in later)
        if not (isinstance(ball, NormBound) and ball.always and tellable):
            continue
        inside = after if ball.of == "model" else after - parameters
        step = sum(event.step for event in later if isinstance(event, GridRounding))
        room = _SLACK * (ball.norm + float(np.abs(parameters).max()))
        limit = ball.norm + room + float(np.linalg.norm(np.full(parameters.size, step), ball.ord))
        outside = f"{ball.of}s reach {{}}, outside the declared ball of {ball.norm:.4g}"
        if any(isinstance(event, NoiseAddition) for event in later):
            yield from _check_noisy(inside.reshape(-1, copies, parameters.size), ball.ord, limit, outside)
        else:
            largest = float(np.linalg.norm(inside, ball.ord, axis=1).max())
            yield LawTestResult(float(largest <= limit), outside.format(f"a norm of {largest:.4g}"))
    if events and isinstance(events[-1], GridRounding):
        steps = after / events[-1].step
        with np.errstate(invalid="ignore"):  # beyond 2^40 steps float64 cannot tell a thousandth of a step
            off = float(np.abs(steps - np.rint(steps))[np.abs(steps) < 2.0**40].max(initial=0.0))
        yield LawTestResult(float(off <= 1e-3), f"messages lie off the declared grid of {events[-1].step:g}")
    if len(events) == 1 and isinstance(events[0], NormScaling):
        factor, middle = events[0].factor, 0.0 if events[0].of == "model" else parameters
        for order in (1, 2, math.inf):
            first, then = (np.linalg.norm(models - middle, order, axis=1) for models in (before, after))
            grown = bool(np.any(then > factor * first * (1 + _SLACK) + _SLACK))
            yield LawTestResult(
                float(not grown), f"a norm grows by more than the declared factor of {factor:g}"
            )


def _check_noisy(groups: Floats, order: float, limit: float, outside: str) -> Iterator[LawTestResult]:
    """The first half of a group gives the direction, the second half is tested: so p-values stay exact."""
    half = groups.shape[1] // 2
    for group in groups:
        middle = np.median(group[:half], axis=0)
        axis = np.sign(middle) * (np.arange(middle.size) == np.abs(middle).argmax())
        directions = [np.sign(middle), axis] if order == 1 else [middle if order == 2 else axis]
        for direction in directions:
            size = float(np.linalg.norm(direction, ord=_DUAL[order]))
            along = group[half:] @ direction
            reached = f"{float(np.median(along)) / max(size, 1e-300):.4g} in the median"
            beyond = int((along > limit * size).sum())
            yield LawTestResult(upper_tail(beyond, along.size, 0.5), outside.format(reached))
