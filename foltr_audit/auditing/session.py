"""The claim of a chain, and the games of an audit on some global models: canaries, loss, scored trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.canaries import Canary, CanarySearch, message_canaries
from foltr_audit.auditing.evaluation import Pair, about_best, promised_bound, split
from foltr_audit.auditing.games import GameSimulator, OtherClients
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.auditing.trial_scores import (
    SCORES,
    ObservationNoise,
    attack_scores,
    exact_epsilon,
    lists_are_certain,
    trial_scores,
)
from foltr_audit.core.plugins import Defense
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.defaults import DELTA
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.events import (
    GridRounding,
    MessageAggregation,
    NoiseAddition,
    PrivacyEvent,
)
from foltr_audit.privacy.observer_views import sees_lists, without_lists
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import Progress

_IMPLIES = {
    "individual": ("individual", "aggregate", "colluding"),
    "colluding": ("aggregate", "colluding"),
    "aggregate": ("aggregate",),
}
"""The views without lists in which a claim for a view holds: single messages determine all the rest."""


class ChainClaim(NamedTuple):
    """An epsilon and a delta; infinite where nothing is claimed."""

    epsilon: float
    delta: float

    def of_group(self, size: float) -> ChainClaim:
        """The claim for several units together: group privacy.

        Source: Vadhan 2017, "The complexity of differential privacy", lemma 2.2.
        """
        if math.isinf(size):
            return NOTHING
        if size == 1 or self.delta == 0:
            return ChainClaim(self.epsilon * size, self.delta)
        # `expm1` keeps the digits of a small epsilon; that of a large one overflows, and delta is then 1.
        large = size * self.epsilon > _LARGEST
        grown = math.inf if large else math.expm1(size * self.epsilon) / math.expm1(self.epsilon)
        return ChainClaim(self.epsilon * size, min(1.0, grown * self.delta))

    def of_messages(self, count: int) -> ChainClaim:
        """The claim for several messages of one client together, by composition."""
        return ChainClaim(self.epsilon * count, min(1.0, self.delta * count))


NOTHING = ChainClaim(math.inf, DELTA)

_LARGEST = 700.0  # e^epsilon is still a float64


def group_size(claimed: str, audited: str, interactions: int) -> float:
    """How many units of the claimed kind change if one audited unit does; infinite if none cover it.

    A claim for clicks or for one query does not cover a whole client, whose queries differ too. A published
    claim for an interaction, though, is one for a whole data instance: a client learns from B of them.

    >>> group_size("click", "interaction", 4), group_size("client", "click", 4)
    (10.0, 1.0)
    """
    sizes: dict[str, dict[str, float]] = {
        "click": {"interaction": LIST_LENGTH, "query": LIST_LENGTH * interactions, "client": math.inf},
        "interaction": {"query": interactions, "client": interactions},
        "query": {"client": math.inf},
    }
    return float(sizes.get(claimed, {}).get(audited, 1))


_FEWEST = 60  # trials that choose score and threshold


class ScoredTrials(NamedTuple):
    """The scores of the first trials of a game.

    Attributes:
        score: the name of the score.
        pair: of the trials under both hypotheses.
        choosing: how many of them choose the threshold; the others are evaluated.
    """

    score: str
    pair: Pair
    choosing: int

    @property
    def choose(self) -> Pair:
        return self.pair[:, : self.choosing]


class AuditSession:
    """The games of an audit whose messages start from some global models, one for each message."""

    def __init__(
        self,
        setup: Setup,
        protocol: AuditSpec,
        fresh: FreshClients,
        models: Sequence[Floats],
        progress: Progress,
        others: OtherClients | None = None,
        name: str = "",
    ) -> None:
        """Nothing is searched or played yet; `models` (P,) each, of one name. Sessions may share `others`."""
        self.name = name
        self.setup = setup
        self.protocol = protocol
        self.progress = progress
        self.fresh = fresh
        self.interactions = protocol.interactions or setup.learner.interactions
        clients = [GameClients(setup, fresh.data, model) for model in models]
        self.clients = clients[0]
        self.games = GameSimulator(
            clients,
            others or OtherClients(clients[-1], self.interactions, progress),
            interactions=self.interactions,
            origin=fresh.origin,
            sampled=protocol.lists == "sampled",
        )

    def claim(self, unit: str, view: str) -> ChainClaim:
        """The claim to check: the protocol's own, or the chain's smallest for this unit and view.

        A claim for a smaller unit becomes one for a larger unit by group privacy, and a claim for one message
        becomes one for several by composition. If the protocol names a delta, claims with a larger delta are
        left out. A claim for an observer without lists also holds with lists where these reveal nothing. With
        secure aggregation the observer sees sums only, even if the claim is for single messages.
        """
        protocol, lists, seen = self.protocol, self.lists(view), without_lists(view)
        seen = "aggregate" if self.masked and seen == "individual" else seen
        own = []
        context = replace(self.clients.blank, clients=np.arange(1), counts=np.array([self.interactions]))
        for claim in self.setup.chain.claims(context):
            if seen in _IMPLIES.get(without_lists(claim.view), ()) and (sees_lists(claim.view) or not lists):
                size = group_size(claim.unit, unit, self.interactions)
                size *= 2 if claim.relation == "add-remove" else 1  # to replace is to remove and to add
                each = ChainClaim(claim.epsilon, claim.delta)
                own.append(each.of_group(size).of_messages(protocol.messages))
        if protocol.delta is not None:
            own = [ChainClaim(one.epsilon, protocol.delta) for one in own if one.delta <= protocol.delta]
        nothing = NOTHING if protocol.delta is None else ChainClaim(math.inf, protocol.delta)
        chain = min(own, default=nothing)
        if protocol.claim is None or view not in (protocol.claim_on or (view,)):
            return chain
        return ChainClaim(protocol.claim, chain.delta if protocol.delta is None else protocol.delta)

    @property
    def choosing(self) -> int:
        """Trials under each hypothesis that choose score and threshold and are not evaluated."""
        return max(_FEWEST, self.protocol.trials // (16 if self.protocol.stop_early else 4))

    @property
    def at_once(self) -> int:
        """Trials that are played together at first: all, or with `stop_early` those for choosing."""
        return self.choosing + (0 if self.protocol.stop_early else self.protocol.trials)

    @cached_property
    def acts(self) -> tuple[tuple[Defense, PrivacyEvent], ...]:
        """The chain's events, each with its link."""
        return self.setup.privacy.acts()

    @cached_property
    def in_sums(self) -> SumMembers:
        """Who is in any sum that the observer may see."""
        return self.setup.privacy.members(self.protocol.colluders, self.protocol.drop_out)

    def canary(self, name: str, unit: str) -> Canary:
        """The canary of a name for a unit."""
        if name == "message":
            canaries = message_canaries([event for _, event in self.acts], self.clients.parameters)
            return max(canaries, key=self._size)
        laws = [event.law for _, event in self.acts if isinstance(event, NoiseAddition)]
        order = min((law.order for law in laws), default=2)
        search = CanarySearch(self.clients, self.fresh, self.interactions, order)
        total = 0 if name == "data:typical" else self.fresh.queries.size
        with self.progress.task(f"search {name}, {unit}", total) as tick:
            return search.find(name, unit, tick)

    def _size(self, canary: Canary) -> tuple[float, float]:
        """The order of pairs of models: by their exact loss in a sum; of equals, by their L2 distance.

        Trials show the loss of one coordinate more often than the same loss spread over many.
        """
        loss = exact_epsilon(self.noise_of(self.in_sums.honest()), self.games, canary, 0.0) or 0.0
        shift = np.subtract(*self.games.quiet(canary)[0])
        return float(f"{loss:.9g}"), float(np.linalg.norm(shift))

    def exact(self, canary: Canary, view: str, delta: float) -> float | None:
        """The exact loss of this pair; see `exact_epsilon`."""
        certain = lists_are_certain(self.acts, self.clients.blank)
        lists = self.lists(view)
        return exact_epsilon(self.noise(view), self.games, canary, delta, lists=lists, certain=certain)

    def noise(self, view: str) -> ObservationNoise:
        """The noise between messages and what the observer of a view sees."""
        return self.noise_of(self.members(view), released=self.released(view))

    def noise_of(self, members: int, *, released: bool = False) -> ObservationNoise:
        """The same for a sum of `members` messages, as it is `released` or before any noise on the sum."""
        return ObservationNoise.of(self.acts, members, self.interactions, released=released)

    @property
    def widest_grid(self) -> float:
        """Step of the widest grid that messages are rounded to; 0 without any."""
        return max((event.step for _, event in self.acts if isinstance(event, GridRounding)), default=0.0)

    @property
    def masked(self) -> bool:
        """Whether the server sees sums only, by secure aggregation."""
        return any(isinstance(event, MessageAggregation) for _, event in self.acts)

    def members(self, view: str) -> int:
        """How many messages with noise, the canary's included, an observer cannot take apart, at least."""
        seen = without_lists(view)
        if seen == "individual" and not self.masked:
            return 1
        return self.in_sums.honest(colluding=seen == "colluding")

    def released(self, view: str) -> bool:
        """Whether the observer sees sums as the aggregator releases them, and nothing before.

        A server that does not follow the protocol adds no noise to a sum that it looks at.
        """
        return without_lists(view) == "aggregate" and self.in_sums.follows

    def lists(self, view: str) -> bool:
        """Whether an observer sees lists that follow from clicks."""
        return sees_lists(view) and self.interactions > 1 and self.setup.learner.ranked_with == "local"

    def first_trials(self, canary: Canary, view: str) -> ScoredTrials:
        """The first trials, with the score that is best on those for choosing."""
        wanted = SCORES if self.protocol.score == "auto" else (self.protocol.score,)
        scored = self._scored(canary, view, wanted, np.arange(self.at_once))
        if not scored:
            raise UsageError(f"--score {wanted[0]}: not computable for this chain and view; expected auto")
        promised = [self.promised(pair[:, self.learning : self.choosing]) for pair in scored.values()]
        best = list(scored)[about_best(promised)[0]]
        fitted = self.learning if best == "discriminant" else 0
        return ScoredTrials(best, scored[best][:, fitted:], self.choosing - fitted)

    def evaluated(self, canary: Canary, view: str, score: str, trials: range) -> Pair:
        """The scores of some of the trials that are evaluated, which count from 0."""
        # A discriminant is fitted to the first trials, which are played again.
        fitted = np.arange(self.learning if score == "discriminant" else 0)
        played = np.concatenate([fitted, self.choosing + np.arange(trials.start, trials.stop)])
        return self._scored(canary, view, (score,), played)[score][:, fitted.size :]

    def _scored(self, canary: Canary, view: str, wanted: tuple[str, ...], trials: Ints) -> dict[str, Pair]:
        """Those of some scores that are computable, of some trials (N,)."""
        members, released = self.members(view), self.released(view)
        if not set(wanted) <= set(SCORES):
            text = self.protocol.score
            return attack_scores(self.games, canary, text, trials, members=members, released=released)
        seen = self.games.play(canary, trials, members=members, lists=self.lists(view), released=released)
        dtype = "" if members > 1 else self.setup.spec.trace.dtype
        return trial_scores(seen, self.noise(view).law, self.learning, wanted, dtype)

    @property
    def learning(self) -> int:
        """The number of first trials under each hypothesis that only a discriminant is fitted to."""
        return self.choosing // 3

    def promised(self, pair: Pair) -> float:
        """The Clopper-Pearson bound at delta 0 of trials for choosing, if half of them choose a threshold."""
        return promised_bound(split(pair, pair.shape[1] // 2), confidence=self.protocol.confidence)
