"""Who is in a sum of messages, and whose noise: what every proof about sums begins with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foltr_audit.errors import UsageError
from foltr_audit.privacy.events import KeyShares


@dataclass(frozen=True, kw_only=True)
class SumMembers:
    """Who is in any sum of messages that an observer may see, at worst.

    Each client draws its noise on its own, so `honest` messages hold as many independent shares of it.
    `PrivacyDescription.members` (`simulation/privacy_description.py`) says it of a Spec, the fact
    `honest_messages` of the header of a trace.

    Attributes:
        cohort: clients n of a round, among whom noise may be shared out.
        fewest: messages in the smallest sum that is opened; None for all n, or where messages are masked
            for the fewest that open.
        silent: most clients whose messages carry no noise of their own: malicious clients.
        subtracted: messages that the server can take out of a sum.
        colluders: for the view `colluding`, other clients that tell the server their messages; None for all.
        largest_weight: largest weight of a client in the sum over the smallest; weights are public.
        follows: whether the server follows the protocol, so that noise that it adds to sums is there.
        why: what makes the sum smaller than the cohort, or takes noise out of it, in words.

    Raises:
        UsageError: a number out of range.
    """

    cohort: int
    fewest: int | None = None
    silent: int = 0
    subtracted: int = 0
    colluders: int | None = None
    largest_weight: float = 1.0
    follows: bool = True
    why: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n, fewest, colluders = self.cohort, self.fewest, self.colluders
        if not n >= 1:
            raise UsageError(f"accounting: a cohort of {n}; expected at least 1 client")
        if fewest is not None and not 1 <= fewest <= n:
            raise UsageError(f"--arriving: {fewest} of {n} messages; expected 1 to {n}")
        if colluders is not None and not 0 <= colluders < n:
            raise UsageError(f"--colluders: {colluders} of {n} clients; expected 0 to {n - 1}")
        if not 1 <= self.largest_weight < math.inf:
            raise UsageError(f"accounting: largest weight {self.largest_weight}; expected at least 1")
        if self.silent < 0 or self.subtracted < 0:
            raise UsageError("accounting: silent and subtracted messages; expected at least 0 of each")

    @property
    def because(self) -> str:
        """`why` in brackets, to follow what is said of a sum; empty without a reason."""
        return f" ({', '.join(self.why)})" if self.why else ""

    def messages(self, at_least: int | None = None) -> int:
        """Messages in the smallest sum; `at_least` are the fewest of a secure sum, if there is one."""
        return self.fewest or min(at_least or self.cohort, self.cohort)

    def honest(self, at_least: int | None = None, *, colluding: bool = False) -> int:
        """Messages that carry noise of their own and that the server cannot take out of the smallest sum.

        The message of the client that is to be protected is one of them. Malicious clients, subtracted
        messages and colluders are taken to be different clients that are all in this sum.
        """
        if colluding and self.colluders is None:
            return 1
        gone = self.silent + self.subtracted + (self.colluders or 0) * colluding
        return max(1, self.messages(at_least) - gone)

    def opened(
        self, shares: KeyShares | None, at_least: int | None, rounds: int, *, colluding: bool
    ) -> tuple[float, str]:
        """Probability that colluders open a message, or a smaller sum, in any round; and how they do.

        Clients that the server runs itself, whose messages it subtracts, hold shares of keys too.
        """
        colluders = self.subtracted + (self.colluders or 0) * colluding
        if colluders == 0 or shares is None:
            return 0.0, ""
        missing = self.cohort - self.messages(at_least)
        honest = self.honest(at_least, colluding=colluding)
        colluders = min(colluders, self.cohort - 1)
        once = exposure(shares, clients=self.cohort, missing=missing, colluders=colluders, honest=honest)
        return min(1.0, rounds * once), (
            f"{colluders} clients collude with the server: {shares.needed} of a client's {shares.neighbours} "
            "neighbours can open its message, and two runs of neighbours a part of the sum"
        )


def exposure(shares: KeyShares, *, clients: int, missing: int, colluders: int, honest: int) -> float:
    """Upper bound on the probability that one of `honest` messages, or a sum of some of them, is opened.

    Of a round's `clients`, the messages of the `missing` ones do not arrive, and the `colluders` give the
    server their messages, their keys and their shares.

    - A message is opened if enough of its client's neighbours collude: their number is hypergeometric,
      since places on the circle are drawn at random.
    - The sum of a part of the circle is opened if two runs, as long as masks reach, hold nobody but
      colluding and missing clients: no mask then ties that part to the rest. The expected number of such
      pairs of runs bounds the probability. Pairs of missing clients alone do not count: the protocol aborts.

    Source: Bell et al. 2020, "Secure single-server aggregation with (poly)logarithmic overhead", section 3.
    """
    from scipy.stats import hypergeom

    others, found = clients - 1, 0.0
    if colluders >= shares.needed:
        law = others, min(colluders, others), shares.neighbours
        found += honest * float(hypergeom.sf(shares.needed - 1, *law))
    if colluders > 0 and shares.neighbours < others:
        pair = 2 * (shares.neighbours // 2)
        gone = min(clients, missing + colluders)
        runs = _all_among(pair, gone, clients) - _all_among(pair, missing, clients)
        found += 0.5 * clients**2 * max(0.0, runs)
    return min(1.0, found)


def _all_among(some: int, marked: int, clients: int) -> float:
    """Probability that `some` given clients are all among the `marked` ones; by logarithms of factors."""
    if some > marked:
        return 0.0
    logs = (math.log(marked - i) - math.log(clients - i) for i in range(some))
    return math.exp(sum(logs))
