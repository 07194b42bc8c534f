"""Which epsilon a chain claims for a unit."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from foltr_audit.audit_spec import AuditSpec
from foltr_audit.metrics import LIST_LENGTH
from foltr_audit.setup import Setup


class Claim(NamedTuple):
    """An epsilon and a delta that are claimed for one message; infinite where nothing is claimed."""

    epsilon: float
    delta: float


def claim_for(unit: str, setup: Setup, protocol: AuditSpec) -> Claim:
    """The claim that is checked for one message of a client: the protocol's own, or the chain's smallest.

    A claim for a smaller unit becomes one for a larger unit by group privacy (the epsilons of all that
    changes add up); one for clicks says nothing of whole clients, whose queries differ too. The published
    claims name no observer, so that they are checked in every view.
    """
    context = setup.context(0, np.arange(1), protocol.interactions, np.zeros(setup.ranker.n_parameters))
    own = [
        Claim(claim.epsilon * group_size(claim.unit, unit, protocol.interactions), claim.delta)
        for defense in setup.chain.defenses
        for claim in defense.claims(context)
    ]
    chain = min(own, default=Claim(math.inf, 0.0))
    return Claim(
        chain.epsilon if protocol.claim is None else protocol.claim,
        chain.delta if protocol.delta is None else protocol.delta,
    )


def group_size(claimed: str, audited: str, interactions: int) -> float:
    """How many units of one kind change where one of another kind does.

    >>> group_size("click", "interaction", 4), group_size("client", "click", 4)
    (10.0, 1.0)
    """
    sizes: dict[str, dict[str, float]] = {
        "click": {"interaction": LIST_LENGTH, "query": LIST_LENGTH * interactions, "client": math.inf},
        "interaction": {"query": interactions, "client": interactions},
    }
    return float(sizes.get(claimed, {}).get(audited, 1))
