"""All attempts on secure aggregation, on one round that is drawn for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.auditing.protocol_stress.attempt_row import ProtocolAttempt
from foltr_audit.auditing.protocol_stress.key_attempts import (
    clear_counts,
    impersonated_keys,
    inconsistent_models,
    seed_reuse,
    short_seed,
)
from foltr_audit.auditing.protocol_stress.share_attempts import (
    both_shares,
    drop_out,
    honest_look,
    replay,
    split_lists,
)
from foltr_audit.auditing.protocol_stress.staged_round import StagedRound
from foltr_audit.errors import UsageError
from foltr_audit.privacy.secure_aggregation import SecureSum
from foltr_audit.rng import Streams

FEWEST_CLIENTS = 4
MOST_INTERACTIONS = 8
"""Counts of clients are drawn from 1 to this number."""


@dataclass(frozen=True, kw_only=True)
class StressAttempts:
    """Every attempt on a protocol.

    Attributes:
        attempts: in order.
        tries_per_second: seeds tried in one second on this machine, measured.
    """

    attempts: tuple[ProtocolAttempt, ...]
    tries_per_second: float


def drawn_round(
    protocol: SecureSum, clients: int, parameters: int, seed: int, *, once: bool = False, bind: bool = False
) -> StagedRound:
    """A round with uniform messages in [-1, 1] (within the range) and counts from 1 to 8.

    `once` and `bind` say what its clients refuse, see `StagedRound`.

    Raises:
        UsageError: fewer than 4 clients, no parameter, or a protocol that gives no sum of these clients.
    """
    if clients < FEWEST_CLIENTS:
        raise UsageError(f"--clients: {clients}; expected at least {FEWEST_CLIENTS}")
    if parameters < 1:
        raise UsageError(f"--parameters: {parameters}; expected at least 1")
    streams = Streams(seed)
    drawn = streams.generator("stress")
    largest = min(1.0, protocol.encoding.range)
    stage = StagedRound(
        protocol=protocol,
        values=drawn.uniform(-largest, largest, size=(clients, parameters)),
        weights=drawn.integers(1, MOST_INTERACTIONS, size=clients, endpoint=True),
        streams=streams.clients("secure-aggregation/stress", 0, np.arange(clients)),
        target=int(drawn.integers(clients)),
        absent=np.zeros(clients, dtype=np.bool_),
        once=once,
        bind=bind,
    )
    aborted = stage.result.aborted
    if aborted is not None:
        raise UsageError(f"--clients: {clients}; the round aborts even if nobody drops out: {aborted.text}")
    return stage


def attempts(stage: StagedRound) -> StressAttempts:
    """All attempts on a round, on the message of its target."""
    searched, rate = short_seed(stage)
    return StressAttempts(
        attempts=(
            honest_look(stage),
            drop_out(stage, "before keys"),
            drop_out(stage, "after keys"),
            drop_out(stage, "before unmasking"),
            clear_counts(stage),
            both_shares(stage),
            replay(stage),
            split_lists(stage, half=False),
            split_lists(stage, half=True),
            impersonated_keys(stage),
            inconsistent_models(stage),
            seed_reuse(stage),
            searched,
        ),
        tries_per_second=rate,
    )
