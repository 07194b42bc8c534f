"""Compact storage for the names of many documents, which are rarely read."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import overload

import numpy as np
from numpy.typing import NDArray

from foltr_audit.utils.arrays import Ints
from foltr_audit.utils.frozen_arrays import read_only

_BATCH_NAMES = 8_192  # names decoded or encoded at a time
_PIECE_BYTES = 1 << 20


class LazyNames(Sequence[str]):
    """Names stored as UTF-8 bytes and decoded on access; most runs read none of them.

    Attributes:
        text: uint8, shape (bytes,): the concatenated names, each followed by a NUL.
    """

    def __init__(self, text: NDArray[np.uint8], count: int) -> None:
        self.text = text
        self._count = count

    @classmethod
    def of(cls, names: Iterable[str]) -> LazyNames:
        """Store names; a `LazyNames` is returned unchanged.

        Raises:
            ValueError: a name contains a NUL.
        """
        if isinstance(names, LazyNames):
            return names
        text, count = bytearray(), 0
        for batch in batches(names):
            text += "\0".join([*batch, ""]).encode("utf-8", "surrogatepass")
            count += len(batch)
        if text.count(0) != count:
            raise ValueError("a name contains a NUL")
        return cls(read_only(np.frombuffer(text, dtype=np.uint8), np.uint8), count)

    @property
    def is_sound(self) -> bool:
        """Whether the bytes are `len(self)` names of valid UTF-8; checked after reading stored bytes."""
        if np.count_nonzero(self.text == 0) != self._count or (self.text.size and self.text[-1] != 0):
            return False
        decoder = getincrementaldecoder("utf-8")("surrogatepass")
        try:
            for first in range(0, self.text.size, _PIECE_BYTES):
                decoder.decode(self.text[first : first + _PIECE_BYTES].tobytes())
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        return True

    @cached_property
    def _starts(self) -> Ints:
        """Index of the first byte of each name, and the end of the last one, shape (names + 1,)."""
        return np.concatenate([[0], np.flatnonzero(self.text == 0) + 1])

    def _between(self, first: int, last: int) -> tuple[str, ...]:
        """Names first .. last-1."""
        span = self.text[self._starts[first] : self._starts[last]]
        return tuple(span.tobytes().decode("utf-8", "surrogatepass").split("\0")[:-1])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for first in range(0, self._count, _BATCH_NAMES):
            yield from self._between(first, min(first + _BATCH_NAMES, self._count))

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...

    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if not isinstance(place, slice):
            first = range(self._count)[place]
            return self._between(first, first + 1)[0]
        places = range(self._count)[place]
        if places.step == 1:
            return self._between(places.start, max(places.start, places.stop))
        return tuple(self[one] for one in places)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyNames):
            return np.array_equal(self.text, other.text)
        return isinstance(other, tuple) and len(self) == len(other) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))


def batches(names: Iterable[str]) -> Iterator[list[str]]:
    """Lists of up to 8,192 names."""
    rest = iter(names)
    while batch := list(islice(rest, _BATCH_NAMES)):
        yield batch
