"""A round of secure aggregation whose clients answer any request of the server for shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.privacy.secure_aggregation import SecureSum, SecureSumResult
from foltr_audit.privacy.secure_aggregation.graph import MaskGraph
from foltr_audit.privacy.secure_aggregation.keys import ClientSecrets, PrivateKey
from foltr_audit.privacy.secure_aggregation.masks import sum_of_masks
from foltr_audit.privacy.secure_aggregation.protocol import circle
from foltr_audit.privacy.secure_aggregation.shamir import polynomial, reconstruct, shares
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Floats, Ints

SecretKind = Literal["self", "pair"]
"""What is shared: the seed of a client's own mask, or the private key of its masks with neighbours."""

Words = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False)
class StagedRound:
    """A round as far as the masked messages: what the server has, and what it can ask for.

    Attributes:
        protocol: with its parameters.
        values: the message of each client, (C, P).
        weights: its integer count, (C,).
        streams: key, purpose and round name every secret.
        target: place of the client whose message the server wants.
        absent: clients that drop out before they share keys, bool (C,).
        threshold: shares that reconstruct a secret; None for that of the protocol.
        once: whether a client gives the server one kind of share of each other client only.
        bind: whether the seeds of pairs depend on the model that a client received.
    """

    protocol: SecureSum
    values: Floats
    weights: Ints
    streams: ClientStreams
    target: int
    absent: Bools
    threshold: int | None = None
    once: bool = False
    bind: bool = False

    @cached_property
    def needed(self) -> int:
        """Shares that reconstruct a secret."""
        return self.protocol.plan(self.clients).shares_needed if self.threshold is None else self.threshold

    @property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.weights.size)

    @cached_property
    def result(self) -> SecureSumResult:
        """The round as the protocol runs it, in which everybody who shared keys sends a message."""
        return self.protocol.run(self.values, self.weights, self.streams, self.absent)

    @cached_property
    def secrets(self) -> ClientSecrets:
        """Of the clients."""
        return ClientSecrets(self.streams)

    @cached_property
    def graph(self) -> MaskGraph:
        """Who is whose neighbour."""
        ids = self.streams.clients
        return circle(self.secrets, ids, self.protocol.plan(self.clients).neighbours)

    def neighbours(self, place: int) -> list[int]:
        """Neighbours of a client that shared keys."""
        return [other for other in self.graph.table[place].tolist() if not self.absent[other]]

    def private(self, place: int) -> PrivateKey:
        """The private key of a client."""
        secret = self.secrets.secret("pair", int(self.streams.clients[place]))
        return self.secrets.private_key(secret, self.protocol.agreement)

    def share(self, holder: int, owner: int, kind: SecretKind) -> tuple[int, int]:
        """The point and value of the share that a neighbour holds of a client's secret."""
        client = int(self.streams.clients[owner])
        point = self.graph.table[owner].tolist().index(holder) + 1
        dealt = self.secrets.secret(f"{kind}/shares", client)
        coefficients = polynomial(self.secrets.secret(kind, client), self.needed, dealt)
        return point, shares(coefficients, [point])[0]

    def own_mask(self, seed: bytes) -> Words:
        """The mask of a client's own seed, uint64 (P,)."""
        return self.mask([seed], [1])

    def pair_masks(self, place: int, private: bytes, others: Iterable[int]) -> Words:
        """What a client adds for some neighbours, computed from its private key, uint64 (P,)."""
        key, ids = self.secrets.private_key(private, self.protocol.agreement), self.streams.clients
        places = list(others)
        seeds = [key.seed(self.private(other).public) for other in places]
        return self.mask(seeds, [1 if ids[place] < ids[other] else -1 for other in places])

    def mask(self, seeds: list[bytes], signs: list[int]) -> Words:
        """Sum of the masks of seeds with signs; zero if the protocol is run without masks."""
        size = self.values.shape[1]
        if not self.protocol.masks or not seeds:
            return np.zeros(size, dtype=np.uint64)
        return sum_of_masks(seeds, size, np.array(signs, dtype=np.int64))

    def decode(self, words: Words) -> Floats:
        """The numbers that words stand for: counts times values, float64 (P,)."""
        encoding = self.protocol.encoding
        return encoding.decode(encoding.reduced(words))

    def off(self, found: Floats) -> float:
        """Largest difference of what the server computed from the true message of the target."""
        return float(np.max(np.abs(found - self._truth), initial=0.0))

    @property
    def _truth(self) -> Floats:
        return np.asarray(self.values[self.target] * self.weights[self.target])

    def reveals(self, found: Floats | None, *, roundings: int = 1) -> bool:
        """Whether it is the message of the target, up to as many roundings of the encoding."""
        if found is None:
            return False
        float64 = float(np.max(np.abs(self._truth), initial=0.0)) * 2.0**-50
        return self.off(found) <= roundings * self.protocol.encoding.error + float64


@dataclass
class ShareHolders:
    """The clients of a round when the server asks for shares.

    Attributes:
        round: whose shares.
        one_kind: whether a client gives shares of one kind only of each other client.
        given: shares given so far, by holder and owner.
    """

    round: StagedRound
    one_kind: bool = False
    given: dict[tuple[int, int], set[SecretKind]] = field(default_factory=dict)

    def ask(self, owner: int, kind: SecretKind, holders: Iterable[int]) -> dict[int, int]:
        """Ask some neighbours of a client for a share of its secret; the values by point."""
        found = {}
        for holder in holders:
            before = self.given.setdefault((holder, owner), set())
            if not (self.one_kind and before - {kind}):
                before.add(kind)
                point, value = self.round.share(holder, owner, kind)
                found[point] = value
        return found

    def secret(self, owner: int, kind: SecretKind, holders: Iterable[int]) -> bytes | None:
        """A client's secret from these neighbours; None with too few shares."""
        held = self.ask(owner, kind, holders)
        if len(held) < self.round.needed:
            return None
        return reconstruct(dict(list(held.items())[: self.round.needed]))

    def count(self, owner: int, kind: SecretKind) -> int:
        """Shares of a secret given so far."""
        return sum(kind in kinds for (_, whose), kinds in self.given.items() if whose == owner)

    def total(self, listed: Bools, answering: Bools) -> Words | None:
        """The sum of the listed clients' messages, from shares of those that answer; None with too few.

        Args:
            listed: the clients whose messages the server says it has, bool (C,).
            answering: the clients that answer, bool (C,).
        """
        stage = self.round
        words: Words = stage.result.payload[listed].sum(axis=0, dtype=np.uint64)
        for place in range(stage.clients):
            near = stage.neighbours(place)
            beside = [other for other in near if listed[other]]
            if stage.absent[place] or not (listed[place] or beside):
                continue
            kind: SecretKind = "self" if listed[place] else "pair"
            secret = self.secret(place, kind, [other for other in near if answering[other]])
            if secret is None:
                return None
            if listed[place]:
                words = words - stage.own_mask(secret)
            else:  # neighbours added these masks with the other sign
                words = words + stage.pair_masks(place, secret, beside)
        return words
