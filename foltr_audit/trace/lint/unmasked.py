"""Whether masked messages look as masks make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView

_BINS = 16
_LEAST_EXPECTED = 5
_SURE = 1e-9


class MaskCheck(LintCheck):
    """Masked numbers must be uniform modulo 2^b, with the b that the header names."""

    name: ClassVar[str] = "unmasked"
    tells: ClassVar[str] = "masked numbers that are not spread evenly, so that masks are missing or weak"
    of_integers: ClassVar[bool] = True

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.tally = FindingTally()
        self.rounds = self.small = 0

    def not_applicable(self) -> str | None:
        """Nothing but of masked messages."""
        return None if self.header.kind == "masked" else "messages are not masked"

    def look(self, seen: ServerView) -> None:
        """Test the leading bits of all messages of a round that arrived."""
        values = seen.messages[seen.survivors]
        encoding = self.header.encoding
        self.rounds += 1
        if encoding is None or values.size < _BINS * _LEAST_EXPECTED:
            self.small += 1
            return
        uneven = _chance_of_even(values, encoding.bits) < _SURE
        self.tally.messages_of(seen.round, seen.survivors & uneven)

    def gaps(self) -> Iterator[CoverageGap]:
        """Rounds too small to test."""
        if self.small:
            yield CoverageGap(
                part=f"{number(self.small, 'round')} of {self.rounds:,}",
                why=f"fewer than {_BINS * _LEAST_EXPECTED} numbers arrived",
            )

    def findings(self) -> Iterator[LintFinding]:
        """One where some round is uneven."""
        if self.tally.hits:
            text = (
                f"the numbers in {number(self.tally.hits, 'message')} are not spread evenly over their "
                "range: masks are missing, or are not uniform."
            )
            yield self.tally.finding(self.name, "leak", "messages", text)


def _chance_of_even(values: NDArray[np.unsignedinteger], bits: int) -> float:
    """How likely leading bits as uneven as these are, if each was likely (chi-square, 15 degrees)."""
    from scipy.special import chdtrc

    leading = (values.reshape(-1) >> np.asarray(bits - 4, dtype=values.dtype)).astype(np.int64)
    expected = values.size / _BINS
    statistic = (
        (np.bincount(np.minimum(leading, _BINS - 1), minlength=_BINS) - expected) ** 2
    ).sum() / expected
    return float(chdtrc(_BINS - 1, statistic))
