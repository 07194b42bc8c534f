"""Randomised response on online metrics: an interaction's value is replaced with a known probability."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field, model_validator

from foltr_audit.errors import PluginError
from foltr_audit.plugins import Defense, PrivacyClaim, PrivacyEvent, RoundContext
from foltr_audit.privacy.events import MetricRandomization
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.utils.arrays import Floats, Ints

_MAXRR_VALUES = 11  # for lists of ten: no click, or a first click at one of ten ranks


class MetricRR(Defense):
    """Reports an interaction's metric as it is with probability p, else one of its other v - 1 values.

    Guarantees: eps-DP with `eps = |ln(p (v - 1) / (1 - p))|` for all clicks of one interaction (unit
    interaction, replace-one), for a server that sees each message, and so for all other observers. Query and
    list are not protected. A message of B interactions gets B eps. There is no guarantee for p = 1.

    With `eps`, p follows from the number of values v of the learner's metric. With `p`, the epsilon depends
    on v, which is then a parameter: 11 (MaxRR of lists of ten) if left out.

    Source: Warner 1965, "Randomized response: a survey technique for eliminating evasive answer bias";
    Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4.3.
    """

    name: ClassVar[str] = "metric-rr"

    p: float | None = Field(default=None, ge=1e-9, le=1, description="probability of the true value")
    eps: float | None = Field(default=None, gt=0, le=20, description="epsilon of one value, instead of p")
    values: int | None = Field(
        default=None,
        ge=2,
        le=1_000_000,
        description="number of metric values v that p applies to; 11 if left out",
    )

    @model_validator(mode="after")
    def _one_is_given(self) -> MetricRR:
        if (self.p is None) == (self.eps is None):
            raise ValueError("expected either p or eps")
        if self.p is not None and 1 - 1e-9 < self.p < 1:
            raise ValueError(f"p={self.p}; expected 1, or at most 1 - 1e-9")
        if self.eps is not None and self.values is not None:
            raise ValueError("values is used only with p; expected p and values, or eps alone")
        return self

    @property
    def epsilon(self) -> float:
        """The epsilon of one interaction; infinite for p = 1."""
        if self.p is None:
            return self.eps or 0.0
        return RandomizedResponse(self.p, self.values or _MAXRR_VALUES).epsilon

    def response(self, values: int) -> RandomizedResponse:
        """The law for a metric of v values.

        Raises:
            PluginError: p is for another number of values.
        """
        if self.p is None:
            return RandomizedResponse.with_epsilon(self.epsilon, values)
        own = self.values or _MAXRR_VALUES
        if values != own:
            raise PluginError(
                f"defense {self.name}: p={self.p:g} is for {own} values, and the metric has {values}; "
                f"expected values={values}, or eps instead of p"
            )
        return RandomizedResponse(self.p, values)

    def channel(self, values: int) -> Floats:
        """P(reported | true), float64 (v, v), one row for each true outcome.

        Raises:
            PluginError: p is for another number of values.
        """
        return self.response(values).matrix

    def law_text(self, values: int) -> str:
        """The law for a metric of v values, e.g. `metric-rr:p=0.25`.

        Raises:
            PluginError: p is for another number of values.
        """
        return self.response(values).text

    def on_metric(self, outcomes: Ints, values: Floats, step: int, context: RoundContext) -> Ints:
        """Reported outcomes, int64 (C,).

        Of a client's random numbers, number 2 step decides whether the true value is reported, and number
        2 step + 1 which other value is.

        Raises:
            PluginError: p is for another number of values.
        """
        p, others = self.response(values.size).p, values.size - 1
        u = context.streams(self.name).uniform(2, first=2 * step)
        # For a number just below 1 the product may round up to `others`, one past the last value.
        other = np.minimum((u[:, 1] * others).astype(np.int64), others - 1)
        return np.where(u[:, 0] < p, outcomes, other + (other >= outcomes))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (MetricRandomization(epsilon=self.epsilon),)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """Eps for one interaction and a server that sees each message; none for p = 1."""
        if self.p == 1:
            return ()
        return self.claims_for(["individual"], "interaction", self.epsilon)
