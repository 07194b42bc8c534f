"""Where a convex, piecewise linear cost is lowest along a line.

Quickselect by weight: sorting all events would take longer than the rest of a simplex iteration.
"""

from __future__ import annotations

from .jit import Floats, Ints, kernel


@kernel
def median_event(events: Floats, order: Ints, count: int, slope: float) -> int:
    """How many events come before the one at which a slope stops being negative: a weighted median.

    `order[:count]` names events (2, events), of a time and a rise of the slope each. It is rearranged
    so that those before come first and that one next. Answers `count` where the slope stays negative.
    """
    low, high = 0, count
    while low < high:
        first, middle, last = order[low], order[(low + high) // 2], order[high - 1]
        a, b, c = events[0, first], events[0, middle], events[0, last]
        # The median of three: events often lie in order already, the worst case of a fixed choice.
        pivot = max(min(a, b), min(max(a, b), c))
        before, i, after = low, low, high
        gained = 0.0
        while i < after:
            one = order[i]
            # Three parts instead of two: kinks of degenerate variables have equal times.
            if events[0, one] < pivot:
                gained += events[1, one]
                order[i], order[before] = order[before], one
                before += 1
                i += 1
            elif events[0, one] > pivot:
                after -= 1
                order[i], order[after] = order[after], one
            else:
                i += 1
        if slope + gained >= 0.0:
            high = before
            continue
        slope += gained
        for j in range(before, after):
            slope += events[1, order[j]]
            if slope >= 0.0:
                return j
        low = after
    return low
