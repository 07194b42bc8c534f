"""The cost of secure aggregation for a client: bytes, by the protocol's message sizes, and time."""

from __future__ import annotations

import time

import numpy as np

from foltr_audit.privacy.secure_aggregation.graph import MaskGraph
from foltr_audit.privacy.secure_aggregation.keys import PUBLIC_KEY_BYTES, Agreement, ClientSecrets
from foltr_audit.privacy.secure_aggregation.masks import expand
from foltr_audit.privacy.secure_aggregation.shamir import SHARE_BYTES, polynomial, shares
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.arrays import Bools, Ints

STAGES = ("keys", "shares", "masked", "unmask")
"""The four messages of a client to the server, in order."""

ID_BYTES = 4
COUNT_BYTES = 4
SEAL_BYTES = 12 + 16  # nonce and tag of authenticated encryption

SEALED_SHARES_BYTES = 2 * ID_BYTES + 2 * SHARE_BYTES + SEAL_BYTES
"""To one neighbour, by way of the server: both ids and a share of both secrets, encrypted."""


def bytes_sent(graph: MaskGraph, bits: int, size: int, shared: Bools, sends: Bools, unmasks: bool) -> Ints:
    """Bytes that each client sends in each stage, int64 (C, 4).

    Two public keys; sealed shares for every neighbour; the interaction count in clear and `size` integers
    of `bits` bits; to unmask, one share of every neighbour that has shared its secrets. Signatures, which
    only protect against an active server, and the framing of a transport are not counted.

    Args:
        graph: who is whose neighbour.
        bits: width b of the integers.
        size: integers P of a message.
        shared: who shared keys, bool (C,).
        sends: who sent a masked message, bool (C,).
        unmasks: whether the round reached this stage.

    Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning",
    section 7.1, with the degree of a client instead of n - 1.
    """
    held = shared[graph.table].sum(axis=1)
    columns = (
        np.full(graph.n, 2 * PUBLIC_KEY_BYTES),
        shared * (graph.degree * SEALED_SHARES_BYTES),
        sends * (COUNT_BYTES + (size * bits + 7) // 8),
        sends * held * (ID_BYTES + SHARE_BYTES) * int(unmasks),
    )
    return np.stack(columns, axis=1).astype(np.int64)


def client_seconds(neighbours: int, threshold: int, size: int, agreement: Agreement) -> dict[str, float]:
    """Measured seconds of one client's own work on this machine, by stage.

    The simulation of a cohort makes a pair's mask once and computes only the shares that are used; here one
    client does all of its work. Encrypting the shares is left out.
    """
    expand([bytes(32)], 1)  # load the cipher's library before the clock starts
    streams = ClientStreams(Streams(0).key, "secure-aggregation/time", 0, np.arange(neighbours + 1))
    secrets = ClientSecrets(streams)
    others = [
        secrets.private_key(secrets.secret("pair", client), agreement).public
        for client in range(1, neighbours + 1)
    ]
    marks = [time.perf_counter()]
    own = secrets.private_key(secrets.secret("pair", 0), agreement)
    _ = own.public
    marks.append(time.perf_counter())
    for name in ("pair", "self"):
        secret = secrets.secret(name, 0)
        coefficients = polynomial(secret, threshold, secrets.secret(f"{name}/shares", 0))
        shares(coefficients, range(1, neighbours + 1))
    marks.append(time.perf_counter())
    masks = expand([secrets.secret("self", 0), *(own.seed(other) for other in others)], size)
    masks.sum(axis=0)
    marks.append(time.perf_counter())
    spent = np.diff(marks).tolist()
    return dict(zip(STAGES[:3], spent, strict=True))
