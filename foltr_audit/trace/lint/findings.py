"""What a check found, and the count of where it found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr_audit.utils.arrays import Bools
from foltr_audit.utils.rows import ResultRow

Severity = Literal["leak", "note"]
Unit = Literal["messages", "coordinates", "rounds"]


@dataclass(frozen=True, kw_only=True)
class LintFinding(ResultRow):
    """One thing that messages reveal.

    Attributes:
        check: name of the check.
        severity: `leak`, or `note` for a fact that reveals nothing about one client on its own.
        text: what it is and what it reveals, in a plain sentence.
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
    """Counts messages or coordinates concerned, and keeps the first place.

    Attributes:
        of: what is counted.
        rounds: rounds concerned.
        messages: messages concerned.
        hits: coordinates (or messages) concerned.
        looked: coordinates (or messages) looked at.
        example: the first place.
    """

    def __init__(self, of: Unit = "messages") -> None:
        self.of = of
        self.rounds = self.messages = self.hits = self.looked = 0
        self.example: str | None = None

    def add(self, hits: int, looked: int, messages: int, place: str) -> None:
        """Add the counts of a round, and its first place."""
        self.hits += hits
        self.looked += looked
        self.messages += messages
        self.rounds += messages > 0
        if messages and self.example is None:
            self.example = place

    def messages_of(self, round_: int, which: Bools) -> None:
        """Take the messages (M,) of a round for which something holds."""
        hits = int(which.sum())
        self.add(hits, which.size, hits, f"round {round_}, message {which.argmax()}")

    def coordinates_of(self, round_: int, which: Bools, looked: int) -> None:
        """Take the coordinates (M, P) of a round for which something holds, of `looked` looked at."""
        rows = which.any(axis=1)
        first = int(rows.argmax())
        place = f"round {round_}, message {first}, coordinate {which[first].argmax()}"
        self.add(int(which.sum()), looked, int(rows.sum()), place)

    @property
    def share(self) -> float:
        """Share of what was looked at; 0 where nothing was."""
        return self.hits / self.looked if self.looked else 0.0

    def finding(self, check: str, severity: Severity, text: str) -> LintFinding:
        """The finding of these counts."""
        return LintFinding(
            check=check,
            severity=severity,
            text=text,
            rounds=self.rounds,
            messages=self.messages,
            share=self.share,
            of=self.of,
            example=self.example,
        )


def number(count: int, what: str) -> str:
    """A count with its noun, e.g. `1 message`, `3 messages`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
