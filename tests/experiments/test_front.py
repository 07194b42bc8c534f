"""The front of choices, against its definition by brute force, and what it takes to be better."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.experiments.decide import ParetoChoice, beaten_by

SHARES = st.sampled_from([0.3, 0.4997, 0.5, 0.5004, 0.6, 0.6004, 0.6006, 0.7, 0.9])
LEAKS = st.sampled_from([-0.2, -0.0003, 0.0, 0.0004, 0.1, 0.1004, 0.1006, 0.2, 0.4])


class SureChoice(ParetoChoice):
    """A choice of which everything is known exactly: a larger nDCG is a larger one."""

    def _is_more_useful(self, other: ParetoChoice) -> bool:
        return True


def sure(leak: float | None, utility: float | None, *, refuted: bool = False) -> ParetoChoice:
    none = np.array([], dtype=np.str_), np.array([])
    return SureChoice(leak, utility, None if leak is None else (leak, leak), none, refuted)


CHOICES = st.lists(st.builds(sure, st.none() | LEAKS, st.none() | SHARES, refuted=st.booleans()), max_size=7)


def front_of(choices: list[ParetoChoice]) -> list[bool | None]:
    return [choice.on_front(winners) for choice, winners in zip(choices, beaten_by(choices), strict=True)]


def printed(value: float | None) -> int:
    """Three digits as a table shows them, as a whole number."""
    return int(f"{value or 0:+.3f}".replace(".", ""))


@given(CHOICES)
def test_the_front_is_what_nobody_beats(choices: list[ParetoChoice]) -> None:
    front = front_of(choices)
    for number, one in enumerate(choices):
        better = []
        for other in choices:
            if None in one[:2] or None in other[:2] or other.refuted:
                continue
            leaks = max(printed(one.leak), 0), max(printed(other.leak), 0)
            gains = printed(one.utility), printed(other.utility)
            if leaks[1] <= leaks[0] and gains[1] >= gains[0] and (leaks[0], gains[0]) != (leaks[1], gains[1]):
                better.append(other)
        assert front[number] == (None if None in one[:2] else not better and not one.refuted)
        winners = beaten_by(choices)[number]
        assert bool(winners) == bool(better)
        assert all(any(choices[winner] is other for other in better) for winner in winners)
        assert all(front[winner] for winner in winners)


def test_equals_are_both_on_the_front_and_bad_luck_is_no_gain() -> None:
    assert beaten_by([sure(0.1, 0.4), sure(0.1, 0.4)]) == [[], []]
    assert beaten_by([sure(-0.02, 0.4), sure(0.0, 0.4)]) == [[], []]


def test_what_is_printed_alike_is_a_tie() -> None:
    assert beaten_by([sure(0.6004, 0.4004), sure(0.5996, 0.3996)]) == [[], []]
    assert beaten_by([sure(0.6004, 0.4), sure(0.6006, 0.4)]) == [[], [0]]


QUERIES = np.array([f"{number:02d}" for number in range(12)])
NDCG = np.linspace(0.1, 0.6, 12)


def choice(leak: float, ends: tuple[float, float] | None, gain: float, spread: float) -> ParetoChoice:
    """A choice whose nDCG is that of others and `gain`, more or less by `spread` from query to query."""
    values = NDCG + gain + np.tile([spread, -spread], 6)
    return ParetoChoice(leak, float(values.mean()), ends, (QUERIES, values))


def test_a_gain_of_a_few_queries_beats_nobody() -> None:
    """.002 on 12 queries that differ by .05 either way, from a defense that leaks as much."""
    base = choice(1.0, (0.77, 1.0), 0.0, 0.0)
    assert beaten_by([base, choice(1.0, (0.77, 1.0), 0.002, 0.05)]) == [[], []]
    assert beaten_by([base, choice(1.0, (0.77, 1.0), 0.1, 0.05)]) == [[1], []]


def test_a_leak_is_smaller_where_the_intervals_show_it() -> None:
    one, other = choice(0.6, (0.5, 0.7), 0.0, 0.0), choice(0.7, (0.6, 0.8), 0.0, 0.0)
    assert beaten_by([one, other]) == [[], []]
    assert beaten_by([choice(0.6, (0.55, 0.65), 0.0, 0.0), choice(0.7, (0.65, 0.75), 0.0, 0.0)]) == [[], [0]]
    assert beaten_by([choice(0.6, None, 0.0, 0.0), choice(0.9, (0.89, 0.91), 0.0, 0.0)]) == [[], []]


def test_a_refuted_claim_is_neither_on_the_front_nor_beats_anybody() -> None:
    best, worse = sure(0.5, 0.5, refuted=True), sure(0.6, 0.4)
    assert beaten_by([best, worse]) == [[], []]
    assert front_of([best, worse]) == [False, True]
