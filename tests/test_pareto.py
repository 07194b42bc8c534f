"""The front of choices, against its definition by brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.report.pareto import Choice, beaten_by

SHARES = st.sampled_from([0.3, 0.4997, 0.5, 0.5004, 0.6, 0.6004, 0.6006, 0.7, 0.9])
CHOICES = st.lists(st.builds(Choice, st.none() | SHARES, st.none() | SHARES), max_size=7)


def printed(value: float | None) -> int:
    """Three digits as a table shows them, as a whole number."""
    return int(f"{value or 0:.3f}".replace(".", ""))


@given(CHOICES)
def test_the_front_is_what_nobody_beats(choices: list[Choice]) -> None:
    beaten = beaten_by(choices)
    for number, one in enumerate(choices):
        better = []
        for other in choices:
            if None in one or None in other:
                continue
            leaks = max(printed(one.leak), 500), max(printed(other.leak), 500)
            gains = printed(one.utility), printed(other.utility)
            if leaks[1] <= leaks[0] and gains[1] >= gains[0] and (leaks[0], gains[0]) != (leaks[1], gains[1]):
                better.append(other)
        assert bool(beaten[number]) == bool(better)
        assert all(choices[winner] in better and not beaten[winner] for winner in beaten[number])


def test_equals_are_both_on_the_front_and_bad_luck_is_no_gain() -> None:
    assert beaten_by([Choice(0.6, 0.4), Choice(0.6, 0.4)]) == [[], []]
    assert beaten_by([Choice(0.48, 0.4), Choice(0.5, 0.4)]) == [[], []]


def test_what_is_printed_alike_is_a_tie() -> None:
    assert beaten_by([Choice(0.6004, 0.4004), Choice(0.5996, 0.3996)]) == [[], []]
    assert beaten_by([Choice(0.6004, 0.4), Choice(0.6006, 0.4)]) == [[], [0]]
