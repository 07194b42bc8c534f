"""Named random streams: (seed, repetition, purpose, round, client) determines the numbers.

Nothing in foltr-audit draws from a global generator. Since streams are named, adding an attack or
a defense, or running in another order or on more threads, never changes another draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Self, cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence, ISpawnableSeedSequence, SeedSequence
from numpy.typing import NDArray

UNIFORM_STEP = 2.0**-52
"""Uniform numbers of a stream are the midpoints of steps of this width, so that 0 and 1 are never drawn."""


@lru_cache(maxsize=1024)
def _digest(text: str, bits: int) -> int:
    # Not `hash`: Python salts the hash of a text anew in every process, so a seed would not fix the draws.
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=bits // 8).digest(), "little")


def name_codes(names: Iterable[str]) -> NDArray[np.int64]:
    """A 32-bit number for each name, which serves as the client id of its stream, shape (names,)."""
    return np.array([_digest(name, 32) for name in names], dtype=np.int64)


class _StreamKey(ISeedSequence):
    """The 128-bit key of a Philox generator, in the place of a seed.

    `Philox(key=...)` asks the system for a random seed as well, which takes longer than all else.
    """

    def __init__(self, key: int) -> None:
        self._words = np.frombuffer(key.to_bytes(16, "little"), dtype="<u8").astype(np.uint64)

    def generate_state(self, n_words: int, dtype: object = np.uint64) -> NDArray[np.uint64]:
        """The key, uint64 (2,): the words that Philox asks for."""
        return self._words

    def spawn(self, n_children: int) -> list[SeedSequence]:
        """Seeds for `Generator.spawn`, the same in each run."""
        return self._children.spawn(n_children)

    @cached_property
    def _children(self) -> SeedSequence:
        return SeedSequence(self._words.tolist())


ISpawnableSeedSequence.register(_StreamKey)


@dataclass(frozen=True)
class Streams:
    """All streams of one experiment: a 64-bit key made from its seed and repetition.

    A branch has numbers of its own, and shares those of some purposes with all other branches. So the same
    clients can take part in several federations: they ask the same queries in each of them, and everything
    else is drawn anew.

    Attributes:
        seed, repetition: of the experiment.
        branch: name of the branch; empty for none.
        shared: what the names of the purposes begin with that branches share.

    >>> Streams(1).generator("bootstrap").random() == Streams(1).generator("bootstrap").random()
    True
    >>> here, there = (Streams(1, branch=name, shared=("queries",)) for name in "ab")
    >>> one = np.zeros(1, dtype=np.int64)
    >>> [
    ...     bool(here.clients(use, 0, one).uniform(1) == there.clients(use, 0, one).uniform(1))
    ...     for use in ("queries", "noise")
    ... ]
    [True, False]
    """

    seed: int
    repetition: int = 0
    branch: str = ""
    shared: tuple[str, ...] = ()
    _under: str = field(default="", kw_only=True, repr=False)

    @property
    def key(self) -> int:
        """The 64-bit Philox key of what is not shared."""
        branch = f"/{self.branch}" if self.branch else ""
        return _digest(f"foltr-audit/{self.seed}/{self.repetition}{branch}", 64)

    def under(self, name: str) -> Self:
        """The same streams with a name in front of every purpose, for what is played beside the training.

        The name cannot be asked for: a plug-in must not tell from its streams whether it is audited.
        """
        return replace(self, _under=self._under + name)

    def clients(self, purpose: str, round_: int, clients: NDArray[np.int64]) -> ClientStreams:
        """One stream per client for a purpose in a round."""
        shared = (self._under + purpose).startswith(self.shared)
        key = replace(self, branch="").key if shared else self.key
        return ClientStreams(key, purpose, round_, clients, _under=self._under)

    def generator(self, purpose: str) -> np.random.Generator:
        """A NumPy generator for server-side or analysis draws that belong to no client."""
        key = _StreamKey(_digest(f"{self.key}/{self._under}{purpose}", 128))
        # NumPy takes any ISeedSequence; its types name SeedSequence alone.
        return np.random.Generator(np.random.Philox(cast("SeedSequence", key)))


@dataclass(frozen=True)
class ClientStreams:
    """One counter-based stream for each client of a cohort.

    Attributes:
        key: 64-bit key of the experiment.
        purpose: the use of the numbers, e.g. `"clicks"`.
        round: round number, from 0.
        clients: client ids, shape (C,); a client's numbers do not depend on its position here.
    """

    key: int
    purpose: str
    round: int
    clients: NDArray[np.int64]
    _under: str = field(default="", kw_only=True, repr=False)

    @property
    def purpose_code(self) -> int:
        """The 32-bit code of the purpose in the Philox counter; it names the streams with key and round."""
        return _digest(self._under + self.purpose, 32)

    def secret(self, name: str, client: int) -> bytes:
        """32 bytes of a name for one client, which no numbers of the streams reveal."""
        text = f"{self._under}{self.purpose}/{name}/{self.round}/{client}"
        return hashlib.blake2b(text.encode(), key=self.key.to_bytes(8, "little"), digest_size=32).digest()

    def at(self, rows: NDArray[np.int64]) -> ClientStreams:
        """The streams of some of the clients."""
        return replace(self, clients=self.clients[rows])

    def uniform(self, size: int, first: int = 0) -> NDArray[np.float64]:
        """Numbers first .. first+size-1 of each stream, in (0, 1), shape (C, size)."""
        from foltr_audit.kernels.philox import uniforms

        return uniforms(first, size, self.clients, self.round, self.purpose_code, np.uint64(self.key))
