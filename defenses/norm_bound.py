"""Norm bounding: the server scales every update that it receives into a ball."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Defense, RoundContext
from foltr_audit.utils.arrays import Floats


class UpdateNormBound(Defense):
    """The server scales every update by min(1, norm / its L2 norm), then takes the weighted mean.

    Where clients send models, their updates are the models minus the global one. An update that is not
    finite, or too large to be scaled, becomes zeros.

    Guarantees: no privacy, for any relation, unit or view: the server has each message before it scales it.
    All bounds on sums are lost, as far as accounting goes; noise that a client added to its own message still
    protects it. No client moves the global model by more than `norm` times its weight. For privacy, let
    clients clip by `clip:of=update,at=message`.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Sun, Kairouz, Suresh & McMahan 2019, "Can you really backdoor federated learning?", section 4
    (norm thresholding of updates).
    """

    name: ClassVar[str] = "norm-bound"

    norm: float = Field(gt=0, description="radius R of the L2 ball of updates")

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """The weighted mean of the scaled messages, float64 (P,); without any message, the average."""
        from foltr_audit.kernels.messages import projected

        if not len(messages):
            return aggregate.copy()
        centre = context.parameters if context.message == "model" else np.zeros(aggregate.size)
        with np.errstate(over="ignore"):
            updates = np.subtract(messages, centre, dtype=np.float64)
        updates = projected(updates, self.norm, 2)
        return np.asarray(centre + (weights[:, np.newaxis] * updates).sum(axis=0))
