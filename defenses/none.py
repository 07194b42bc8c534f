"""No defense: messages are sent unchanged."""

from __future__ import annotations

from typing import ClassVar

from foltr_audit.plugins import Defense, PrivacyEvent, RoundContext


class NoDefense(Defense):
    """Sends the local model unchanged.

    It overrides no hook, so it acts in no stage and fits every learner. A Spec without a defense has the
    chain `none`, which comparisons use as the reference.

    Guarantees: nothing, for any relation, unit or view.
    """

    name: ClassVar[str] = "none"

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """No events.

        By default a defense without a law counts as an unknown change.
        """
        return ()
