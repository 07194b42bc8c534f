"""Tests of the noise of some clients in many rounds: in every round, of every client, and in their sums."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.auditing.law_table import LawTable, law_table
from foltr_audit.auditing.law_tests import (
    LawTestResult,
    NoiseDraws,
    check_distribution,
    check_each_column,
    check_pairs,
)
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.utils.arrays import Floats

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

    Args:
        noise: for T rounds, C clients and P coordinates, float64 (T, C, P).
        law: its declared law.
        table: the table of that law.
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
