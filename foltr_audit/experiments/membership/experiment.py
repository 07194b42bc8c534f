"""The experiment on membership: federations with and without each candidate, attacks, and what is proven.

Neighbouring federations replace one client: they have equally many members, and another client takes the
place of a candidate that is left out. This is the relation of our accounting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.settings.defaults import DELTA
from foltr_audit.core.settings.membership import MembershipMethod, MembershipSpec, MembershipView
from foltr_audit.experiments.membership.shadow_training import ClientPool, ShadowTraining
from foltr_audit.inference.membership_attacks import membership_attack, update_evidence
from foltr_audit.judge.membership import FederationEvidence, membership_metrics
from foltr_audit.judge.scoring import FALSE_POSITIVES
from foltr_audit.privacy.accounting import UpperBound, trade_off, upper_bound
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.traffic import refuse_missing_users
from foltr_audit.utils.arrays import Bools, Floats
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.rows import Estimate


@dataclass(frozen=True, kw_only=True)
class MembershipCeiling:
    """The most that a proof leaves to any observer of one view, over all rounds.

    Attributes:
        bound: the proven epsilon of one client at `DELTA`.
        metrics: the largest value of each metric; empty where nothing is proven.
    """

    bound: UpperBound
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class MembershipFinding:
    """How well one attack tells the members of a federation from what one observer sees.

    Attributes:
        view, method: see `MembershipSpec`.
        members: number of members of a federation.
        candidates: number of clients that are told to be members or not.
        federations: number of attacked federations.
        metrics: AUC and true positive rates, see `judge.membership`.
        ceiling: the most that is possible.
    """

    view: MembershipView
    method: MembershipMethod
    members: int
    candidates: int
    federations: int
    metrics: dict[str, Estimate]
    ceiling: MembershipCeiling


def infer_membership(setup: Setup, progress: Progress = SILENT) -> tuple[MembershipFinding, ...]:
    """The findings of the membership protocol of a Spec, for each view and method; none without a protocol.

    Raises:
        DataError: a global model is no longer finite.
    """
    protocol = setup.spec.membership
    if protocol is None:
        return ()
    size = setup.spec.population.clients
    pool = ClientPool(size, -(-protocol.others // size) if protocol.compares else 0)
    others = pool.clients - pool.candidates
    who = f"membership with {size} members has {pool.candidates} candidates and {others} others"
    refuse_missing_users(setup.collection.train, pool.clients, who)
    members, models, updates = _train(setup, protocol, pool, progress)
    found = []
    with progress.task("judge", len(members) * len(protocol.views) * len(protocol.methods)) as tick:
        for view in protocol.views:
            evidence = _evidence(view, members, models, updates, protocol.rounds_seen)
            limit = ceiling(setup, view)
            for method in protocol.methods:
                scores = evidence.scores(membership_attack(method, protocol), tick)
                found.append(
                    MembershipFinding(
                        view=view,
                        method=method,
                        members=size,
                        candidates=pool.candidates,
                        federations=len(members),
                        metrics=membership_metrics(scores, members, setup.streams),
                        ceiling=limit,
                    )
                )
    return tuple(found)


def _train(
    setup: Setup, protocol: MembershipSpec, pool: ClientPool, progress: Progress
) -> tuple[Bools, Floats, Floats]:
    """Members (K, N) and models (K, T + 1, P) of the federations, and updates of all clients (M, T, P)."""
    training = ShadowTraining(setup, protocol.of)
    members = pool.halves(protocol.shadows, setup.streams.generator("membership/members"))
    drawn = setup.streams.generator("membership/references")
    parts = [pool.partition(drawn) for _ in range(protocol.references)]
    each = setup.spec.population.cohort_size * setup.clients.interactions * training.rounds
    with progress.task("train shadows", len(members) + sum(map(len, parts)), each) as tick:
        models = training.models(members, tick)
        updates = training.updates(pool.clients, parts, tick)
    return members, models, updates


def _evidence(
    view: MembershipView, members: Bools, models: Floats, updates: Floats, seen: int | None
) -> FederationEvidence:
    """The evidence of all federations: of the sum of all rounds' changes, or of the last rounds' changes."""
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
    situation = setup.privacy.in_all_rounds(setup.privacy.situation("aggregate", "client", delta=DELTA))
    situation = replace(situation, sampled=share if secret else 1.0, cohorts="secret" if secret else "any")
    if view == "client" and situation.shares > 1 and not upper_bound(events, situation).on_sum:
        situation = replace(situation, view="colluding", colluders=1)
    bound, curve = upper_bound(events, situation), trade_off(events, situation)
    if not curve.power(0.0) < 1:
        return MembershipCeiling(bound=bound, metrics={})
    powers = {name: float(curve.power(1.0 / one_in)) for name, one_in in FALSE_POSITIVES.items()}
    return MembershipCeiling(bound=bound, metrics={"auc": curve.auc, **powers})
