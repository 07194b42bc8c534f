"""What shares of the clients' secrets open: by a server that asks for them one by one, as Flower's does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.privacy.secure_aggregation import FixedPoint, SecureSum, SecureSumResult
from foltr_audit.privacy.secure_aggregation.keys import (
    Agreement,
    ClientSecrets,
    MaskGraph,
    PrivateKey,
    polynomial,
    reconstruct,
    shares,
    sum_of_masks,
)
from foltr_audit.privacy.secure_aggregation.protocol import circle
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

ENCODING = FixedPoint(bits=48, range=4, fraction=24)
CLIENTS, PARAMETERS, TARGET = 24, 5, 6

Words = NDArray[np.uint64]
SecretKind = Literal["self", "pair"]


@dataclass(frozen=True)
class Server:
    """A round in which everybody sends a message, and a server that asks neighbours for shares.

    Attributes:
        threshold: of the protocol.
        agreement: how pairs agree on seeds.
        round: number of the round, on which all secrets depend.
        shift: by how many places the messages of clients are moved.
    """

    threshold: float = 0.5
    agreement: Agreement = "none"
    round: int = 0
    shift: int = 0

    @property
    def secure(self) -> SecureSum:
        return SecureSum(encoding=ENCODING, threshold=self.threshold, agreement=self.agreement)

    @property
    def streams(self) -> ClientStreams:
        return Streams(1).clients("secure", self.round, np.arange(CLIENTS))

    @property
    def needed(self) -> int:
        return self.secure.plan(CLIENTS).shares_needed

    @property
    def messages(self) -> tuple[Floats, Ints]:
        """Values and counts of all clients."""
        drawn = np.random.default_rng(7)
        values = drawn.uniform(-1, 1, (CLIENTS, PARAMETERS))
        return np.roll(values, self.shift, axis=0), drawn.integers(1, 9, CLIENTS)

    @property
    def bare(self) -> Words:
        """The encodings without masks."""
        return ENCODING.encode(*self.messages)

    def run(self, after: Bools | None = None) -> SecureSumResult:
        return self.secure.run(*self.messages, self.streams, after=after)

    @cached_property
    def secrets(self) -> ClientSecrets:
        return ClientSecrets(self.streams)

    @cached_property
    def graph(self) -> MaskGraph:
        return circle(self.secrets, self.streams.clients, self.secure.plan(CLIENTS).neighbours)

    def key(self, client: int) -> PrivateKey:
        return self.secrets.private_key(self.secrets.secret("pair", client), self.agreement)

    def secret(self, owner: int, kind: SecretKind, holders: Iterable[int]) -> bytes | None:
        """A client's secret from the shares of some neighbours; None where these are too few."""
        dealt = self.secrets.secret(f"{kind}/shares", owner)
        coefficients = polynomial(self.secrets.secret(kind, owner), self.needed, dealt)
        points = [self.graph.table[owner].tolist().index(holder) + 1 for holder in holders]
        held = dict(zip(points, shares(coefficients, points), strict=True))
        return reconstruct(held) if len(held) >= self.needed else None

    def pair_masks(self, client: int, key: bytes, others: list[int]) -> Words:
        """What a client adds for some neighbours, computed from its private key."""
        own = self.secrets.private_key(key, self.agreement)
        seeds = [own.seed(self.key(other).public) for other in others]
        return sum_of_masks(seeds, PARAMETERS, np.where(client < np.array(others), 1, -1))

    def total(self, listed: Bools, answering: Bools) -> Words | None:
        """The sum of the listed messages from shares of the clients that answer."""
        words: Words = self.run().payload[listed].sum(axis=0, dtype=np.uint64)
        for client in range(CLIENTS):
            near = self.graph.table[client].tolist()
            kind: SecretKind = "self" if listed[client] else "pair"
            secret = self.secret(client, kind, [other for other in near if answering[other]])
            if secret is None:
                return None
            if listed[client]:
                words = words - sum_of_masks([secret], PARAMETERS, np.ones(1, dtype=np.int64))
            else:  # its neighbours added these masks with the other sign
                words = words + self.pair_masks(client, secret, [other for other in near if listed[other]])
        return ENCODING.reduced(words)

    def message(self, seed: bytes | None, key: bytes | None) -> Words:
        """The target's message without the masks that these secrets of it make."""
        words = self.run().payload[TARGET]
        if seed is not None:
            words = words - sum_of_masks([seed], PARAMETERS, np.ones(1, dtype=np.int64))
        if key is not None:
            words = words - self.pair_masks(TARGET, key, self.graph.table[TARGET].tolist())
        return ENCODING.reduced(words)


EVERYBODY = np.ones(CLIENTS, dtype=np.bool_)
LOST = np.isin(np.arange(CLIENTS), (2, 7, 11))


@pytest.mark.parametrize("agreement", ["none", "x25519"])
def test_shares_open_the_sum_that_the_protocol_finds_whenever_clients_drop_out(agreement: Agreement) -> None:
    """After keys the messages of the lost are missing; before unmasking only their shares are."""
    server = Server(agreement=agreement)
    after = server.total(~LOST, ~LOST)
    assert after is not None
    assert after.tolist() == server.run(after=LOST).total.tolist()  # type: ignore[union-attr]
    unmasking = server.total(EVERYBODY, ~LOST)
    assert unmasking is not None
    for words, listed in ((after, ~LOST), (unmasking, EVERYBODY)):
        columns = zip(*server.bare[listed].tolist(), strict=True)
        assert words.tolist() == [sum(column) % 2**48 for column in columns]


def test_too_few_answers_give_no_sum_and_a_share_given_twice_counts_once() -> None:
    server = Server()
    assert server.total(EVERYBODY, np.arange(CLIENTS) < CLIENTS // 3) is None
    few = server.graph.table[TARGET].tolist()[: server.needed - 1]
    assert server.secret(TARGET, "self", few + few) is None


def test_both_secrets_of_a_client_open_its_message_and_one_of_them_does_not() -> None:
    """The reason why clients give the server one kind of share of a client."""
    server = Server()
    near = server.graph.table[TARGET].tolist()
    seed, key = server.secret(TARGET, "self", near), server.secret(TARGET, "pair", near)
    truth = server.bare[TARGET].tolist()
    assert server.message(seed, key).tolist() == truth
    for one in ((seed, None), (None, key), (key, key), (seed, server.key(TARGET + 1).private)):
        off = ENCODING.decode(server.message(*one)) - ENCODING.decode(server.bare[TARGET])
        assert np.abs(off).max() > 2**10, "noise over the whole range"


@pytest.mark.parametrize("threshold", [0.2, 0.35, 0.45, 0.5, 0.6, 0.9])
def test_two_lists_open_both_secrets_just_where_twice_the_threshold_fits(threshold: float) -> None:
    """Half of the neighbours give a share of the seed, and the other half one of the key."""
    server = Server(threshold)
    near = server.graph.table[TARGET].tolist()
    half = len(near) // 2
    opened = [server.secret(TARGET, "self", near[:half]), server.secret(TARGET, "pair", near[half:])]
    assert (None not in opened) == (2 * server.needed <= len(near))


def test_messages_under_the_same_secrets_differ_as_their_encodings_do() -> None:
    """The reason for fresh secrets in each round."""
    first, same, fresh = Server(), Server(shift=1), Server(shift=1, round=1)
    difference = ENCODING.reduced(same.bare - first.bare).tolist()
    sent = first.run().payload
    assert ENCODING.reduced(same.run().payload - sent).tolist() == difference
    assert ENCODING.reduced(fresh.run().payload - sent).tolist() != difference
