"""Membership: who took part in a training, told with shadow federations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.defaults import DELTA
from foltr_audit.core.settings.membership import MembershipMethod, MembershipView
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.experiments.stages import first_model
from foltr_audit.inference.membership_attacks import membership_attack, update_evidence
from foltr_audit.judge.membership import FederationEvidence, membership_metrics
from foltr_audit.judge.scoring import FALSE_POSITIVES
from foltr_audit.privacy.accounting import UpperBound, trade_off, upper_bound
from foltr_audit.rng import Streams
from foltr_audit.simulation.client_population import refuse_missing_users
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import CohortMessages
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.progress import SILENT, Progress, Tick

QUERY_PURPOSES = ("queries", "scenario/")
"""The purposes of the random numbers that say what a client asks for; they begin so."""


@dataclass(frozen=True)
class ClientPool:
    """The clients of an experiment on membership.

    Candidates are numbered from 0; a federation of n (`size`) has a random half of them as members. Others,
    who have the numbers after them and would fill some more federations (`groups`), take part in none.
    """

    size: int
    groups: int

    @property
    def candidates(self) -> int:
        return 2 * self.size

    @property
    def clients(self) -> int:
        return self.candidates + self.groups * self.size

    def halves(self, count: int, rng: np.random.Generator) -> Bools:
        """The members of some federations, bool (count, 2 n): each a uniformly random half of the candidates.

        Someone else takes the place of a candidate that is left out, so that all federations have n members.
        """
        members = np.zeros((count, self.candidates), dtype=np.bool_)
        for row in members:
            row[rng.permutation(self.candidates)[: self.size]] = True
        return members

    def partition(self, rng: np.random.Generator) -> list[Ints]:
        """All clients in federations of n, int64 (n,) each, rising: candidates at random, then others."""
        halves = np.split(rng.permutation(self.candidates), 2)
        others = np.arange(self.candidates, self.clients).reshape(self.groups, self.size)
        return [*(np.sort(half) for half in halves), *others]


class ShadowTraining:
    """Trains federations of a Spec whose members differ.

    A client asks the same queries in each of them; with `log`, the draws behind its lists and clicks are the
    same as well. Cohorts and noise are drawn anew.
    """

    def __init__(self, setup: Setup, of: str) -> None:
        """Prepare the clients; federations are played by `models` and `updates`."""
        self.setup = setup
        self.federation = Federation(setup)
        self.start = first_model(setup)
        clicks = self.federation.clientele.world.click_model.purpose
        self.shared = (*QUERY_PURPOSES, "show", clicks) if of == "log" else QUERY_PURPOSES

    @property
    def rounds(self) -> int:
        return self.setup.spec.train.rounds

    def models(self, members: Bools, tick: Tick) -> Floats:
        """The global models of federations with these members (K, 2 n), float64 (K, T + 1, P)."""
        found = np.empty((len(members), self.rounds + 1, self.start.size))
        for number, row in enumerate(members):
            found[number, 0] = self.start
            for context, _, after in self._play(f"shadow/{number}", np.flatnonzero(row)):
                found[number, context.round + 1] = after.parameters
            tick()
        return found

    def updates(self, clients: int, partitions: Sequence[Sequence[Ints]], tick: Tick) -> Floats:
        """What clients add to the global model in each round on average, float64 (clients, T, P).

        Each partition is a sequence of federations in which every client plays once. Defenses act, but the
        updates are those before them.
        """
        total = np.zeros((clients, self.rounds, self.start.size))
        for number, parts in enumerate(partitions):
            for place, members in enumerate(parts):
                for context, sent, _ in self._play(f"reference/{number}/{place}", members):
                    counts = np.where(sent.wired.survivors, context.counts, 0)
                    weights = counts / max(int(counts.sum()), 1)
                    total[context.clients, context.round] += weights[:, np.newaxis] * sent.updates
                tick()
        return total / len(partitions)

    def _play(self, branch: str, members: Ints) -> Iterator[tuple[RoundContext, CohortMessages, GlobalModel]]:
        """Each round's context and messages, and the server's state after it."""
        setup, federation, spec = self.setup, self.federation, self.setup.spec
        streams = Streams(spec.seed, spec.repetition, branch=f"membership/{branch}", shared=self.shared)
        cohorts = federation.setup.cohorts(members, streams)
        model = federation.training.first(self.start)
        for round_ in range(self.rounds):
            context = setup.context(
                round_, cohorts.cohort(round_), setup.clients.interactions, model.parameters
            )
            done = federation.exchange(context.having(source=streams), model)
            model = done.after
            yield done.context, done.sent, model


# Neighbouring federations replace one client: they have equally many members, and another client takes the
# place of a candidate that is left out. This is the relation of our accounting.


@dataclass(frozen=True, kw_only=True)
class MembershipCeiling:
    """The most that a proof leaves to any observer of one view, over all rounds.

    The bound is that of one client at `DELTA`; `metrics` are empty where nothing is proven.
    """

    bound: UpperBound
    metrics: dict[str, float]


CHANCE = {"auc": 0.5} | {name: 1.0 / one_in for name, one_in in FALSE_POSITIVES.items()}
"""What guessing reaches."""


def lies_above(estimate: Estimate, ceiling: float | None) -> bool:
    """Whether a whole interval lies above a ceiling."""
    return ceiling is not None and estimate.ci95 is not None and estimate.ci95[0] > ceiling


@dataclass(frozen=True, kw_only=True)
class MembershipFinding:
    """How well one attack tells the members of a federation among its candidates.

    `observed` says in words what the observer sees; for the metrics see `judge.membership`.
    """

    view: MembershipView
    method: MembershipMethod
    observed: str
    members: int
    candidates: int
    federations: int
    metrics: dict[str, Estimate]
    ceiling: MembershipCeiling

    def contradictions(self) -> Iterator[CodedWarning]:
        """A warning for each metric whose whole interval lies above its ceiling."""
        for name, estimate in self.metrics.items():
            limit = self.ceiling.metrics.get(name)
            if limit is not None and lies_above(estimate, limit):
                yield coded(
                    "above ceiling",
                    f"{self.method}, {self.observed}: {name} {estimate.value:.3g} lies above the ceiling "
                    f"{limit:.3g}: one such interval in 40 does by chance; if not, the proof is wrong: "
                    "repeat it with another --seed and more --shadows",
                )


def infer_membership(setup: Setup, progress: Progress = SILENT) -> tuple[MembershipFinding, ...]:
    """The findings of the membership protocol of a Spec, of each view and method; none without one."""
    protocol = setup.spec.membership
    if protocol is None:
        return ()
    size, rounds, seen = setup.spec.population.clients, setup.spec.train.rounds, protocol.rounds_seen
    pool = ClientPool(size, -(-protocol.others // size) if protocol.compares else 0)
    others = pool.clients - pool.candidates
    who = f"membership with {size} members has {pool.candidates} candidates and {others} others"
    refuse_missing_users(setup.collection.train, pool.clients, who)
    training = ShadowTraining(setup, protocol.of)
    members = pool.halves(protocol.shadows, setup.streams.generator("membership/members"))
    drawn = setup.streams.generator("membership/references")
    parts = [pool.partition(drawn) for _ in range(protocol.references)]
    each = setup.spec.population.cohort_size * setup.clients.interactions * rounds
    with progress.task("train shadows", len(members) + sum(map(len, parts)), each) as tick:
        models = training.models(members, tick)
        updates = training.updates(pool.clients, parts, tick)
    every = "every global model" if seen is None or seen >= rounds else f"last {seen + 1} global models"
    found = []
    with progress.task("judge", len(members) * len(protocol.views) * len(protocol.methods)) as tick:
        for view in protocol.views:
            evidence, limit = _evidence(view, members, models, updates, seen), ceiling(setup, view)
            for method in protocol.methods:
                scores = evidence.scores(membership_attack(method, protocol), tick)
                found.append(
                    MembershipFinding(
                        view=view,
                        method=method,
                        observed="first and trained model" if view == "released" else every,
                        members=size,
                        candidates=pool.candidates,
                        federations=len(members),
                        metrics=membership_metrics(scores, members, setup.streams),
                        ceiling=limit,
                    )
                )
    return tuple(found)


def _evidence(
    view: MembershipView, members: Bools, models: Floats, updates: Floats, seen: int | None
) -> FederationEvidence:
    """The evidence of all federations: of the sum of all rounds' changes, or of the last rounds' changes.

    Members are (K, N), models (K, T + 1, P), and the updates of all clients (M, T, P).
    """
    changes = np.diff(models, axis=1)
    if view == "client" and seen is not None:
        changes, updates = changes[:, -seen:], updates[:, -seen:]
    if view == "released":
        changes, updates = (each.sum(axis=1, keepdims=True) for each in (changes, updates))
    candidates = members.shape[1]
    found = update_evidence(changes, updates, updates[:candidates].mean(axis=0))
    return FederationEvidence(members=members, candidates=found[:, :candidates], others=found[:, candidates:])


def ceiling(setup: Setup, view: MembershipView) -> MembershipCeiling:
    """What is proven of one client over all rounds for an observer of global models.

    A released model follows from the sums of all rounds. A participant also knows the noise that it added
    itself, if clients add noise: it sees the sums, and colludes as one client. Who is in a cohort is secret,
    but a participant knows whether it is one of them: if not, the cohort is a larger share of the others.
    """
    population, events = setup.spec.population, setup.privacy.events()
    others = max(population.clients - (view == "client"), 1)
    share = min(1.0, population.cohort_size / others)
    secret = share < 1 and population.rounds_apart == 1
    situation = setup.privacy.situation("aggregate", "client", rounds=None, delta=DELTA)
    situation = replace(situation, sampled=share if secret else 1.0, cohorts="secret" if secret else "any")
    if (
        view == "client"
        and population.cohort_size > 1
        and upper_bound(events, situation).rests_on != "aggregator"
    ):
        situation = replace(situation, view="colluding", members=setup.privacy.members(colluders=1))
    bound, curve = upper_bound(events, situation), trade_off(events, situation)
    if not curve.power(0.0) < 1:
        return MembershipCeiling(bound=bound, metrics={})
    powers = {name: float(curve.power(1.0 / one_in)) for name, one_in in FALSE_POSITIVES.items()}
    return MembershipCeiling(bound=bound, metrics={"auc": curve.auc, **powers})
