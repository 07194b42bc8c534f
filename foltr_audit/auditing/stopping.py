"""When an audit stops to play trials: after all of them, or as soon as a claim is decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from foltr_audit.auditing.estimators import TrialScores
from foltr_audit.auditing.estimators.betting import hopeless, refutes
from foltr_audit.auditing.trial_scores import Pair

_FIRST = 60  # trials in the first batch; each batch doubles their number

Play = Callable[[range], Pair]
"""The scores of some of the trials that are evaluated."""


@dataclass(frozen=True, kw_only=True)
class EarlyStop:
    """Trials in growing batches until bets refute a claim, or could no longer refute it.

    Attributes:
        claim: the claimed epsilon; an infinite one is never refuted.
        delta: of the claim.
        confidence: at which it is refuted.
        most: trials under each hypothesis, at most.
    """

    claim: float
    delta: float
    confidence: float
    most: int

    def played(self, choose: Pair, play: Play) -> TrialScores:
        """The trials until the stop, behind the part for choosing."""
        zero, one = np.empty(0), np.empty(0)
        for batch in self.batches():
            more = play(batch)
            zero, one = np.concatenate([zero, more[0]]), np.concatenate([one, more[1]])
            trials = TrialScores(choose_zero=choose[0], choose_one=choose[1], zero=zero, one=one)
            if self.decided(trials):
                break
        return trials

    def batches(self) -> Iterator[range]:
        """Numbers of the trials of each batch."""
        first, last = 0, _FIRST
        while first < self.most:
            if self.most - last < last - first:  # a rest that is smaller than the batch joins it
                last = self.most
            yield range(first, last)
            first, last = last, 2 * last

    def decided(self, trials: TrialScores) -> bool:
        """Whether these trials refute the claim, or leave no hope that all of them will."""
        if not np.isfinite(self.claim):
            return False
        delta, confidence = self.delta, self.confidence
        return refutes(trials, self.claim, delta=delta, confidence=confidence) or hopeless(
            trials, self.most, self.claim, delta=delta, confidence=confidence
        )
