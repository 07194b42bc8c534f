"""One round of secure aggregation.

Emulates figure 4 of Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine
learning", for an honest-but-curious server, on the graph of Bell et al. 2020, "Secure single-server
aggregation with (poly)logarithmic overhead". Two shortcuts compute the same numbers: a pair's mask is made
once and used with both signs, and only those Shamir shares are evaluated that the server then uses.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.keys import (
    PUBLIC_KEY_BYTES,
    SHARE_BYTES,
    Agreement,
    ClientSecrets,
    MaskGraph,
    PairwiseMasks,
    PrivateKey,
    add_self_masks,
    bound_seed,
    default_neighbours,
    expand,
    neighbours_of,
    polynomial,
    reconstruct,
    shares,
    sum_of_masks,
)
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.array_memo import remembered
from foltr_audit.utils.arrays import Bools, Floats, Ints, freeze

Stage = Literal["shares", "masked", "unmask"]


@dataclass(frozen=True, kw_only=True)
class AggregationAbort:
    """Why a round gave no sum.

    Attributes:
        stage: where it ended: `shares` (too few shared keys), `masked` (too few sent a masked message)
            or `unmask` (a secret cannot be recovered, or the survivors form several groups).
        reason: in words.
        have: the number that was too small; of groups, too large.
        needed: the smallest number that suffices; of groups, the largest.
        client: whose secret could not be recovered, if that is the reason.
    """

    stage: Stage
    reason: str
    have: int
    needed: int
    client: int | None = None

    @property
    def text(self) -> str:
        """One line, e.g. `masked: 3 clients sent a masked message, 5 needed`."""
        return f"{self.stage}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class SecureSumParameters:
    """The parameters of a cohort's round.

    Attributes:
        clients: in the cohort, C.
        neighbours: of each client.
        shares_needed: Shamir threshold t of every secret, at least 1.
        at_least: fewest messages that a sum may hold, at least 2.
    """

    clients: int
    neighbours: int
    shares_needed: int
    at_least: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SecureSumResult:
    """What the server has after one round.

    Attributes:
        payload: masked messages modulo 2^bits, uint64 (C, P); rows of clients that sent none are zero, and
            all are where only the sum was asked for.
        survivors: who sent a masked message, bool (C,).
        total: sum of the weighted encodings of the survivors modulo 2^bits, uint64 (P,); None if aborted.
        sum: the same as numbers, float64 (P,): counts times values, summed; None if aborted.
        aborted: why there is no sum, or None.
        parameters: of the round.
        sent: bytes that each client sent in each stage of `STAGES`, int64 (C, 4).
    """

    payload: NDArray[np.uint64]
    survivors: Bools
    total: NDArray[np.uint64] | None
    sum: Floats | None
    aborted: AggregationAbort | None
    parameters: SecureSumParameters
    sent: Ints

    def __post_init__(self) -> None:
        freeze(self, payload=np.uint64, survivors=np.bool_, total=np.uint64, sum=np.float64, sent=np.int64)


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


@dataclass(frozen=True, eq=False)
class MaskRecovery:
    """Which clients hold which shares after the masked messages, and the masks that the shares give.

    Attributes:
        graph: who is whose neighbour.
        clients: ids, int64 (C,).
        secrets: of the round.
        agreement: how a pair gets its seed.
        threshold: shares that reconstruct a secret.
        shared: who shared keys, bool (C,).
        survivors: clients that sent a masked message and answer now, bool (C,).
        digests: of what each client received; None if masks do not depend on it.
    """

    graph: MaskGraph
    clients: Ints
    secrets: ClientSecrets
    agreement: Agreement
    threshold: int
    shared: Bools
    survivors: Bools
    digests: Sequence[bytes] | None = None

    @cached_property
    def keys(self) -> list[PrivateKey | None]:
        """Private key of each client that shared keys."""
        return [
            self.secrets.private_key(self.secrets.secret("pair", client), self.agreement) if there else None
            for client, there in zip(self.clients.tolist(), self.shared.tolist(), strict=True)
        ]

    @cached_property
    def _holders(self) -> Bools:
        """Which neighbours of each client survive, bool (C, degree)."""
        return self.survivors[self.graph.table]

    @cached_property
    def lost(self) -> Bools:
        """Clients whose masks with a survivor have no counterpart in the sum, bool (C,)."""
        return self.shared & ~self.survivors & self._holders.any(axis=1)

    def why_not(self) -> AggregationAbort | None:
        """Why the masks cannot or must not be removed, or None."""
        held = self._holders.sum(axis=1)
        short = np.flatnonzero((self.survivors | self.lost) & (held < self.threshold))
        if short.size:
            place = short[0]
            client, have = int(self.clients[place]), int(held[place])
            return AggregationAbort(
                stage="unmask",
                reason=f"{have} neighbours of client {client} survive, {self.threshold} needed "
                f"(so it is for {short.size} clients)",
                have=have,
                needed=self.threshold,
                client=client,
            )
        groups = self.graph.groups(self.survivors)
        if groups <= 1:
            return None
        return AggregationAbort(
            stage="unmask",
            reason=f"the survivors fall apart into {groups} groups that share no mask, whose sums would show",
            have=groups,
            needed=1,
        )

    def masks(self, size: int) -> NDArray[np.uint64]:
        """The masks that remain in the sum of the survivors' messages, modulo 2^64, uint64 (size,)."""
        survivors = np.flatnonzero(self.survivors)
        own = [self._recovered("self", place) for place in survivors.tolist()]
        total = sum_of_masks(own, size, np.ones(survivors.size, dtype=np.int64))
        for place in np.flatnonzero(self.lost).tolist():
            total += self._left_by(place, size)
        return total

    def _left_by(self, place: int, size: int) -> NDArray[np.uint64]:
        """The pair masks that survivors added for a client that sent nothing."""
        key = self.secrets.private_key(self._recovered("pair", place), self.agreement)
        others = self.graph.table[place][self._holders[place]]
        # The server knows what it sent to each survivor, and so which mask each of them has added.
        seeds = [
            bound_seed(key.seed(other.public), b"" if self.digests is None else self.digests[o])
            for o in others.tolist()
            if (other := self.keys[o]) is not None
        ]
        # These are the signs that the survivors used: of a pair the smaller id adds the mask.
        signs = np.where(self.clients[others] < self.clients[place], 1, -1)
        return sum_of_masks(seeds, size, signs)

    def _recovered(self, name: str, place: int) -> bytes:
        """A client's secret, from the shares of its first surviving neighbours."""
        client = int(self.clients[place])
        points = (np.flatnonzero(self._holders[place])[: self.threshold] + 1).tolist()
        secret, seed = self.secrets.secret(name, client), self.secrets.secret(f"{name}/shares", client)
        dealt = shares(polynomial(secret, self.threshold, seed), points)
        found = reconstruct(dict(zip(points, dealt, strict=True)))
        if found is None:
            raise FoltrAuditError(f"secure-aggregation: the shares of client {client}'s secret do not fit")
        return found


