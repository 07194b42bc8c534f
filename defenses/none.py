"""No defense: messages are sent unchanged."""

from __future__ import annotations

from typing import ClassVar

from foltr_audit.plugins import MessageDefense, PrivacyEvent, RoundContext
from foltr_audit.utils.arrays import Floats


class NoDefense(MessageDefense):
    """Sends the local model unchanged.

    Guarantees: nothing, for any relation, unit or view.
    """

    name: ClassVar[str] = "none"

    def apply(self, models: Floats, context: RoundContext) -> Floats:
        """A copy of the models, float64 (C, P)."""
        return models.copy()

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """No events."""
        return ()
