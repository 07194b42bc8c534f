"""One round of secure aggregation.

Emulates figure 4 of Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine
learning", for an honest-but-curious server, on the graph of Bell et al. 2020, "Secure single-server
aggregation with (poly)logarithmic overhead". Two shortcuts compute the same numbers: a pair's mask is made
once and used with both signs, and only those Shamir shares are evaluated that the server then uses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.privacy.secure_aggregation.costs import bytes_sent
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.graph import MaskGraph, default_neighbours, neighbours_of
from foltr_audit.privacy.secure_aggregation.keys import Agreement, ClientSecrets
from foltr_audit.privacy.secure_aggregation.masks import PairwiseMasks, add_self_masks, sum_of_masks
from foltr_audit.privacy.secure_aggregation.recovery import MaskRecovery
from foltr_audit.privacy.secure_aggregation.result import (
    AggregationAbort,
    SecureSumParameters,
    SecureSumResult,
    Stage,
)
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.array_memo import remembered
from foltr_audit.utils.arrays import Bools, Floats, Ints

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

    Raises:
        UsageError: neighbours or threshold out of range.
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
            clients=clients,
            neighbours=degree,
            shares_needed=max(1, min(needed, degree)),
            at_least=least,
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
            where = streams.key, streams.purpose, streams.round, streams.clients.tobytes()
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
        return "circle", streams.key, streams.purpose, streams.round, clients.tobytes()

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
