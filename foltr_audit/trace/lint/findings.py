"""What a check found, and the count of where it found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Severity = Literal["leak", "note"]
Unit = Literal["messages", "coordinates", "rounds"]


@dataclass(frozen=True, kw_only=True)
class LintFinding:
    """One thing that messages give away.

    Attributes:
        check: name of the check.
        severity: `leak`, or `note` for what is worth knowing and tells nothing about one client by itself.
        text: what it is and what it tells, in a plain sentence.
        rounds: number of rounds concerned.
        messages: number of messages concerned.
        share: share of all that were looked at; None where there is nothing to count.
        of: what the share is of; None where there is none.
        example: one place, e.g. `round 3, message 17`; None where it holds everywhere.
    """

    check: str
    severity: Severity
    text: str
    rounds: int
    messages: int
    share: float | None = None
    of: Unit | None = None
    example: str | None = None


class FindingTally:
    """Counts messages and coordinates concerned, and keeps the first place.

    Attributes:
        rounds: rounds concerned.
        messages: messages concerned.
        hits: coordinates (or messages) concerned.
        looked: coordinates (or messages) looked at.
        example: the first place.
    """

    def __init__(self) -> None:
        self.rounds = self.messages = self.hits = self.looked = 0
        self.example: str | None = None

    def messages_of(self, round_: int, which: NDArray[np.bool_]) -> None:
        """Take the messages (M,) of a round for which something holds."""
        self.looked += which.size
        self.hits += int(which.sum())
        self._place(round_, which)

    def coordinates_of(self, round_: int, which: NDArray[np.bool_], looked: int) -> None:
        """Take the coordinates (M, P) of a round for which something holds, of so many looked at."""
        self.looked += looked
        self.hits += int(which.sum())
        rows = np.asarray(which.any(axis=1))
        self._place(
            round_, rows, f", coordinate {int(np.argmax(which[np.argmax(rows)]))}" if rows.any() else ""
        )

    def _place(self, round_: int, rows: NDArray[np.bool_], more: str = "") -> None:
        count = int(rows.sum())
        if not count:
            return
        self.rounds += 1
        self.messages += count
        if self.example is None:
            self.example = f"round {round_}, message {int(np.argmax(rows))}{more}"

    @property
    def share(self) -> float:
        """Share of what was looked at; 0 where nothing was."""
        return self.hits / self.looked if self.looked else 0.0

    def finding(self, check: str, severity: Severity, of: Unit, text: str) -> LintFinding:
        """The finding of these counts."""
        counts: dict[str, Any] = {"rounds": self.rounds, "messages": self.messages, "share": self.share}
        return LintFinding(check=check, severity=severity, of=of, text=text, example=self.example, **counts)


def number(count: int, what: str) -> str:
    """A count with its noun, e.g. `1 message`, `3 messages`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
