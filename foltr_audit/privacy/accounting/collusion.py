"""The probability that clients who collude with the server open what secure aggregation hides."""

from __future__ import annotations

import math
from typing import NamedTuple

from foltr_audit.privacy.events import KeyShares


class CohortCounts(NamedTuple):
    """A cohort of a round.

    Attributes:
        clients: all of them.
        missing: clients whose messages do not arrive.
        colluders: clients that give the server their messages, their keys and their shares.
    """

    clients: int
    missing: int
    colluders: int


def exposure(shares: KeyShares, cohort: CohortCounts, honest: int) -> float:
    """Upper bound on the probability that one of `honest` messages, or a sum of some of them, is opened.

    - A message is opened if enough of its client's neighbours collude: their number is hypergeometric,
      since places on the circle are drawn at random.
    - The sum of a part of the circle is opened if two runs, as long as masks reach, hold nobody but
      colluding and missing clients: no mask then ties that part to the rest. The expected number of such
      pairs of runs bounds the probability. Pairs of missing clients alone do not count: the protocol aborts.

    Source: Bell et al. 2020, "Secure single-server aggregation with (poly)logarithmic overhead", section 3.
    """
    from scipy.stats import hypergeom

    others, found = cohort.clients - 1, 0.0
    if cohort.colluders >= shares.needed:
        colluders = min(cohort.colluders, others)
        found += honest * float(hypergeom.sf(shares.needed - 1, others, colluders, shares.neighbours))
    if cohort.colluders > 0 and shares.neighbours < others:
        pair = 2 * (shares.neighbours // 2)
        gone = min(cohort.clients, cohort.missing + cohort.colluders)
        runs = _all_among(pair, gone, cohort.clients) - _all_among(pair, cohort.missing, cohort.clients)
        found += 0.5 * cohort.clients**2 * max(0.0, runs)
    return min(1.0, found)


def opening(shares: KeyShares, colluders: int) -> str:
    """Why a sum protects nothing, in words."""
    return (
        f"{colluders} clients collude with the server: {shares.needed} of a client's {shares.neighbours} "
        "neighbours can open its message, and two runs of neighbours a part of the sum"
    )


def _all_among(some: int, marked: int, clients: int) -> float:
    """Probability that `some` given clients are all among the `marked` ones; by logarithms of factors."""
    if some > marked:
        return 0.0
    logs = (math.log(marked - i) - math.log(clients - i) for i in range(some))
    return math.exp(sum(logs))
