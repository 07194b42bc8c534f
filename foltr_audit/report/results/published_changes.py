"""Rows of view `client`: how often a change of the global model is told to be one client's update."""

from __future__ import annotations

from dataclasses import dataclass

from foltr_audit.judge.published_models import SingledOut
from foltr_audit.report.results.attack_rows import AttackPlace, OfAttack
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class PublishedChangeRow(ResultRow, OfAttack):
    """What the observer of view `client` can tell of whose update each change is; see `SingledOut`."""

    where: AttackPlace = column(embedded=True)
    found: SingledOut = column(embedded=True)

    @property
    def text(self) -> str:
        """The row as a sentence."""
        found = self.found
        still = f", and did not in {found.unchanged:,}" if found.unchanged else ""
        several = f", those of several clients in {found.several:,}" if found.several else ""
        return (
            f"the global model changed in {found.rounds:,} rounds{still}; the change was one client's "
            f"message in {found.published:,} of them; it fits one client's lists in "
            f"{found.singled_out:,}{several}, and names the right client in {found.right:,}"
        )


def published_rows(found: SingledOut | None, where: AttackPlace) -> tuple[PublishedChangeRow, ...]:
    """The row of a view `client`; none of other views."""
    return () if found is None else (PublishedChangeRow(where=where, found=found),)
