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
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.keys import (
    PUBLIC_KEY_BYTES,
    SHARE_BYTES,
    Agreement,
    MaskGraph,
    PrivateKey,
    bound_seed,
    expand,
    masks_of,
    polynomial,
    private_key,
    reconstruct,
    shares,
    sum_of_masks,
)
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.array_memo import remembered
from foltr_audit.utils.arrays import Bools, Floats, Ints


class SecureSumParameters(NamedTuple):
    """The parameters of a cohort's round.

    Attributes:
        neighbours: of each client.
        shares_needed: Shamir threshold t of every secret, at least 1.
        at_least: fewest messages that a sum may hold, at least 2.
    """

    neighbours: int
    shares_needed: int
    at_least: int


class SecureSumResult(NamedTuple):
    """What the server has after one round.

    Attributes:
        payload: masked messages modulo 2^bits, uint64 (C, P); rows of clients that sent none are zero, and
            all are where only the sum was asked for.
        survivors: who sent a masked message, bool (C,).
        total: sum of the weighted encodings of the survivors modulo 2^bits, uint64 (P,); None if aborted.
        sum: the same as numbers, float64 (P,): counts times values, summed; None if aborted.
        aborted: why there is no sum, in one line that begins with a stage; empty where there is one.
        parameters: of the round.
        sent: bytes that each client sent in each stage of `STAGES`, int64 (C, 4).
    """

    payload: NDArray[np.uint64]
    survivors: Bools
    total: NDArray[np.uint64] | None
    sum: Floats | None
    aborted: str
    parameters: SecureSumParameters
    sent: Ints


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

    def key(client: int) -> PrivateKey:
        return private_key(streams.secret("pair", client), agreement, streams.key)

    others = [key(client).public for client in range(1, neighbours + 1)]
    marks = [time.perf_counter()]
    own = key(0)
    _ = own.public
    marks.append(time.perf_counter())
    for name in ("pair", "self"):
        coefficients = polynomial(streams.secret(name, 0), threshold, streams.secret(f"{name}/shares", 0))
        shares(coefficients, range(1, neighbours + 1))
    marks.append(time.perf_counter())
    masks = expand([streams.secret("self", 0), *(own.seed(other) for other in others)], size)
    masks.sum(axis=0)
    marks.append(time.perf_counter())
    return dict(zip(STAGES[:3], np.diff(marks).tolist(), strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedRound:
    """The clients of one round: the masks that they add, and those that their shares take off the sum.

    Attributes:
        streams: whose key, purpose and round name every secret of the clients (C,).
        graph: who is whose neighbour.
        agreement: how a pair gets its seed.
        threshold: shares that reconstruct a secret.
        shared: who shared keys, bool (C,).
        sends: clients that send a masked message and answer afterwards, bool (C,).
        digests: of what each client received; None if masks do not depend on it.
    """

    streams: ClientStreams
    graph: MaskGraph
    agreement: Agreement
    threshold: int
    shared: Bools
    sends: Bools
    digests: Sequence[bytes] | None = None

    @cached_property
    def keys(self) -> dict[int, PrivateKey]:
        """The private key of each client that shared keys, by its place."""
        clients = self.streams.clients.tolist()
        return {
            place: private_key(self.streams.secret("pair", clients[place]), self.agreement, self.streams.key)
            for place in np.flatnonzero(self.shared).tolist()
        }

    def add_masks(self, out: NDArray[np.uint64]) -> None:
        """Add to the rows of senders in out (C, P) all their masks; each mask of a pair is expanded once.

        Of a pair the smaller id adds the mask, and the other subtracts it.
        """
        clients, size = self.streams.clients, out.shape[1]
        for one, other in self.graph.rings():
            used = self.shared[one] & self.shared[other] & (self.sends[one] | self.sends[other])
            left, right = one[used], other[used]
            pairs = zip(left.tolist(), right.tolist(), strict=True)
            seeds = [self.keys[a].seed(self.keys[b].public) for a, b in pairs]
            signs = np.where(clients[left] > clients[right], -1, 1)
            ours, theirs = self._bound(seeds, left), self._bound(seeds, right)
            # The places of a ring do not repeat on either side; with repeats `+=` would add only one of them.
            for part, masks in masks_of(ours, size, signs):
                out[left[part]] += masks
                if ours == theirs:
                    out[right[part]] -= masks
            if ours != theirs:
                for part, masks in masks_of(theirs, size, signs):
                    out[right[part]] -= masks
        out[~self.sends] = 0
        senders = np.flatnonzero(self.sends)
        own = [self.streams.secret("self", client) for client in clients[senders].tolist()]
        for part, masks in masks_of(own, size):
            out[senders[part]] += masks

    def _bound(self, seeds: list[bytes], places: Ints) -> list[bytes]:
        """The seeds of pairs as the clients in these places use them."""
        digests = self.digests
        if digests is None:
            return seeds
        return [bound_seed(seed, digests[place]) for seed, place in zip(seeds, places.tolist(), strict=True)]

    @cached_property
    def _holders(self) -> Bools:
        """Which neighbours of each client answer, bool (C, degree)."""
        return self.sends[self.graph.table]

    @cached_property
    def _lost(self) -> Bools:
        """Clients whose masks with a survivor have no counterpart in the sum, bool (C,)."""
        return self.shared & ~self.sends & self._holders.any(axis=1)

    def why_not(self) -> str:
        """Why the masks cannot or must not be taken off the sum, or nothing."""
        held = self._holders.sum(axis=1)
        short = np.flatnonzero((self.sends | self._lost) & (held < self.threshold))
        if short.size:
            client, have = self.streams.clients[short[0]], held[short[0]]
            return (
                f"unmask: {have} neighbours of client {client} survive, {self.threshold} needed "
                f"(so it is for {short.size} clients)"
            )
        groups = self.graph.groups(self.sends)
        apart = (
            f"unmask: the survivors fall apart into {groups} groups that share no mask, whose sums would show"
        )
        return apart if groups > 1 else ""

    def left_masks(self, size: int) -> NDArray[np.uint64]:
        """The masks that remain in the sum of the survivors' messages, modulo 2^64, uint64 (size,)."""
        own = [self._recovered("self", place) for place in np.flatnonzero(self.sends).tolist()]
        total = sum_of_masks(own, size)
        clients = self.streams.clients
        for place in np.flatnonzero(self._lost).tolist():
            # What survivors added for a client that sent nothing, with the signs that they used.
            key = private_key(self._recovered("pair", place), self.agreement, self.streams.key)
            others = self.graph.table[place][self._holders[place]]
            seeds = [key.seed(self.keys[other].public) for other in others.tolist()]
            signs = np.where(clients[others] < clients[place], 1, -1)
            # The server knows what it sent to each survivor, and so which mask each of them has added.
            total += sum_of_masks(self._bound(seeds, others), size, signs)
        return total

    def _recovered(self, name: str, place: int) -> bytes:
        """A client's secret, from the shares of its first surviving neighbours."""
        client = int(self.streams.clients[place])
        points = (np.flatnonzero(self._holders[place])[: self.threshold] + 1).tolist()
        secret, seed = self.streams.secret(name, client), self.streams.secret(f"{name}/shares", client)
        dealt = shares(polynomial(secret, self.threshold, seed), points)
        found = reconstruct(dict(zip(points, dealt, strict=True)))
        if found is None:
            raise FoltrAuditError(f"secure-aggregation: the shares of client {client}'s secret do not fit")
        return found


_WHO = "secure-aggregation"
_EXTRA = 10  # neighbours in addition to 2 log2 n, so that small cohorts stay connected


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

        Clients on a circle have an even number of neighbours, or all others. To open a secret takes the same
        share of the neighbours as a sum takes of the other clients.
        """
        others = max(clients - 1, 0)
        wanted = self.neighbours or 2 * math.ceil(math.log2(max(clients, 1))) + _EXTRA
        degree = others if wanted == "all" else min(wanted + wanted % 2, others)
        if self.threshold < 1:
            least = max(2, math.floor(self.threshold * clients) + 1)
        else:
            least = int(self.threshold)
        needed = -(-(least - 1) * degree // max(others, 1))
        return SecureSumParameters(degree, max(1, min(needed, degree)), least)

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
            UsageError: a value or a sum that the encoding does not hold.
        """
        clients, nobody = streams.clients, np.zeros(streams.clients.size, dtype=np.bool_)
        shared = ~(nobody if before is None else before)
        sends = shared & ~(nobody if after is None else after)
        self.encoding.check_sum(weights)
        plan = self.plan(clients.size)
        aborted = _too_few("shares: {} shared keys", shared, plan)
        if aborted:
            sends = nobody
        payload = np.zeros(values.shape, dtype=np.uint64)
        payload[sends] = self.encoding.encode(values[sends], weights[sends], clients[sends])
        graph = circle(streams, plan.neighbours)
        round_ = MaskedRound(
            streams=streams,
            graph=graph,
            agreement=self.agreement,
            threshold=plan.shares_needed,
            shared=shared,
            sends=sends,
            digests=digests,
        )
        masks = self.masks and not (sum_only and len(set(digests or ())) <= 1)
        if masks and not aborted:
            round_.add_masks(payload)
            # Sums wrap at 2^64, which 2^b divides: one reduction at the end gives the right integers.
            payload = self.encoding.reduced(payload)
        aborted = aborted or _too_few("masked: {} sent a masked message", sends, plan)
        reached = not aborted
        aborted = aborted or round_.why_not()
        total = None
        if not aborted:
            masked = payload.sum(axis=0, dtype=np.uint64)
            total = self.encoding.reduced(masked - round_.left_masks(values.shape[1]) if masks else masked)
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
        masks = np.empty((streams.clients.size, size), dtype=np.uint64)
        signs = np.append(1, np.where(np.arange(degree) % 2 == 0, 1, -1))
        for row, client in enumerate(streams.clients.tolist()):

            def key(name: str, client: int = client) -> PrivateKey:
                return private_key(streams.secret(name, client), self.agreement, streams.key)

            own = key("pair")
            seeds = [own.seed(key(f"other/{j}").public) for j in range(degree)]
            masks[row] = sum_of_masks([streams.secret("self", client), *seeds], size, signs)
        return masks


def circle(streams: ClientStreams, degree: int) -> MaskGraph:
    """The graph of a round: clients in the order of a keyed hash of their ids."""
    clients = streams.clients

    def key() -> tuple[object, ...]:
        return "circle", streams.key, streams.purpose_code, streams.round, clients.tobytes()

    def order() -> Ints:
        tickets = [streams.secret("place", client) for client in clients.tolist()]
        # Places on the circle must not follow from ids: colluding clients could sit next to their target.
        return np.array(sorted(range(clients.size), key=tickets.__getitem__), dtype=np.int64)

    return MaskGraph(remembered(key, order), degree)


def _too_few(what: str, there: Bools, plan: SecureSumParameters) -> str:
    """Why clients that did something are too few, or nothing."""
    have = int(there.sum())
    if have >= plan.at_least:
        return ""
    return what.format(f"{have} of {there.size} clients") + f", {plan.at_least} needed"
