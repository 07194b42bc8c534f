"""What an upper bound is computed for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.events import UNITS
from foltr_audit.privacy.observer_views import VIEWS, sees_lists, without_lists

LISTS_REVEAL = (
    "lists after the first are ranked by a local model that has learnt from earlier clicks, without noise; "
    "--rank-with global ranks all lists with the global model"
)
"""Why noise on messages hides nothing from who sees lists that follow from clicks."""

_COUNTS = [
    "parameters",
    "interactions",
    "list_length",
    "rounds",
    "participations",
    "separation",
    "uses",
    "repeats",
]


@dataclass(frozen=True, kw_only=True)
class AccountingContext:
    """What a bound is for: an observer, a unit, a run. Neighbours replace one unit of one client.

    Attributes:
        view: whose observations, of `VIEWS`.
        unit: what two neighbouring inputs differ in, of `UNITS`.
        parameters: coordinates P of a message.
        members: who is in a sum that the observer sees; None where nothing says so, and then no proof rests
            on noise in sums.
        interactions: B, interactions of a client in one round.
        ranked_with: the model that ranks a client's lists: its `local` one, so that a list follows from the
            clicks on the lists before it in the same round, or the `global` one.
        list_length: longest shown list.
        rounds: rounds T that are observed; with 1, the bound is that of one round.
        participations: the most of these rounds in which one client takes part; None for all of them.
        separation: rounds b from one in which a client takes part to its next one, at least. A client may
            take part in every b-th round only, and the observer knows in which ones.
        uses: the most rounds whose messages learn from one click: a client that has asked all queries of its
            search log starts again.
        repeats: how often one message may learn from the same click.
        delta: delta of the bound; 0 for pure differential privacy.
        sampled: share of the clients that may take part in a round and do, a sample of fixed size, above 0.
        cohorts: what a bound for several rounds assumes of them: `any`, also that the client takes part in
            every round in which it may; `known`: drawn at random, and the observer knows who takes part;
            `secret`: drawn at random, and it does not.
    """

    view: str
    unit: str
    parameters: int
    members: SumMembers | None
    interactions: int = 1
    ranked_with: Literal["local", "global"] = "local"
    list_length: int = 10
    rounds: int = 1
    participations: int | None = None
    separation: int = 1
    uses: int = 1
    repeats: int = 1
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
        return self.rounds > 1 and (self.unit in ("query", "client") or self.uses > 1)

    @property
    def touched(self) -> int:
        """Rounds whose messages may depend on the unit other than through what was observed before."""
        if not self.recurs:
            return 1
        most = self.participations or self.turns
        return min(self.turns, most, self.turns if self.unit in ("query", "client") else self.uses)

    @property
    def turns(self) -> int:
        """Rounds in which one client may take part by its separation."""
        return -(-self.rounds // self.separation)
