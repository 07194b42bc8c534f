"""A round for those who take part in it: its context, what the server sends, and what it receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints, freeze


@dataclass(frozen=True, kw_only=True, eq=False)
class WireMessages:
    """Messages after the wire stage: plain ones, or encoded ones with their sum.

    Attributes:
        messages: plain, float64 (C, P), or in the number format in which they were sent where nothing acts on
            the wire; or encoded (and masked) integers modulo 2^bits, uint64 (C, P), zero
            in the rows of clients that sent nothing, and in all rows where the context says `sums_only`.
        survivors: whether a message entered the aggregate, bool (C,); all False in an aborted round.
        total: sum of the survivors' encodings of counts times messages, modulo 2^bits, uint64 (P,); None if
            messages are plain, if the round was aborted, or if there is no such sum.
        sum: the decoded `total`, float64 (P,).
        second_total: the same sum over `context.reopened` alone, if clients answered a second request; None
            if there was none or they refused.
        aborted: the reason why an encoded round gave no sum; else empty.
        costs: metrics of the round by name, e.g. bytes that a client sent; the same in every run.

    Raises:
        UsageError: inconsistent shapes or types.
    """

    messages: Floats | NDArray[np.float32] | NDArray[np.uint64]
    survivors: Bools
    total: NDArray[np.uint64] | None = None
    sum: Floats | None = None
    second_total: NDArray[np.uint64] | None = None
    aborted: str = ""
    costs: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.messages.ndim != 2 or self.survivors.shape != self.messages.shape[:1]:
            raise UsageError(
                f"wire: messages of shape {self.messages.shape} with survivors of shape "
                f"{self.survivors.shape}; expected (C, P) and (C,)"
            )
        if (self.total is None) != (self.sum is None) or (self.total is not None and not self.is_encoded):
            raise UsageError("wire: expected both total and sum, with encoded messages, or neither")

    @property
    def is_encoded(self) -> bool:
        return self.messages.dtype == np.uint64


_OF_RECEIPT: Final = {"received": np.float64, "contrast": np.bool_, "reopened": np.bool_}
"""What each client received, with its type; None of an honest server."""

_OF_CONTEXT: Final[Mapping[str, Any]] = {
    "clients": np.int64,
    "counts": np.int64,
    "parameters": np.float64,
    "server_update": np.float64,
    **_OF_RECEIPT,
}
"""The arrays of a context, with their types."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundContext:
    """The round in which a defense acts. Plug-ins must take n from `shares`, not from an array's length.

    Attributes:
        round: round number, from 0.
        shares: number n of clients whose noise shares are expected to arrive.
        clients: ids of the clients present, int64 (C,). For a single attacked client `shares` is still n.
        counts: interactions behind each client's message, int64 (C,).
        parameters: the global model at the start of the round, float64 (P,).
        source: the experiment's random streams.
        contrast: whether the documents that each client received differ in features, bool (C,); None: all do,
            and before the wire stage.
        manipulated: whether clients train on other features than those they rank by; False before the wire
            stage.
        received: the model that each client received, float64 (C, P); None if all received `parameters`, and
            before the wire stage, where these are what the client received.
        reopened: the clients over whose messages the server asks for a second sum, bool (C,); None if it asks
            for one sum only, and before the wire stage.
        server_update: what the server learnt from labelled queries of its own, float64 (P,); None of a server
            without any, and before messages are aggregated.
        separation: rounds from one in which a client takes part to its next one, at least.
        message: what clients send, a model or an update of the global one.
        number_format: how the numbers of a message are sent.
        sums_only: whether nobody looks at single messages that the wire stage encodes; they may then be zero.
            False before the wire stage.
        prefix: names the link of the chain that acts; part of the name of every stream.
    """

    round: int
    shares: int
    clients: Ints
    counts: Ints
    parameters: Floats
    source: Streams
    separation: int = 1
    message: Literal["model", "update"] = "model"
    number_format: Literal["float32", "float64"] = "float32"
    sums_only: bool = False
    prefix: str = ""
    manipulated: bool = False
    received: Floats | None = None
    contrast: Bools | None = None
    reopened: Bools | None = None
    server_update: Floats | None = None

    def __post_init__(self) -> None:
        freeze(self, **_OF_CONTEXT)

    def having(self, **changes: Any) -> RoundContext:
        """The same round with other values, as `dataclasses.replace` makes it, but in a fifth of the time.

        Each round has about eight contexts, and arrays that stay need no second look.
        """
        if unknown := changes.keys() - vars(self).keys():
            raise TypeError(f"a round context has no {min(unknown)}")
        made = object.__new__(RoundContext)
        vars(made).update(vars(self), **changes)
        freeze(made, **{name: dtype for name, dtype in _OF_CONTEXT.items() if name in changes})
        return made

    def at(self, rows: Ints) -> RoundContext:
        """The same round with only the clients in `rows`."""
        given = {name: getattr(self, name) for name in _OF_RECEIPT}
        receipt = {name: values[rows] for name, values in given.items() if values is not None}
        return self.having(clients=self.clients[rows], counts=self.counts[rows], **receipt)

    def streams(self, purpose: str) -> ClientStreams:
        """One random stream per client for a purpose, e.g. `"defense/gamma-laplace"`."""
        return self.source.clients(self.prefix + purpose, self.round, self.clients)

    def server_stream(self, purpose: str, round_: int) -> ClientStreams:
        """The one random stream of the server for a purpose, in this round or any other."""
        return self.source.clients(f"{self.prefix}server/{purpose}", round_, np.zeros(1, dtype=np.int64))


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


LARGEST_SENT: Final = 1e6
"""The largest number of a model that a server sends to some clients alone.

Next to far larger numbers the noise that clients add is lost in rounding, also in float64, so that their
updates would not hold what a proof counts on.
"""


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
        freeze(self, reopened=np.bool_)

    @classmethod
    def all_but_one(cls, context: RoundContext, parameters: Floats, *, contrast: bool = True) -> Broadcast:
        """The global model for a target that is drawn at random, and `parameters` (P,) for all others.

        `contrast`: whether the documents that these receive have their own features.
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
        """The global model for all, in a cohort of which some clients are the server's own.

        Which places are theirs is drawn at random.
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

    def checked(self, context: RoundContext) -> Broadcast:
        """This, if every model in it is the global one or within `LARGEST_SENT`.

        Raises:
            UsageError: one is not.
        """
        largest = max(LARGEST_SENT, float(np.abs(context.parameters).max(initial=0.0)))
        if not all(np.abs(one.parameters).max(initial=0.0) <= largest for one in self.deliveries):
            raise UsageError(
                f"broadcast: a model with a number not within +-{largest:g}, next to which noise is lost; "
                "expected smaller ones"
            )
        return self

    @property
    def received(self) -> Floats:
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
