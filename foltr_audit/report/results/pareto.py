"""Which of several choices are worth a look: those that no other one beats both in privacy and in utility."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.judge.significance import paired_t_test
from foltr_audit.utils.rows import Interval

CHANCE = 0.5
"""The AUC of an attack that learns nothing; one below it has been unlucky."""

DIGITS = 3
"""That tables print of AUC and nDCG."""

ByQuery = tuple[NDArray[np.str_], NDArray[np.float64]]
"""Names of queries in rising order, and the nDCG of each."""


class ParetoChoice(NamedTuple):
    """One choice.

    Attributes:
        leak: AUC of its best attack, lower is better; None where none could run.
        utility: nDCG, higher is better; None where it is not known.
        leak_ends: 95 % interval of the AUC; None where it has none.
        queries: the nDCG of each query.
        refuted: whether its claim is false.
    """

    leak: float | None
    utility: float | None
    leak_ends: Interval | None
    queries: ByQuery
    refuted: bool = False

    @property
    def known(self) -> bool:
        """Whether AUC and nDCG are."""
        return self.leak is not None and self.utility is not None

    def beats(self, other: ParetoChoice) -> bool:
        """Whether it is as good in both as printed, and shown to be better in one.

        Values are compared in three digits, as they are printed, and a leak below chance counts as chance.
        """
        if self.refuted:
            return False
        if self.leak is None or self.utility is None or other.leak is None or other.utility is None:
            return False
        mine, theirs = (max(round(one, DIGITS), CHANCE) for one in (self.leak, other.leak))
        gain = round(self.utility, DIGITS) - round(other.utility, DIGITS)
        if mine > theirs or gain < 0:
            return False
        return (mine < theirs and self._leaks_less(other)) or (gain > 0 and self._is_more_useful(other))

    def _leaks_less(self, other: ParetoChoice) -> bool:
        """Whether the 95 % interval of the difference of both AUCs lies on one side of 0.

        From the interval of each (Zou & Donner 2008, "Construction of confidence limits about effect
        measures"), as if they were independent; they share queries, which makes the true one narrower.
        """
        if self.leak is None or other.leak is None or self.leak_ends is None or other.leak_ends is None:
            return False
        apart = other.leak - max(self.leak, CHANCE)
        return apart > math.hypot(other.leak - other.leak_ends[0], max(0.0, self.leak_ends[1] - self.leak))

    def _is_more_useful(self, other: ParetoChoice) -> bool:
        """Whether the 95 % interval of the mean difference in nDCG over queries lies above 0."""
        both = np.intersect1d(self.queries[0], other.queries[0])
        mine, theirs = (values[np.isin(names, both)] for names, values in (self.queries, other.queries))
        ends = paired_t_test(mine, theirs).ends if both.size > 1 else None
        return ends is not None and ends[0] > 0.0


def front_of(choices: Sequence[ParetoChoice]) -> list[bool | None]:
    """Whether each choice is on the front: its claim is not false, and no other beats it; None: not known."""
    beaten = beaten_by(choices)
    return [
        None if not one.known else not one.refuted and not winners
        for one, winners in zip(choices, beaten, strict=True)
    ]


def beaten_by(choices: Sequence[ParetoChoice]) -> list[list[int]]:
    """For each choice the numbers of those that beat it, most useful first; of the front where one does."""
    winners = [[n for n, other in enumerate(choices) if other.beats(one)] for one in choices]
    found = []
    for mine in winners:
        best = [number for number in mine if not winners[number]] or mine
        found.append(sorted(best, key=lambda number: -(choices[number].utility or 0.0)))
    return found
