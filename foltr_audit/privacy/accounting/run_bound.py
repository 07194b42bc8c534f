"""What is proven for all rounds of a run together: the bound that a person cares about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from foltr_audit.privacy.accounting.bound import upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext, UpperBound
from foltr_audit.privacy.events import PrivacyEvent


@dataclass(frozen=True, kw_only=True)
class RunBound:
    """Bounds for all rounds of a run together.

    Attributes:
        unit: what neighbouring inputs differ in: a `client`, or a `query`, which covers all its clicks.
        rounds: rounds T of the run.
        sampled: share of the clients that may take part in a round and do.
        upper: with cohorts as they are drawn, see `AccountingContext.cohorts`.
        always: of a client that takes part in every round in which it may; equal to `upper` where all do.
    """

    unit: str
    rounds: int
    sampled: float
    upper: UpperBound
    always: UpperBound


@dataclass(frozen=True, kw_only=True)
class ProvenView:
    """What is proven for one observer.

    Attributes:
        view: whose observations, of `observer_views.VIEWS`.
        unit: what neighbouring inputs of `once` differ in.
        once: the bound for one round.
        run: the bound for all rounds together, of a client.
    """

    view: str
    unit: str
    once: UpperBound
    run: RunBound


def run_bound(events: Sequence[PrivacyEvent], situation: AccountingContext) -> RunBound:
    """What the events of a chain prove for all rounds of a situation, see `upper_bound`.

    Where nothing is proven for a client, because lists or queries reveal it, the bound is for the unit
    `query`: it allows for every interaction of every round, and so for all clicks of one client.
    """
    found = _bound(events, situation)
    if math.isinf(found.upper.epsilon) and situation.unit == "client":
        clicks = _bound(events, replace(situation, unit="query"))
        return clicks if math.isfinite(clicks.upper.epsilon) else found
    return found


def _bound(events: Sequence[PrivacyEvent], situation: AccountingContext) -> RunBound:
    upper = always = upper_bound(events, situation)
    if situation.sampled < 1 and situation.cohorts != "any":
        always = upper_bound(events, replace(situation, cohorts="any"))
    return RunBound(
        unit=situation.unit,
        rounds=situation.rounds,
        sampled=situation.sampled,
        upper=upper,
        always=always,
    )
