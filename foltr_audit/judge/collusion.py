"""Sums of rounds in which some clients tell the server what they sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.records.interactions import GlobalModel, RoundRecord, RoundTruth
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Ints


@dataclass(frozen=True, eq=False)
class HonestRounds:
    """The rounds of a store, in whose sums only the messages of honest clients count.

    The sum of a round minus what colluding clients sent is the sum over the others, with their noise alone.
    With all but one of a round's clients colluding it is one message.

    Attributes:
        source: the recorded rounds.
        colluders: the colluding clients, int64 (K,).
    """

    source: RoundStore
    colluders: Ints

    @property
    def header(self) -> TraceHeader:
        """The header of the source."""
        return self.source.header

    @property
    def has_truth(self) -> bool:
        """Whether the truth can be read."""
        return self.source.has_truth

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the source."""
        return self.source.n_rounds

    def rounds(self) -> Iterator[RoundRecord]:
        """The rounds, in order; messages of colluding clients do not count as survivors."""
        for record, truth in zip(self.source.rounds(), self.source.truths(), strict=True):
            honest = ~np.isin(truth.clients, self.colluders)
            yield replace(record, survivors=record.survivors & honest)

    def truths(self) -> Iterator[RoundTruth]:
        """The truth of the source."""
        return self.source.truths()

    def metrics(self) -> list[dict[str, float]]:
        """The utility of each round of the source."""
        return self.source.metrics()

    def last_model(self) -> GlobalModel:
        """The server's state after the last round."""
        return self.source.last_model()


def without_colluders(store: RoundStore, colluders: int | None, streams: Streams) -> RoundStore:
    """The rounds of a store in whose sums some clients do not count; itself without any.

    They are drawn from all that send; more colluders keep those that fewer have.

    Raises:
        UsageError: as many colluders as clients, masked messages, or no truth that says whose they are.
    """
    if not colluders:
        return store
    if store.header.kind == "masked":
        raise UsageError(
            "--colluders: messages are masked, so that what colluders sent is not recorded; expected a chain "
            "without secure-aggregation, whose sums --view aggregate stands for"
        )
    if not store.has_truth:
        raise UsageError("--colluders: the trace holds no truth; expected one that says who sent a message")
    clients = np.unique(np.concatenate([truth.clients for truth in store.truths()]))
    if colluders >= clients.size:
        most = f"expected at most {clients.size - 1}"
        raise UsageError(f"--colluders: {colluders} of {clients.size} clients that send; {most}")
    order = np.argsort(
        streams.clients("colluders", 0, clients.astype(np.int64)).uniform(1)[:, 0], kind="stable"
    )
    return HonestRounds(store, clients[order[:colluders]])
