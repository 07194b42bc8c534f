"""What a server sends to the clients of a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.core.records.wire import WireMessages
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.frozen_arrays import freeze

TARGET: Final = "target"
"""The fact of a round that holds the place of the client whose update its server isolates."""

SUBTRACTED: Final = "subtracted"
"""The fact of a round that lists the places of clients whose messages its server can take out of the sum."""

SECOND_TOTAL: Final = "second_total"
"""The fact of a round that holds the sum of the subtracted clients' encodings, if the server opened it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery:
    """One global model, and documents, for some clients of a round.

    Attributes:
        rows: the clients' places in the cohort, rising, int64 (n,).
        parameters: the model that they receive, float64 (P,).
        contrast: whether documents have their own features; otherwise all documents have the same.
        own: whether the server runs these clients itself: they send no change and no noise.
    """

    rows: Ints
    parameters: Floats
    contrast: bool = True
    own: bool = False

    def __post_init__(self) -> None:
        freeze(self, rows=np.int64, parameters=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Broadcast:
    """What each client of a round receives from a server that singles clients out.

    Attributes:
        deliveries: one for every group of clients; each client of the cohort is in exactly one.
        target: place in the cohort of the client whose update is left alone in the sum; None without one.
        reopened: the clients over whose messages the server asks for a second sum, bool (C,); None if it asks
            for one sum only.

    Raises:
        UsageError: a client without a delivery or with several, or a target outside of the cohort.
    """

    deliveries: tuple[Delivery, ...]
    target: int | None = None
    reopened: Bools | None = None

    def __post_init__(self) -> None:
        places = np.sort(np.concatenate([one.rows for one in self.deliveries]))
        inside = self.target is None or 0 <= self.target < places.size
        if not np.array_equal(places, np.arange(places.size)) or not inside:
            raise UsageError("broadcast: expected one delivery for each client, and a target among them")
        if self.reopened is not None:
            freeze(self, reopened=np.bool_)

    @classmethod
    def all_but_one(cls, context: RoundContext, parameters: Floats, *, contrast: bool = True) -> Broadcast:
        """The global model for a target that is drawn at random, and other things for all other clients.

        Args:
            context: the round, with its cohort (C,).
            parameters: the model that the others receive, (P,).
            contrast: whether the documents that they receive have their own features.
        """
        target = _drawn_target(context)
        others = np.delete(np.arange(context.clients.size), target)
        return cls(
            deliveries=(
                Delivery(rows=np.array([target]), parameters=context.parameters),
                Delivery(rows=others, parameters=parameters, contrast=contrast),
            ),
            target=target,
        )

    @classmethod
    def with_own_clients(cls, context: RoundContext, own: int) -> Broadcast:
        """The global model for all, in a cohort of which some clients are the server's.

        Args:
            context: the round, with its cohort (C,).
            own: number of the server's clients. Which places are theirs is drawn at random.
        """
        size = context.clients.size
        tickets = context.server_stream("own clients", context.round).uniform(size)[0]
        order = np.argsort(tickets, kind="stable")
        groups = ((order[:own], True), (order[own:], False))
        return cls(
            deliveries=tuple(
                Delivery(rows=np.sort(rows), parameters=context.parameters, own=is_own)
                for rows, is_own in groups
                if rows.size
            )
        )

    @classmethod
    def opened_twice(cls, context: RoundContext) -> Broadcast:
        """The global model for all, and two sums: with and without a target that is drawn at random."""
        places = np.arange(context.clients.size)
        everybody = Delivery(rows=places, parameters=context.parameters)
        return cls(deliveries=(everybody,), reopened=places != _drawn_target(context))

    @property
    def received(self) -> Floats:
        """The model that each client receives, float64 (C, P)."""
        out = np.empty((self._size, self.deliveries[0].parameters.size))
        for one in self.deliveries:
            out[one.rows] = one.parameters
        return out

    @property
    def contrast(self) -> Bools:
        """Whether each client receives documents with their own features, bool (C,)."""
        out = np.empty(self._size, dtype=np.bool_)
        for one in self.deliveries:
            out[one.rows] = one.contrast
        return out

    @property
    def _size(self) -> int:
        return sum(one.rows.size for one in self.deliveries)

    def facts(self, wired: WireMessages) -> Mapping[str, object]:
        """What the server learns of the contents of the sum of a round, as facts of its record."""
        found: dict[str, object] = {} if self.target is None else {TARGET: self.target}
        own = [one.rows for one in self.deliveries if one.own]
        if own:
            found[SUBTRACTED] = _texts(np.sort(np.concatenate(own)))
        if self.reopened is None or (wired.is_encoded and wired.second_total is None):
            return found
        if wired.second_total is not None:
            found[SECOND_TOTAL] = _texts(wired.second_total)
        return {**found, SUBTRACTED: _texts(np.flatnonzero(self.reopened))}


def _drawn_target(context: RoundContext) -> int:
    """Place of a client of the cohort, drawn at random for each round."""
    draw = float(context.server_stream("target", context.round).uniform(1)[0, 0])
    return int(draw * context.clients.size)


def _texts(numbers: NDArray[np.integer]) -> list[str]:
    """Whole numbers as the texts that a fact of a trace may hold, which are exact at any size."""
    return [str(number) for number in numbers.tolist()]
