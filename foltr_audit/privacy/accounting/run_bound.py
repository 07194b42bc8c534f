"""What is proven for all rounds of a run together: the bound that a person cares about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from foltr_audit.privacy.accounting.bound import upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext, UpperBound
from foltr_audit.privacy.events import PrivacyEvent


@dataclass(frozen=True, kw_only=True)
class RunBound:
    """Bounds for all rounds of a run together.

    Attributes:
        unit: what neighbouring inputs differ in.
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
    """What the events of a chain prove for all rounds of a situation, see `upper_bound`."""
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
