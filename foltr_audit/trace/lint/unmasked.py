"""Whether masked messages look as masks make them."""

from __future__ import annotations

from typing import cast

import numpy as np

from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, number
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.trace.lint.windows import SURE
from foltr_audit.utils.arrays import Words

_BINS = 16  # of the 4 leading bits
_LEAST_EXPECTED = 5  # numbers in each bin, the usual minimum of a chi-square test


class MaskCheck(LintCheck):
    """Masked numbers must be uniform modulo 2^b, with the b that the header names."""

    name = "unmasked"
    tells = "masked numbers that are not spread evenly, so that masks are missing or weak"
    of_integers = True

    def start(self) -> None:
        """No message is uneven so far."""
        self.tally = FindingTally()
        self.small = 0

    def not_applicable(self) -> str | None:
        """Only masked messages."""
        return None if self.header.kind == "masked" else "messages are not masked"

    def look(self, seen: ServerView) -> None:
        """Test the leading bits of all messages of a round that arrived."""
        values = seen.messages[seen.survivors]
        encoding = self.header.encoding
        if encoding is None or values.size < _BINS * _LEAST_EXPECTED:
            self.small += 1
            return
        uneven = _chance_of_even(cast(Words, values), encoding.bits) < SURE
        self.tally.messages_of(seen.round, seen.survivors & uneven)

    def gaps(self) -> Gaps:
        """Rounds too small to test."""
        if self.small:
            why = f"fewer than {_BINS * _LEAST_EXPECTED} numbers arrived"
            yield CoverageGap(part=f"{number(self.small, 'round')} of {self.rounds:,}", why=why)

    def findings(self) -> Findings:
        """One where some round is uneven."""
        if self.tally.hits:
            text = (
                f"the numbers in {number(self.tally.hits, 'message')} are not spread evenly over their "
                "range: masks are missing, or are not uniform."
            )
            yield self.leak(self.tally, text)


def _chance_of_even(values: Words, bits: int) -> float:
    """The probability of leading bits at least as uneven, if each is equally likely (chi-square, df 15)."""
    from scipy.special import chdtrc

    leading = (values.reshape(-1) >> np.asarray(bits - 4, dtype=values.dtype)).astype(np.int64)
    expected = values.size / _BINS
    counts = np.bincount(np.minimum(leading, _BINS - 1), minlength=_BINS)
    return float(chdtrc(_BINS - 1, ((counts - expected) ** 2).sum() / expected))
