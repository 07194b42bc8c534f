"""Whether a sample is large enough for a limit on attacks, and how large it would have to be."""

from __future__ import annotations

import math
from typing import NamedTuple

from foltr_audit.judge.bootstrap import FEW
from foltr_audit.report.results.pareto import CHANCE
from foltr_audit.utils.formatting import short

SPARE = 1.25
"""Times as many draws as the interval would need on average, since its width is an estimate too."""

FEWEST_QUERIES = 2 * FEW
"""With fewer queries it takes more queries, not more draws of each.

Below `FEW` of them an interval is widened, however many draws there are (`judge.bootstrap.share_interval`),
and just above it while the queries differ.
"""


class AttackSample(NamedTuple):
    """The sample behind an attack's AUC.

    Attributes:
        half_width: from the AUC to the upper end of its 95 % interval.
        queries: that were attacked.
        repeats: draws of clicks and noise for each.
    """

    half_width: float
    queries: int
    repeats: int

    def too_small(self, limit: float) -> bool:
        """Whether even an attack that only guesses is above a limit, by the width of its interval alone."""
        return CHANCE + self.half_width > limit

    def times(self, limit: float) -> float:
        """How many times as large the sample would have to be for an attack that only guesses to pass.

        The half-width of an interval falls with the square root of the number of draws. That of an attack
        at chance comes from clicks and noise, which are new in each draw, and not from which queries there
        are. Infinite where no sample is large enough.
        """
        room = limit - CHANCE
        return SPARE * (self.half_width / room) ** 2 if room > 0 else math.inf

    def describe(self, limit: float) -> str:
        """A sentence on a sample that is too small for a limit; empty where it is large enough."""
        if not self.too_small(limit):
            return ""
        start = (
            f"The sample is too small: with {self.queries} queries, {self.repeats} times each, the interval "
            f"of an attack that only guesses (AUC {short(CHANCE)}) ends at about "
            f"{short(CHANCE + self.half_width)} (limit {short(limit)})"
        )
        times = self.times(limit)
        if math.isinf(times):
            return f"{start}. No sample is large enough, since the limit is not above {short(CHANCE)}."
        if self.queries < FEWEST_QUERIES:
            queries = max(FEWEST_QUERIES, math.ceil(times * self.queries))
            return f"{start}. About {queries} queries would be enough; more draws of these few would not."
        return f"{start}. About --repeats {math.ceil(times * self.repeats)} would be enough, or more queries."
