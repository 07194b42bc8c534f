"""The result of one round of secure aggregation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.utils.arrays import Bools, Floats, Ints

Stage = Literal["shares", "masked", "unmask"]


@dataclass(frozen=True, kw_only=True)
class AggregationAbort:
    """Why a round gave no sum.

    Attributes:
        stage: where it ended: `shares` (too few shared keys), `masked` (too few sent a masked message)
            or `unmask` (a secret cannot be recovered, or the survivors form several groups).
        reason: in words.
        have: the number that was too small; of groups, too large.
        needed: the smallest number that suffices; of groups, the largest.
        client: whose secret could not be recovered, if that is the reason.
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


@dataclass(frozen=True, kw_only=True)
class SecureSumParameters:
    """The parameters of a cohort's round.

    Attributes:
        clients: in the cohort, C.
        neighbours: of each client.
        shares_needed: Shamir threshold t of every secret, at least 1.
        at_least: fewest messages that a sum may hold, at least 2.
    """

    clients: int
    neighbours: int
    shares_needed: int
    at_least: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SecureSumResult:
    """What the server has after one round.

    Attributes:
        payload: masked messages modulo 2^bits, uint64 (C, P); rows of clients that sent none are zero, and
            all are where only the sum was asked for.
        survivors: who sent a masked message, bool (C,).
        total: sum of the weighted encodings of the survivors modulo 2^bits, uint64 (P,); None if aborted.
        sum: the same as numbers, float64 (P,): counts times values, summed; None if aborted.
        aborted: why there is no sum, or None.
        parameters: of the round.
        sent: bytes that each client sent in each stage of `STAGES`, int64 (C, 4).
    """

    payload: NDArray[np.uint64]
    survivors: Bools
    total: NDArray[np.uint64] | None
    sum: Floats | None
    aborted: AggregationAbort | None
    parameters: SecureSumParameters
    sent: Ints

    def __post_init__(self) -> None:
        for name in ("payload", "survivors", "total", "sum", "sent"):
            array = getattr(self, name)
            if array is not None:
                frozen = array.view()
                frozen.flags.writeable = False
                object.__setattr__(self, name, frozen)
