"""The server's last step: from shares of secrets to the masks that remain in the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import FoltrAuditError
from foltr_audit.privacy.secure_aggregation.graph import MaskGraph
from foltr_audit.privacy.secure_aggregation.keys import Agreement, ClientSecrets, PrivateKey, bound_seed
from foltr_audit.privacy.secure_aggregation.masks import sum_of_masks
from foltr_audit.privacy.secure_aggregation.result import AggregationAbort
from foltr_audit.privacy.secure_aggregation.shamir import polynomial, reconstruct, shares
from foltr_audit.utils.arrays import Bools, Ints


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
