"""What an upper bound is computed for, and the bound itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.privacy.events import UNITS, KeyShares
from foltr_audit.privacy.observer_views import VIEWS, sees_lists, without_lists


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


LISTS_REVEAL = (
    "lists after the first are ranked by a local model that has learnt from earlier clicks, without noise; "
    "--rank-with global ranks all lists with the global model"
)
"""Why noise on messages hides nothing from who sees lists that follow from clicks."""

_COUNTS = ("parameters", "shares", "interactions", "list_length", "rounds", "participations", "separation")


@dataclass(frozen=True, kw_only=True)
class AccountingContext:
    """What a bound is for: an observer, a unit, a run. Neighbours replace one unit of one client.

    The weights of clients in the sum (their numbers of interactions) are public and the same for both
    neighbours.

    Attributes:
        view: whose observations, of `VIEWS`.
        unit: what two neighbouring inputs differ in, of `UNITS`.
        parameters: coordinates P of a message.
        shares: number n of clients whose noise shares are assumed to arrive.
        arriving: messages in the sum, 1 to n. None: n of them, or with secure aggregation the fewest
            that it sums.
        colluders: for view `colluding`, how many of the other clients collude with the server; None for
            all of them. Their messages are assumed to be among those that arrive.
        interactions: B, interactions of a client in one round.
        ranked_with: the model that ranks a client's lists: its `local` one, so that a list follows from the
            clicks on the lists before it in the same round, or the `global` one.
        list_length: longest shown list.
        number_format: how a message is sent. The last bits of a `float64` number with continuous noise
            reveal what the noise was added to; `float32` rounds them away.
        largest_weight: largest weight of a client in the sum over the smallest, at least 1.
        rounds: rounds T that are observed; with 1, the bound is that of one round.
        participations: the most of these rounds in which one client takes part; None for all of them.
        separation: rounds b from one in which a client takes part to its next one, at least. A client may
            take part in every b-th round only, and the observer knows in which ones.
        delta: delta of the bound; 0 for pure differential privacy.
        sampled: share of the clients that may take part in a round and do, a sample of fixed size, above 0.
        cohorts: what a bound for several rounds assumes of them: `any`, also that the client takes part in
            every round in which it may; `known`: drawn at random, and the observer knows who takes part;
            `secret`: drawn at random, and it does not.
    """

    view: str
    unit: str
    parameters: int
    shares: int
    arriving: int | None = None
    colluders: int | None = None
    interactions: int = 1
    ranked_with: Literal["local", "global"] = "local"
    list_length: int = 10
    number_format: Literal["float32", "float64"] = "float32"
    largest_weight: float = 1.0
    rounds: int = 1
    participations: int | None = None
    separation: int = 1
    delta: float = 0.0
    sampled: float = 1.0
    cohorts: Literal["any", "known", "secret"] = "any"

    def __post_init__(self) -> None:
        if self.view not in VIEWS:
            raise UsageError(f"accounting: unknown view {self.view!r}; {suggest_name(self.view, VIEWS)}")
        if self.unit not in UNITS:
            raise UsageError(f"accounting: unknown unit {self.unit!r}; {suggest_name(self.unit, UNITS)}")
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise UsageError(f"accounting: {name} {value}; expected at least 1")
        n, arriving, colluders = self.shares, self.arriving, self.colluders
        if arriving is not None and not 1 <= arriving <= n:
            raise UsageError(f"--arriving: {arriving} of {n} messages; expected 1 to {n}")
        if colluders is not None and not 0 <= colluders < n:
            raise UsageError(f"--colluders: {colluders} of {n} clients; expected 0 to {n - 1}")
        if not 1 <= self.largest_weight < math.inf:
            raise UsageError(f"accounting: largest weight {self.largest_weight}; expected at least 1")
        if not 0 <= self.delta < 1:
            raise UsageError(f"accounting: delta {self.delta}; expected 0 <= delta < 1")
        if not 0 < self.sampled <= 1:
            raise UsageError(f"accounting: a share of {self.sampled} is sampled; expected above 0, at most 1")

    @property
    def lists_follow_clicks(self) -> bool:
        """Whether the observer sees lists that follow from the clicks on earlier ones, without noise."""
        return sees_lists(self.view) and self.interactions > 1 and self.ranked_with == "local"

    @property
    def seen(self) -> str:
        """The view without the shown lists."""
        return without_lists(self.view)

    @property
    def recurs(self) -> bool:
        """Whether the messages of several rounds may depend on the unit."""
        return self.rounds > 1 and self.unit in ("query", "client")

    @property
    def touched(self) -> int:
        """Rounds whose messages may depend on the unit other than through what was observed before."""
        if not self.recurs:
            return 1
        return min(self.turns, self.participations or self.turns)

    @property
    def turns(self) -> int:
        """Rounds in which one client may take part by its separation."""
        return -(-self.rounds // self.separation)
