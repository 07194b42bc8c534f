"""Whether clients draw their perturbations from seeds of their own."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, LintCheck
from foltr_audit.trace.lint.findings import FindingTally
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.trace.lint.seed_chains import TRIED, SeedChain
from foltr_audit.utils.seed_generators import SEED_GENERATORS


class SeedReuseCheck(LintCheck):
    """Seeds that occur in several messages, or that a known generator makes of another seed."""

    name = "reused-seeds"
    tells = "which messages come from the same client, or from a weak generator"
    of_anything = True

    def start(self) -> None:
        """No seed has been seen yet."""
        self.tally = FindingTally()
        self.met = np.empty(0, dtype=np.uint64)
        self.chains = tuple(SeedChain(generator) for generator in SEED_GENERATORS)

    def not_applicable(self) -> str | None:
        """Only messages with seeds."""
        return None if self.header.kind == "es" else "messages have no seeds"

    def look(self, seen: ServerView) -> None:
        """Compare the seeds of a round with each other and with all before, and with what these make."""
        if seen.seeds is None:
            return
        different, place, counts = np.unique(seen.seeds, return_inverse=True, return_counts=True)
        self.tally.messages_of(seen.round, (counts[place] > 1) | np.isin(seen.seeds, self.met))
        self.met = np.union1d(self.met, different)
        for chain in self.chains:
            chain.take(seen.round, seen.seeds)

    def findings(self) -> Findings:
        """One where a seed came twice, and one for each generator that makes seeds of others."""
        if self.tally.hits:
            text = (
                "seeds occur in several messages: they reveal which messages belong together, and the "
                "metrics of one perturbation add up."
            )
            yield self.leak(self.tally, text)
        for chain in self.chains:
            if chain.found:
                text = (
                    f"seeds follow from an earlier message's seed, or from a small number, by "
                    f"{chain.generator.called}: the chain reveals which messages come from one client, and "
                    "whatever else that client draws from this generator."
                )
                yield self.leak(chain.tally, text)

    def power(self) -> str | None:
        """The generators that were tried."""
        return TRIED
