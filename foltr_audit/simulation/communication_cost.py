"""How many bytes a client sends in a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Learner
from foltr_audit.core.settings.train import TraceSpec

_BITS = {"float32": 32, "float64": 64}
_SEED = 64


def bytes_per_client(
    learner: Learner,
    chain: DefenseChain,
    parameters: int,
    trace: TraceSpec,
    rounds: Sequence[Mapping[str, float]],
) -> float | None:
    """Mean bytes of a client's message in a round; None for a learner whose clients send their clicks.

    A model or update is P plain numbers, unless the last defense of the message stage packs them. With secure
    aggregation a message is all that a client sends: keys, shares and masked numbers. A message of an
    evolution strategy is the seed of its perturbation and two mean metrics.

    Args:
        learner: what the clients learn with.
        chain: their defenses.
        parameters: number of parameters of a model, P.
        trace: the number format of messages.
        rounds: metrics of the rounds; a wire defense stores its `bytes` there.
    """
    number = _BITS[trace.dtype]
    if learner.sends == "clicks":
        return None
    if learner.sends == "metrics":
        return (_SEED + 2 * number) / 8
    sent = [row["bytes"] for row in rounds if "bytes" in row]
    if sent:
        return float(np.mean(sent))
    bits = float(parameters * number)
    for defense in chain.links("message"):
        bits = defense.message_bits(parameters, number)
    return float(np.ceil(bits / 8))
