"""What one round of secure aggregation comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Stage = Literal["shares", "masked", "unmask"]


@dataclass(frozen=True, kw_only=True)
class AggregationAbort:
    """Why a round gave no sum.

    Attributes:
        stage: where it ended: `shares` (too few shared keys), `masked` (too few sent a masked message)
            or `unmask` (somebody's secret is out of reach, or the survivors fall apart into groups).
        reason: in words.
        have: how many there were.
        needed: how many it takes; for groups at most.
        client: whose secret could not be recovered, if that is why.
    """

    stage: Stage
    reason: str
    have: int
    needed: int
    client: int | None = None

    @property
    def text(self) -> str:
        """One line, e.g. `masked: 3 clients sent a masked message, 5 needed`."""
        return f"{self.stage}: {self.reason}"


@dataclass(frozen=True, kw_only=True, eq=False)
class SecureSumResult:
    """What the server of one round has in the end.

    Attributes:
        payload: masked messages modulo 2^bits, uint64 (C, P); rows of clients that sent none are zero.
        survivors: who sent a masked message, bool (C,).
        total: sum of the weighted encodings of the survivors modulo 2^bits, uint64 (P,); None if aborted.
        sum: the same as numbers, float64 (P,): counts times values, summed; None if aborted.
        aborted: why there is no sum, or None.
        neighbours: of each client in the graph.
        shares_needed: Shamir threshold t of every secret.
        at_least: fewest messages that a sum may hold.
        sent: bytes that each client sent in each stage of `STAGES`, int64 (C, 4).
    """

    payload: NDArray[np.uint64]
    survivors: NDArray[np.bool_]
    total: NDArray[np.uint64] | None
    sum: NDArray[np.float64] | None
    aborted: AggregationAbort | None
    neighbours: int
    shares_needed: int
    at_least: int
    sent: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("payload", "survivors", "total", "sum", "sent"):
            array = getattr(self, name)
            if array is not None:
                frozen = array.view()
                frozen.flags.writeable = False
                object.__setattr__(self, name, frozen)
