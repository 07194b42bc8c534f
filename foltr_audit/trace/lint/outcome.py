"""The outcome of a check: whether it found something, looked everywhere, in part, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr_audit.utils.rows import ResultRow

State = Literal["found", "clean", "not looked"]


@dataclass(frozen=True, kw_only=True)
class CoverageGap(ResultRow):
    """Something that a check did not look at.

    Attributes:
        part: what, as it follows `did not look at`.
        why: the reason.
    """

    part: str
    why: str


@dataclass(frozen=True, kw_only=True)
class LintCheckRow(ResultRow):
    """The outcome of one check in a report, see `LintOutcome`."""

    name: str
    tells: str
    state: State
    reason: str | None
    applies: bool
    looked_in_part: bool
    not_looked_at: tuple[CoverageGap, ...]
    power: str | None


@dataclass(frozen=True, kw_only=True)
class LintOutcome:
    """The outcome of one check on one trace.

    Attributes:
        name: name of the check.
        tells: what the server would learn from what it finds.
        found: whether there is a finding of it.
        applies: whether the trace holds anything of the kind that it looks at.
        reason: why it did not look at all; None where it did.
        gaps: what it did not look at, where it looked at the rest.
        power: the smallest fault it would have found; None where it is not known.
    """

    name: str
    tells: str
    found: bool = False
    applies: bool = True
    reason: str | None = None
    gaps: tuple[CoverageGap, ...] = ()
    power: str | None = None

    @property
    def state(self) -> State:
        """`clean` only where all that the check promises was looked at."""
        if self.found:
            return "found"
        return "not looked" if self.reason is not None or self.gaps else "clean"

    @property
    def in_part(self) -> bool:
        """Whether it looked at some of what it promises."""
        return self.reason is None and bool(self.gaps)

    @property
    def is_missing(self) -> bool:
        """Whether it should have looked and did not."""
        return self.applies and self.reason is not None

    @property
    def row(self) -> LintCheckRow:
        """The outcome in a report."""
        return LintCheckRow(
            name=self.name,
            tells=self.tells,
            state=self.state,
            reason=self.reason,
            applies=self.applies,
            looked_in_part=self.in_part,
            not_looked_at=self.gaps,
            power=self.power,
        )
