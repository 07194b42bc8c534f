"""Whether clients that hold shares of a secret gave the server those of both secrets of one client."""

from __future__ import annotations

import numpy as np

from foltr_audit.recorder.messages import KEY_SHARES, SEED_SHARES
from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, number
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView


class ShareAnswerCheck(LintCheck):
    """Shares that were answered when a sum was unmasked.

    The seed of a client's own mask is for a message that arrived, the key of the masks that it shares with
    others for one that did not. Who has both takes all masks off one message.

    Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning",
    section 6.2.
    """

    name = "both-shares"
    tells = "clients of which the server got the shares of both secrets, and so can unmask alone"
    of_integers = True

    def start(self) -> None:
        """No share was answered so far."""
        self.tally = FindingTally()
        self.without = self.asked = 0
        self.nodes: list[int] = []

    def not_applicable(self) -> str | None:
        """Only masked messages of a real protocol."""
        if self.header.kind != "masked":
            return "messages are not masked"
        return "no shares are exchanged in a simulation" if self.header.spec_hash else None

    def look(self, seen: ServerView) -> None:
        """Compare whose shares of either secret were answered in a round."""
        cohort = seen.cohort
        if cohort is None or not any(stage in (SEED_SHARES, KEY_SHARES) for stage in cohort.stage):
            self.without += 1
            return
        stages = np.asarray(cohort.stage)
        owners = [set(cohort.node[stages == stage].tolist()) for stage in (SEED_SHARES, KEY_SHARES)]
        both = sorted(owners[0] & owners[1])
        asked = len(owners[0] | owners[1])
        self.asked += asked
        self.nodes += both
        self.tally.add(len(both), asked, len(both), f"round {seen.round}, node {both[0] if both else ''}")

    def gaps(self) -> Gaps:
        """Rounds of which no answer is recorded."""
        if self.without:
            part = f"{number(self.without, 'round')} of {self.rounds:,}"
            yield CoverageGap(part=part, why="the answers to the server's last request are not recorded")

    def findings(self) -> Findings:
        """One where both secrets of a client were given away."""
        if self.tally.hits:
            text = (
                f"the server was given shares of both secrets of {number(self.tally.hits, 'client')}, of "
                f"{self.asked:,} whose shares it asked for: with enough of them it takes all masks off "
                "their messages. The clients that hold the shares must refuse the second request."
            )
            yield self.leak(self.tally, text)
