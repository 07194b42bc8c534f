"""Whether masks follow from seeds that are short enough to try all of them."""

from __future__ import annotations

from foltr_audit.recorder.trace_start import FLOWER_MASKS
from foltr_audit.trace.lint.base import Findings, LintCheck
from foltr_audit.trace.lint.findings import LintFinding, number
from foltr_audit.trace.lint.rounds import ServerView

ENOUGH_BITS = 128
"""Bits of a seed that nobody can guess, see Barker 2020, NIST SP 800-57 part 1, table 2."""


class MaskSeedCheck(LintCheck):
    """The length of the seeds that the header declares, fact `mask_seed_bits`.

    SecAgg+ of Flower 1.41 folds each secret, of 256 bits, into a seed of 32 bits for NumPy's `RandomState`
    (Flower issue 7522).
    """

    name = "mask-seeds"
    tells = "masks that follow from seeds short enough to try all of them"
    of_integers = True

    def not_applicable(self) -> str | None:
        """Only masked messages of a real protocol."""
        if self.header.kind != "masked":
            return "messages are not masked"
        return "masks of a simulation do not come from secrets of clients" if self.header.spec_hash else None

    def why_not(self) -> str | None:
        """The length of a seed is not seen in a mask."""
        if isinstance(self.header.knowledge.get("mask_seed_bits"), int):
            return None
        return "the header does not say how long the seeds of the masks are (fact mask_seed_bits)"

    def look(self, seen: ServerView) -> None:
        """Nothing in a message tells how its mask was made."""

    def findings(self) -> Findings:
        """One where the declared seeds are too short."""
        bits = self.header.knowledge.get("mask_seed_bits")
        if not isinstance(bits, int) or bits >= ENOUGH_BITS or not self.messages:
            return
        text = (
            f"the header says that every mask follows from a seed of {bits} bits, and {ENOUGH_BITS} are "
            f"needed: a server can try all 2^{bits}. It gets the seed of a client's own mask when it unmasks "
            f"the sum. What is left are the masks that the client shares with {self._neighbours}: one falls "
            f"in 2^{bits} tries, two in as many tries and as much memory"
        )
        if self.header.masking == FLOWER_MASKS:
            text += (
                ". The weight of the message, its first word under the mask, is known: it confirms a guess"
            )
        yield LintFinding(
            check=self.name,
            severity="leak",
            text=f"{number(self.messages, 'masked message')}: {text}.",
            rounds=self.rounds,
            messages=self.messages,
        )

    @property
    def _neighbours(self) -> str:
        shares = self.header.knowledge.get("num_shares")
        return f"{number(shares - 1, 'other')}" if isinstance(shares, int) and shares > 1 else "others"
