"""Attempts on keys, seeds, and what travels beside the masked messages."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.protocol_stress.attempt_row import ProtocolAttempt, outcome
from foltr_audit.auditing.protocol_stress.share_attempts import BONAWITZ, told
from foltr_audit.auditing.protocol_stress.staged_round import StagedRound, Words
from foltr_audit.privacy.secure_aggregation.masks import expand
from foltr_audit.privacy.secure_aggregation.shamir import reconstruct
from foltr_audit.utils.arrays import Floats

SEARCHED_BITS, SHORT_BITS = 16, 32
"""Width of the seeds that are searched, and of those whose work is computed from it."""

_AT_ONCE = 4096


class SeedSearch(NamedTuple):
    """The result of a search for a short seed.

    Attributes:
        found: the message without its mask, float64 (P,); None if no seed fits.
        tries: seeds tried.
        seconds: that it took.
    """

    found: Floats | None
    tries: int
    seconds: float


def impersonated_keys(stage: StagedRound) -> ProtocolAttempt:
    """The server hands its own public keys to one client as those of all its neighbours."""
    found = _impersonated(stage, signed=False)
    return ProtocolAttempt(
        name="impersonated keys",
        actor="active server",
        does="gives a client public keys of its own as those of all neighbours, so that all shares and masks "
        "of the client are the server's",
        sent=f"1 masked message and {stage.graph.degree} shares of its seed, all readable",
        outcome=outcome(stage.reveals(found)),
        learnt=told(stage, found),
        promised=False,
        answer="signatures of the clients on their keys",
        with_answer=outcome(stage.reveals(_impersonated(stage, signed=True))),
        source=BONAWITZ,
    )


def _impersonated(stage: StagedRound, *, signed: bool) -> Floats | None:
    place, size = stage.target, stage.graph.degree
    own, agreement = stage.private(place), stage.protocol.agreement
    forged = [
        stage.secrets.private_key(stage.secrets.secret("server", number), agreement) for number in range(size)
    ]
    if signed and not all(
        verified(stage, other, key.public, signer="server/sign")
        for other, key in zip(stage.graph.table[place].tolist(), forged, strict=True)
    ):
        return None  # the client sends nothing
    seed = stage.secrets.secret("self", int(stage.streams.clients[place]))
    signs = [1 if number % 2 else -1 for number in range(size)]
    masks = stage.mask([seed, *(own.seed(key.public) for key in forged)], [1, *signs])
    code = stage.protocol.encoding.encode(stage.values[[place]], stage.weights[[place]])[0]
    message = stage.protocol.encoding.reduced(code + masks)
    # From here on only what the server has: the message, its own keys, the public key, the shares.
    opened = [key.seed(own.public) for key in forged]
    dealt = dict(stage.share(other, place, "self") for other in stage.graph.table[place].tolist())
    recovered = reconstruct(dict(list(dealt.items())[: stage.needed]))
    if recovered is None:
        return None
    return stage.decode(message - stage.mask([recovered, *opened], [1, *signs]))


def verified(stage: StagedRound, owner: int, public: bytes, *, signer: str = "sign") -> bool:
    """Whether the signature on a public key passes as that of a client.

    Args:
        stage: the round.
        owner: place of the client whose key it is said to be.
        public: the key.
        signer: name of the secret that it was signed with; `sign` is the client's own.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    client = int(stage.streams.clients[owner])
    known = Ed25519PrivateKey.from_private_bytes(stage.secrets.secret("sign", client)).public_key()
    signature = Ed25519PrivateKey.from_private_bytes(stage.secrets.secret(signer, client)).sign(public)
    try:
        known.verify(signature, public)
    except InvalidSignature:
        return False
    return True


def inconsistent_models(stage: StagedRound) -> ProtocolAttempt:
    """The server gives all clients but one a model on which their update is zero: the sum is one message."""
    found, refused = _read_alone(stage, bind=stage.bind), _read_alone(stage, bind=True)
    return ProtocolAttempt(
        name="inconsistent models",
        actor="active server",
        does="gives all clients but one a model on which their update is zero, and reads the sum",
        sent=f"the sum of {stage.clients} messages",
        outcome=outcome(stage.reveals(found)),
        learnt=told(stage, found),
        promised=stage.bind,
        answer=None if stage.bind else "pair seeds that depend on a hash of the model (bind=true)",
        with_answer=None if stage.bind else outcome(stage.reveals(refused)),
        source="Pasquini et al. 2022",
    )


def _read_alone(stage: StagedRound, *, bind: bool) -> Floats | None:
    """The sum in which all messages but the target's are zero."""
    alone = np.zeros_like(stage.values)
    alone[stage.target] = stage.values[stage.target]
    received = [b"large model"] * stage.clients
    received[stage.target] = b"model"
    digests = received if bind else None
    run = stage.protocol.run(alone, stage.weights, stage.streams, stage.absent, digests=digests)
    return None if run.total is None else stage.decode(run.total)


