"""No defense: messages travel as they are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.plugins import MessageDefense, PrivacyEvent, RoundContext


class NoDefense(MessageDefense):
    """Sends the local model unchanged.

    Guarantees: nothing, for any relation, unit or view.
    """

    name: ClassVar[str] = "none"

    def apply(self, models: NDArray[np.float64], context: RoundContext) -> NDArray[np.float64]:
        """The models as they are, float64 (C, P)."""
        del context
        return models.copy()

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Nothing happens to a message."""
        del context
        return ()
