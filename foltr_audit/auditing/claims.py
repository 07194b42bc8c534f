"""The epsilon and delta that a chain claims for a unit, in a view."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from foltr_audit.core.group_privacy import group_size, of_group
from foltr_audit.core.plugins.answers import claims_of
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.defaults import DELTA
from foltr_audit.privacy.events import PrivacyClaim
from foltr_audit.privacy.observer_views import sees_lists, without_lists
from foltr_audit.simulation.setup import Setup

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
        """The claim for several units together: group privacy."""
        return NOTHING if math.isinf(size) else ChainClaim(*of_group(self.epsilon, self.delta, size))

    def of_messages(self, count: int) -> ChainClaim:
        """The claim for several messages of one client together, by composition."""
        return ChainClaim(self.epsilon * count, min(1.0, self.delta * count))


NOTHING = ChainClaim(math.inf, DELTA)


def claim_for(
    unit: str, view: str, setup: Setup, protocol: AuditSpec, *, sums: bool, lists: bool
) -> ChainClaim:
    """The claim to check: the protocol's own, or the chain's smallest for this unit and view.

    A claim for a smaller unit becomes one for a larger unit by group privacy, and a claim for one message
    becomes one for several by composition. If the protocol names a delta, claims with a larger delta are
    left out. A claim for an observer without lists also holds with lists where these reveal nothing.

    Args:
        unit: what neighbours differ in.
        view: whose observations are audited.
        setup: the experiment.
        protocol: the audit protocol.
        sums: secure aggregation: the observer sees sums only, whatever the view.
        lists: the observer sees lists that follow from clicks.
    """
    interactions = interactions_of(setup, protocol)
    context = setup.context(0, np.arange(1), interactions, np.zeros(setup.ranker.n_parameters))
    seen = "aggregate" if sums else without_lists(view)
    own = [
        _claimed(claim, unit, interactions, protocol.messages)
        for defense in setup.chain.defenses
        for claim in claims_of(defense, context)
        if seen in _IMPLIES.get(without_lists(claim.view), ()) and (sees_lists(claim.view) or not lists)
    ]
    if protocol.delta is not None:
        own = [ChainClaim(claim.epsilon, protocol.delta) for claim in own if claim.delta <= protocol.delta]
    chain = min(own, default=NOTHING if protocol.delta is None else ChainClaim(math.inf, protocol.delta))
    if protocol.claim is None or view not in (protocol.claim_on or (view,)):
        return chain
    return ChainClaim(protocol.claim, chain.delta if protocol.delta is None else protocol.delta)


def interactions_of(setup: Setup, protocol: AuditSpec) -> int:
    """Interactions behind an audited message: the protocol's, or as many as the learner's."""
    return protocol.interactions or setup.learner.interactions


def _claimed(claim: PrivacyClaim, unit: str, interactions: int, messages: int) -> ChainClaim:
    size = group_size(claim.unit, unit, interactions)
    if claim.relation == "add-remove":  # to replace a unit is to remove one and to add another
        size *= 2
    return ChainClaim(claim.epsilon, claim.delta).of_group(size).of_messages(messages)
