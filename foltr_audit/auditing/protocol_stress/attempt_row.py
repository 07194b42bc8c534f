"""One attempt to learn a single client's message, and how it came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr_audit.utils.rows import ResultRow, column

StressOutcome = Literal["held", "broken"]
"""Whether what should stay hidden did."""

StressActor = Literal["honest-but-curious server", "active server", "faulty client"]
"""Who departs from the protocol: nobody, the server, or the program of the clients."""


def outcome(broken: bool) -> StressOutcome:
    """The word for a result."""
    return "broken" if broken else "held"


@dataclass(frozen=True, kw_only=True)
class ProtocolAttempt(ResultRow):
    """One attempt.

    Attributes:
        name: of the attempt.
        actor: who departs from the protocol.
        does: what the server does.
        sent: what clients sent it, in numbers.
        outcome: `broken` if it computed what should stay hidden.
        learnt: what it computed.
        promised: whether the protocol promises that this holds.
        answer: what stops it; None if nothing has to.
        with_answer: the outcome of the same attempt with that answer.
        source: who describes the attempt or the answer.
    """

    name: str
    actor: StressActor
    does: str
    sent: str
    outcome: StressOutcome
    learnt: str
    promised: bool
    answer: str | None = column(optional=True)
    with_answer: StressOutcome | None = column(optional=True)
    source: str
