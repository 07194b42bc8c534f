"""How likely clients that tell the server what they know are to open what secure aggregation hides."""

from __future__ import annotations

import math
from typing import NamedTuple

from foltr_audit.privacy.events import KeyShares


class CohortCounts(NamedTuple):
    """A cohort of a round.

    Attributes:
        clients: all of them.
        missing: clients whose messages do not arrive.
        telling: other clients that tell the server what they sent, their keys and their shares.
    """

    clients: int
    missing: int
    telling: int


def exposure(shares: KeyShares, cohort: CohortCounts, honest: int) -> float:
    """Upper bound on the chance that one of `honest` messages, or a sum of some of them, is opened.

    - A message, if enough of its client's neighbours tell their shares of its secrets: their number is
      hypergeometric, since places on the circle are drawn at random.
    - The sum of a part of the circle, if whoever tells or is missing fills two runs as long as masks reach:
      no mask then ties that part to the rest. It is bounded by the expected number of such pairs of runs, of
      which those of missing clients alone do not count: the protocol aborts there.

    Source: Bell et al. 2020, "Secure single-server aggregation with (poly)logarithmic overhead", section 3.
    """
    from scipy.stats import hypergeom

    others, found = cohort.clients - 1, 0.0
    if cohort.telling >= shares.needed:
        telling = min(cohort.telling, others)
        found += honest * float(hypergeom.sf(shares.needed - 1, others, telling, shares.neighbours))
    if cohort.telling > 0 and shares.neighbours < others:
        pair = 2 * (shares.neighbours // 2)
        gone = min(cohort.clients, cohort.missing + cohort.telling)
        runs = _all_among(pair, gone, cohort.clients) - _all_among(pair, cohort.missing, cohort.clients)
        found += 0.5 * cohort.clients**2 * max(0.0, runs)
    return min(1.0, found)


def opening(shares: KeyShares, telling: int) -> str:
    """Why a sum protects nothing, in words."""
    return (
        f"{telling} clients tell what they know: {shares.needed} of a client's {shares.neighbours} "
        "neighbours can open its message, and two runs of neighbours a part of the sum"
    )


def _all_among(some: int, marked: int, clients: int) -> float:
    """How likely so many given clients are all among the marked ones, of which there are so many."""
    if some > marked:
        return 0.0
    logs = (math.log(marked - i) - math.log(clients - i) for i in range(some))
    return math.exp(sum(logs))