_WHO = "secure-aggregation"


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """Adds up the messages of a cohort: the server learns the sum and who took part, but no single message.

    This holds for an honest-but-curious server that colludes with fewer clients among the neighbours of any
    client than the Shamir threshold.

    Attributes:
        encoding: of numbers as integers modulo 2^b.
        neighbours: of each client; 0: about 2 log2 C + 10; `all`: the complete graph of Bonawitz et al.
        threshold: fewest messages that a sum may hold: a number of clients from 2 on, or, below 1, a share
            of the cohort that must be exceeded.
        masks: False sends encodings without masks, which shows what masks do.
        agreement: how a pair gets its seed.
    """

    encoding: FixedPoint
    neighbours: int | Literal["all"] = 0
    threshold: float = 0.5
    masks: bool = True
    agreement: Agreement = "none"

    def __post_init__(self) -> None:
        if self.neighbours != "all" and not self.neighbours >= 0:
            raise UsageError(f"{_WHO}: neighbours {self.neighbours}; expected 0, a number or all")
        number = 2 <= self.threshold < math.inf and float(self.threshold).is_integer()
        if not (0 < self.threshold < 1 or number):
            raise UsageError(
                f"{_WHO}: threshold {self.threshold:g}; expected a share below 1, or 2 clients or more"
            )

    def plan(self, clients: int) -> SecureSumParameters:
        """The parameters for a cohort of C clients.

        To open a secret takes the same share of the neighbours as a sum takes of the other clients.
        """
        if self.threshold < 1:
            least = max(2, math.floor(self.threshold * clients) + 1)
        else:
            least = int(self.threshold)
        if self.neighbours == "all":
            degree = max(clients - 1, 0)
        elif self.neighbours == 0:
            degree = default_neighbours(clients)
        else:
            degree = neighbours_of(self.neighbours, clients)
        needed = -(-(least - 1) * degree // max(clients - 1, 1))
        return SecureSumParameters(
            clients=clients, neighbours=degree, shares_needed=max(1, min(needed, degree)), at_least=least
        )

    def run(
        self,
        values: Floats,
        weights: Ints,
        streams: ClientStreams,
        before: Bools | None = None,
        after: Bools | None = None,
        digests: Sequence[bytes] | None = None,
        *,
        sum_only: bool = False,
    ) -> SecureSumResult:
        """One round for the cohort of `streams`.

        Args:
            values: the message of each client, (C, P).
            weights: integer count of each client, sent in clear, (C,).
            streams: key, purpose and round name every secret; the ids must be distinct.
            before: clients that drop out before they share keys, bool (C,).
            after: clients that drop out after that, before they send their message, bool (C,).
            digests: of what each client received, which its masks depend on; None: they do not.
            sum_only: nobody looks at the payload, which is then zero. Masks that cancel are not made: all do
                if all clients received the same.

        Raises:
            UsageError: a value or a sum that the encoding does not hold, or clients that occur twice.
        """
        clients = streams.clients
        none = np.zeros(clients.size, dtype=np.bool_)
        shared = ~(none if before is None else before)
        sends = shared & ~(none if after is None else after)
        if np.unique(clients).size != clients.size:
            raise UsageError(f"{_WHO}: a client occurs twice in the cohort; expected distinct ids")
        self.encoding.check_sum(weights)
        plan = self.plan(clients.size)
        secrets = ClientSecrets(streams)
        graph = circle(secrets, clients, plan.neighbours)
        aborted = _too_few("shares", "shared keys", shared, plan)
        if aborted:
            sends = none
        payload = np.zeros(values.shape, dtype=np.uint64)
        payload[sends] = self.encoding.encode(values[sends], weights[sends], clients[sends])
        recovery = MaskRecovery(
            graph, clients, secrets, self.agreement, plan.shares_needed, shared, sends, digests
        )
        cancel = len(set(digests or ())) <= 1
        masks = self.masks and not (sum_only and cancel)
        if masks and not aborted:
            pairs = PairwiseMasks(graph=graph, clients=clients, keys=recovery.keys, digests=digests)
            pairs.add_masks(payload, sends)
            rows = np.flatnonzero(sends)
            seeds = [secrets.secret("self", client) for client in clients[rows].tolist()]
            add_self_masks(payload, rows, seeds)
            # Sums wrap at 2^64, which 2^b divides: one reduction at the end gives the right integers.
            payload = self.encoding.reduced(payload)
        aborted = aborted or _too_few("masked", "sent a masked message", sends, plan)
        reached = aborted is None
        aborted = aborted or recovery.why_not()
        total = None
        if aborted is None:
            masked = payload.sum(axis=0, dtype=np.uint64)
            total = self.encoding.reduced(masked - recovery.masks(values.shape[1]) if masks else masked)
        return SecureSumResult(
            payload=np.zeros_like(payload) if sum_only else payload,
            survivors=sends,
            total=total,
            sum=None if total is None else self.encoding.decode(total),
            aborted=aborted,
            parameters=plan,
            sent=bytes_sent(graph, self.encoding.bits, values.shape[1], shared, sends, reached),
        )

    def alone(self, values: Floats, weights: Ints, streams: ClientStreams, cohort: int) -> NDArray[np.uint64]:
        """The payload of clients that take part in a simulated cohort of their own each, uint64 (C, P).

        Nobody drops out, and the keys of the other clients occur nowhere else. A client adds one half of its
        pair masks and subtracts the other, as it does in a large cohort.

        Args:
            values: the message of each client, (C, P).
            weights: integer count of each client, (C,).
            streams: of the clients.
            cohort: clients in each cohort, itself included.

        Raises:
            UsageError: a value or a sum that the encoding does not hold.
        """
        heaviest = int(weights.max(initial=0))
        self.encoding.check_sum(np.full(cohort, heaviest, dtype=np.int64))
        payload = self.encoding.encode(values, weights, streams.clients, summed=False)
        if not self.masks:
            return payload
        degree, size = self.plan(cohort).neighbours, values.shape[1]

        def key() -> tuple[object, ...]:
            where = streams.key, streams.purpose_code, streams.round, streams.clients.tobytes()
            return "masks", degree, size, self.agreement, *where

        return self.encoding.reduced(payload + remembered(key, lambda: self._masks(degree, size, streams)))

    def _masks(self, degree: int, size: int, streams: ClientStreams) -> NDArray[np.uint64]:
        """The sum of the masks of each client with `degree` neighbours of its own, modulo 2^64, (C, size)."""
        secrets, masks = ClientSecrets(streams), np.empty((streams.clients.size, size), dtype=np.uint64)
        signs = np.where(np.arange(degree) % 2 == 0, 1, -1)
        for row, client in enumerate(streams.clients.tolist()):
            own = secrets.private_key(secrets.secret("pair", client), self.agreement)
            seeds = [
                own.seed(secrets.private_key(secrets.secret(f"other/{j}", client), self.agreement).public)
                for j in range(degree)
            ]
            every = [secrets.secret("self", client), *seeds]
            masks[row] = sum_of_masks(every, size, np.append(1, signs))
        return masks


def circle(secrets: ClientSecrets, clients: Ints, degree: int) -> MaskGraph:
    """The graph of a round: clients in the order of a keyed hash of their ids."""

    def key() -> tuple[object, ...]:
        streams = secrets.streams
        return "circle", streams.key, streams.purpose_code, streams.round, clients.tobytes()

    def order() -> Ints:
        tickets = [secrets.secret("place", client) for client in clients.tolist()]
        # Places on the circle must not follow from ids: colluding clients could sit next to their target.
        return np.array(sorted(range(clients.size), key=tickets.__getitem__), dtype=np.int64)

    return MaskGraph(remembered(key, order), degree)


def _too_few(stage: Stage, what: str, there: Bools, plan: SecureSumParameters) -> AggregationAbort | None:
    have = int(there.sum())
    if have >= plan.at_least:
        return None
    return AggregationAbort(
        stage=stage,
        reason=f"{have} of {plan.clients} clients {what}, {plan.at_least} needed",
        have=have,
        needed=plan.at_least,
    )
