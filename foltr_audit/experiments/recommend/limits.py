"""The limits that a recommended defense must keep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from foltr_audit.core.settings.defaults import DELTA, VIEW
from foltr_audit.errors import UsageError
from foltr_audit.privacy.observer_views import without_lists
from foltr_audit.utils.rows import ResultRow

LEAST_EPS = 1e-4
"""The smallest limit on epsilon."""

ROUNDING = 1.0 + 1e-9
"""How many times its target a bound may be, as in `auditing.noise_for_target`."""


@dataclass(frozen=True, kw_only=True)
class PrivacyLimits(ResultRow):
    """Limits on what one observer may learn.

    Attributes:
        max_eps: the largest proven epsilon of one message for one interaction; infinite for no limit.
        max_auc: the largest upper end of the best attack's 95 % interval of AUC; None for no limit.
        max_proven_auc: the largest AUC that the proof of one interaction leaves to any attack on a click;
            None for no limit.
        view: `individual`, a server that sees what each client sends, which is the sum under secure
            aggregation; `aggregate`, one that gets only sums, which something outside of the chain computes.
            With `+lists` the epsilon must also hold for a server that sees the shown lists; attacks always
            see them.
        delta: of an epsilon that is not pure.

    Raises:
        UsageError: a value out of range, or a limit on attacks where no attack can be.
    """

    max_eps: float = math.inf
    max_auc: float | None = None
    max_proven_auc: float | None = None
    view: Literal["individual", "individual+lists", "aggregate", "aggregate+lists"] = VIEW
    delta: float = DELTA

    def __post_init__(self) -> None:
        if not self.max_eps >= LEAST_EPS:
            raise UsageError(f"--max-eps: {self.max_eps:g}; expected at least {LEAST_EPS:g}, or inf")
        if self.max_auc is not None and not 0 < self.max_auc <= 1:
            raise UsageError(f"--max-attack-auc: {self.max_auc:g}; expected above 0, at most 1")
        if self.max_proven_auc is not None and not 0.5 < self.max_proven_auc < 1:
            raise UsageError(f"--max-proven-auc: {self.max_proven_auc:g}; expected above 0.5, below 1")
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta: {self.delta:g}; expected between 0 and 1")
        if without_lists(self.view) not in ("individual", "aggregate"):
            raise UsageError(f"--view: {self.view!r}; expected individual or aggregate, each also +lists")
        if not self.single and self.max_auc is not None:
            raise UsageError(
                f"--max-attack-auc: attacks read single messages, and --view {self.view} grants none; "
                "expected none, or --view individual"
            )

    @classmethod
    def given(
        cls,
        *,
        max_eps: float | None,
        max_attack_auc: float | None,
        max_proven_auc: float | None,
        view: Literal["individual", "individual+lists", "aggregate", "aggregate+lists"],
        delta: float,
    ) -> PrivacyLimits:
        """The limits that a command or a call names; None for no limit.

        Raises:
            UsageError: no limit on what is proven, or as the class.
        """
        if max_eps is None and max_proven_auc is None:
            raise UsageError("--max-eps: missing; expected it, --max-proven-auc, or both")
        return cls(
            max_eps=math.inf if max_eps is None else max_eps,
            max_auc=max_attack_auc,
            max_proven_auc=max_proven_auc,
            view=view,
            delta=delta,
        )

    @property
    def single(self) -> bool:
        """Whether the observer sees what single clients send."""
        return without_lists(self.view) == "individual"

    def proves(self, epsilon: float) -> bool:
        """Whether a proven epsilon is within the limit."""
        return epsilon <= self.max_eps * ROUNDING

    def promises(self, auc: float) -> bool:
        """Whether an AUC that a proof leaves to attacks is within the limit."""
        return self.max_proven_auc is None or auc <= self.max_proven_auc * ROUNDING

    def excess(self, auc_upper: float | None) -> float:
        """By how much the upper end of an attack's interval exceeds the limit; at most 0 within it.

        Where attacks are limited and none could run, this is 1, the largest excess: nothing is known.
        """
        if self.max_auc is None:
            return -1.0
        if auc_upper is None or math.isnan(auc_upper):
            return 1.0
        return auc_upper - self.max_auc
