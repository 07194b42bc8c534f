"""The settings of an audit of any function: the claim, and how it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from foltr_audit.core.settings.base import Flag, SpecTable
from foltr_audit.core.settings.plain_table import validated

FUNCTION_TRIALS = 10_000


class FunctionAuditSpec(SpecTable):
    """The settings of an audit of one function on one pair of neighbouring inputs.

    Besides the `trials`, half of that number are learned from, and a quarter choose score and threshold.
    """

    eps: Annotated[float | None, Flag(default="none, and the lower bound alone is shown")] = Field(
        None, gt=0, description="Epsilon that is claimed."
    )
    delta: float = Field(0.0, ge=0, lt=1, description="Delta of the claim.")
    trials: int = Field(
        FUNCTION_TRIALS, ge=100, le=10_000_000, description="Evaluated trials with each of the two inputs."
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Confidence of the lower bound.")
    estimator: str = Field(
        "one-run",
        min_length=1,
        description="one-run, clopper-pearson or betting; for normal noise gaussian-dp or one-run-fdp.",
    )
    seed: int = Field(1, ge=0, lt=2**63, description="Seed of the random generators of all trials.")

    @property
    def learning(self) -> int:
        """Trials with each input that scores are learned from."""
        return self.trials // 2

    @property
    def choosing(self) -> int:
        """Trials with each input that choose score and threshold."""
        return max(60, self.trials // 4)

    @property
    def calls(self) -> int:
        """All trials with each input."""
        return self.learning + self.choosing + self.trials

    @classmethod
    def parse(
        cls, table: Mapping[str, object], where: str = "", names: Mapping[str, str] | None = None
    ) -> FunctionAuditSpec:
        """The settings of a plain table.

        In messages `where` names the source of the table (empty if it is obvious), and `names` the options
        that set its fields.

        Raises:
            UsageError: an unknown field or a refused value.
        """
        return validated(cls, table, f"{where}: " if where else "", names)
