"""Numbers that clients send in clear beside their messages."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, LintCheck
from foltr_audit.trace.lint.findings import FindingTally
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.utils.arrays import Bools, Floats


class ClearMetricCheck(LintCheck):
    """Metrics of the clients of one round, by name: whether they tell clients apart."""

    name = "clear-metrics"
    tells = "numbers about each client beside its message, such as its loss or its clicks"
    of_integers = True
    of_anything = True

    def start(self) -> None:
        """No metric is recorded so far."""
        self.tally, self.alike = FindingTally(), FindingTally()
        self.ends: dict[str, tuple[float, float]] = {}
        self.constant: dict[str, None] = {}

    def look(self, seen: ServerView) -> None:
        """Compare the values of each metric within a round.

        Clients without it count as another value, but for those whose message never arrived.
        """
        apart = np.zeros(seen.counts.size, dtype=np.bool_)
        for name, values in seen.clear.items():
            if _differ(values[seen.survivors | np.isfinite(values)]):
                apart |= True
                known = values[np.isfinite(values)]
                low, high = self.ends.get(name, (np.inf, -np.inf))
                self.ends[name] = (min(low, known.min(initial=low)), max(high, known.max(initial=high)))
            else:
                self.constant[name] = None
        self.tally.messages_of(seen.round, apart)
        self.alike.messages_of(seen.round, np.full(apart.size, bool(seen.clear)) & ~apart)

    def findings(self) -> Findings:
        """A leak where metrics tell clients apart, a note where all clients of a round send the same."""
        if self.tally.hits:
            told = ", ".join(f"{name} ({low:g} to {high:g})" for name, (low, high) in self.ends.items())
            beside = "masked messages" if self.header.kind == "masked" else "the messages"
            text = (
                f"metrics travel in clear beside {beside} and differ within a round: {told}. The server "
                "reads them of each client, whatever covers its message."
            )
            yield self.leak(self.tally, text)
        same = [name for name in self.constant if name not in self.ends]
        if same:
            text = (
                f"metrics travel in clear, the same from all clients of a round: {', '.join(same)}. They "
                "reveal nothing about one client."
            )
            yield self.note(self.alike, text)


def _differ(values: Floats) -> bool:
    """Whether clients send different values, or some of them none; NaN stands for none."""
    known: Bools = np.isfinite(values)
    return bool(known.any()) and (not known.all() or bool(np.ptp(values) > 0))
