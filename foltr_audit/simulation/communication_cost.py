"""How many bytes a client sends in a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from foltr_audit.simulation.setup import Setup

_BITS = {"float32": 32, "float64": 64}
_SEED = 64


def bytes_per_client(setup: Setup, rounds: Sequence[Mapping[str, float]]) -> float | None:
    """Mean bytes of a client's message in a round; None for a learner whose clients send their clicks.

    A model or update is P plain numbers, unless the last defense of the message stage packs them. With secure
    aggregation a message is all that a client sends: keys, shares and masked numbers. A message of an
    evolution strategy is the seed of its perturbation and two mean metrics.

    Args:
        setup: the experiment.
        rounds: metrics of its rounds; a wire defense stores its `bytes` there.
    """
    number = _BITS[setup.spec.trace.dtype]
    if setup.learner.sends == "clicks":
        return None
    if setup.learner.sends == "metrics":
        return (_SEED + 2 * number) / 8
    sent = [row["bytes"] for row in rounds if "bytes" in row]
    if sent:
        return float(np.mean(sent))
    bits = float(setup.ranker.n_parameters * number)
    for defense in setup.chain.links("message"):
        bits = defense.message_bits(setup.ranker.n_parameters, number)
    return float(np.ceil(bits / 8))
