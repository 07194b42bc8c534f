"""A sentence for conclusions that rest on few attacked lists."""

from __future__ import annotations

from collections.abc import Sequence

FEW_LISTS = 30
"""With fewer lists than this a sentence says how many there are."""


def few_lists(counts: Sequence[int]) -> str:
    """A sentence on the numbers of lists that conclusions rest on; empty where each has enough.

    >>> few_lists([14, 11, 90]), few_lists([5]), few_lists([30])
    (' This rests on only 11 to 14 lists.', ' This rests on only 5 lists.', '')
    """
    few = describe_few_lists(counts)
    return f" This rests on {few}." if few else ""


def describe_few_lists(counts: Sequence[int]) -> str:
    """As `few_lists`, in words that follow a name: `only 14 lists`."""
    few = sorted(count for count in counts if count < FEW_LISTS)
    if not few:
        return ""
    several = str(few[0]) if few[0] == few[-1] else f"{few[0]} to {few[-1]}"
    return f"only {several} {'list' if few[-1] == 1 else 'lists'}"
