"""Which epsilon and delta a chain claims for a unit, in a view."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from foltr_audit.audit_spec import AuditSpec
from foltr_audit.metrics import LIST_LENGTH
from foltr_audit.records.privacy import PrivacyClaim
from foltr_audit.setup import Setup

_IMPLIES = {
    "individual": ("individual", "aggregate", "colluding"),
    "colluding": ("aggregate", "colluding"),
    "aggregate": ("aggregate",),
}
"""The views that a claim for a view holds in: who sees single messages can compute the rest."""


class Claim(NamedTuple):
    """An epsilon and a delta; infinite where nothing is claimed."""

    epsilon: float
    delta: float

    def of_group(self, size: float) -> Claim:
        """What it says of so many units together.

        Source: Vadhan 2017, "The complexity of differential privacy", lemma 2.2.
        """
        if math.isinf(size):
            return NOTHING
        if size == 1 or self.delta == 0:
            return Claim(self.epsilon * size, self.delta)
        with np.errstate(over="ignore"):
            grown = float(np.expm1(size * self.epsilon) / np.expm1(self.epsilon))
        return Claim(self.epsilon * size, min(1.0, grown * self.delta))

    def of_messages(self, count: int) -> Claim:
        """What it says of so many messages of one client together, by composition."""
        return Claim(self.epsilon * count, min(1.0, self.delta * count))


NOTHING = Claim(math.inf, 0.0)


def claim_for(unit: str, view: str, setup: Setup, protocol: AuditSpec, *, sums: bool) -> Claim:
    """The claim that is checked: the protocol's own, or the chain's smallest for this unit and view.

    A claim for a smaller unit becomes one for a larger unit by group privacy, and one for a message one for
    several by composition. With a delta that the protocol names, claims with a larger one say nothing.

    Args:
        unit: what neighbours differ in.
        view: whose observations are audited.
        setup: the experiment.
        protocol: the audit protocol.
        sums: the observer sees sums only, whatever the view is called: secure aggregation.
    """
    context = setup.context(0, np.arange(1), protocol.interactions, np.zeros(setup.ranker.n_parameters))
    seen = "aggregate" if sums else view
    own = [
        _claimed(claim, unit, protocol)
        for defense in setup.chain.defenses
        for claim in defense.claims(context)
        if seen in _IMPLIES.get(claim.view, ())
    ]
    if protocol.delta is not None:
        own = [Claim(claim.epsilon, protocol.delta) for claim in own if claim.delta <= protocol.delta]
    chain = min(own, default=Claim(math.inf, protocol.delta or 0.0))
    if protocol.claim is None:
        return chain
    return Claim(protocol.claim, chain.delta if protocol.delta is None else protocol.delta)


def _claimed(claim: PrivacyClaim, unit: str, protocol: AuditSpec) -> Claim:
    size = group_size(claim.unit, unit, protocol.interactions)
    return Claim(claim.epsilon, claim.delta).of_group(size).of_messages(protocol.messages)


def group_size(claimed: str, audited: str, interactions: int) -> float:
    """How many units of one kind change where one of another kind does; infinite where that says nothing.

    Clicks or one query say nothing of a whole client, whose other queries differ too. A published claim for
    an interaction, though, is one for a whole data instance: B of them are all that a client learns from.

    >>> group_size("click", "interaction", 4), group_size("client", "click", 4)
    (10.0, 1.0)
    """
    sizes: dict[str, dict[str, float]] = {
        "click": {"interaction": LIST_LENGTH, "query": LIST_LENGTH * interactions, "client": math.inf},
        "interaction": {"query": interactions, "client": interactions},
        "query": {"client": math.inf},
    }
    return float(sizes.get(claimed, {}).get(audited, 1))
