"""What the server receives when a cohort sends messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats


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
        """Whether messages are encoded as integers."""
        return self.messages.dtype == np.uint64