def _own_pair_masks(stage: StagedRound) -> Words:
    place = stage.target
    return stage.pair_masks(place, stage.private(place).private, stage.neighbours(place))


def seed_reuse(stage: StagedRound) -> ProtocolAttempt:
    """Clients use the seeds of one round in the next: the masks cancel in the difference of two messages."""
    values = np.roll(stage.values, 1, axis=0)
    change = replace(stage, values=values - stage.values)
    reused, fresh = (_change(stage, values, round_) for round_ in (0, 1))
    return ProtocolAttempt(
        name="seed reuse",
        actor="faulty client",
        does="subtracts the masked messages that a client sends in two rounds with the same seeds",
        sent="2 masked messages of the client",
        outcome=outcome(change.reveals(reused, roundings=2)),
        learnt=told(change, reused, "the difference of both messages", roundings=2),
        promised=False,
        answer="fresh seeds in each round, as the emulation draws them",
        with_answer=outcome(change.reveals(fresh, roundings=2)),
        source="Bonawitz et al. 2017, section 4",
    )


def _change(stage: StagedRound, values: Floats, later: int) -> Floats:
    """The difference of the target's messages in two rounds, decoded."""
    streams = replace(stage.streams, round=stage.streams.round + later)
    second = replace(stage, values=values, streams=streams)
    return stage.decode(second.result.payload[stage.target] - stage.result.payload[stage.target])


def short_seed(stage: StagedRound) -> tuple[ProtocolAttempt, float]:
    """A client's own seed has few bits; its message arrives late, so that this mask is the only one left.

    The server has the client's pair key by then, since the client was said to have dropped out. It tries all
    seeds, and takes the first one whose decoded message is within the range of the encoding.

    Returns:
        The attempt, and the tries in one second on this machine.
    """
    place = stage.target
    client = int(stage.streams.clients[place])
    full = stage.secrets.secret("self", client)
    bare = stage.result.payload[place] - stage.own_mask(full)
    bare = bare - _own_pair_masks(stage)
    short = _seed(int.from_bytes(full, "little") % (1 << SEARCHED_BITS))
    search = _search(stage, bare + stage.own_mask(short))
    refused = _search(stage, bare + stage.own_mask(full))
    rate = search.tries / search.seconds
    return (
        ProtocolAttempt(
            name=f"seeds of {SHORT_BITS} bits",
            actor="faulty client",
            does=f"tries every seed for the last mask of a late message; run here with {SEARCHED_BITS} bits",
            sent=f"1 masked message; {stage.needed} shares of its pair key",
            outcome=outcome(stage.reveals(search.found)),
            learnt=f"{told(stage, search.found)}; with {SHORT_BITS} bits 2^{SHORT_BITS} tries",
            promised=False,
            answer="seeds of 128 bits or more; the emulation has 256",
            with_answer=outcome(stage.reveals(refused.found)),
            source="Bonawitz et al. 2017, section 4",
        ),
        rate,
    )


def _seed(number: int) -> bytes:
    return number.to_bytes(32, "little")


def _search(stage: StagedRound, message: Words) -> SeedSearch:
    start = time.perf_counter()
    limit = stage.protocol.encoding.range * int(stage.weights[stage.target])
    for first in range(0, 1 << SEARCHED_BITS, _AT_ONCE):
        seeds = [_seed(number) for number in range(first, first + _AT_ONCE)]
        masks = expand(seeds, message.size)
        left = stage.decode(message - (masks if stage.protocol.masks else 0 * masks))
        fits = np.flatnonzero((np.abs(left) <= limit).all(axis=1))
        if fits.size:
            spent = time.perf_counter() - start
            return SeedSearch(left[fits[0]], first + _AT_ONCE, spent)
    return SeedSearch(None, 1 << SEARCHED_BITS, time.perf_counter() - start)


def clear_counts(stage: StagedRound) -> ProtocolAttempt:
    """The server reads the interaction counts, which clients send in clear."""
    counts = stage.weights
    silent = int((counts == 0).sum())
    hidden = _masked_count(stage)
    return ProtocolAttempt(
        name="counts in clear",
        actor="honest-but-curious server",
        does="reads the count that each client sends beside its message",
        sent=f"{counts.size} counts",
        outcome="broken",
        learnt=f"the count of every client, {counts.min()} to {counts.max()}, but no message"
        + (f"; {silent} clients with count 0 sent zero" if silent else ""),
        promised=False,
        answer="hidden weights: the count as one more masked word",
        with_answer=outcome(hidden),
        source="Bonawitz et al. 2017, section 2",
    )


def _masked_count(stage: StagedRound) -> bool:
    """Whether the target's count shows if it is sent as a masked word, scaled to the range."""
    scale = stage.protocol.encoding.range / max(1, int(stage.weights.max()))
    ones = np.ones(stage.clients, dtype=np.int64)
    column = (stage.weights * scale)[:, np.newaxis].astype(np.float64)
    inside = replace(stage, values=column, weights=ones)
    return inside.reveals(inside.decode(inside.result.payload[stage.target]))
