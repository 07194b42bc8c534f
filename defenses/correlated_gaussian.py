"""Gaussian noise on the sum of each round, correlated over the rounds of a run."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Calibration, Defense, PrivacyEvent, RoundContext
from foltr_audit.privacy.events import CorrelatedNoise
from foltr_audit.privacy.noise.gaussian import MOST_BANDS, CorrelatedGaussian
from foltr_audit.utils.arrays import Floats

_NOISE = CorrelatedGaussian()


class CorrelatedGaussianNoise(Defense):
    """The aggregator adds Gaussian noise to the sum of a round, and takes part of it back in later rounds.

    The noise of the rounds is `C^-1 z` with independent rows z of standard deviation sigma, so that the
    global model, which follows the running sum of the rounds, carries less noise than with independent
    noise. It needs a `--separation` of several rounds between two in which one client takes part; C then has
    as many bands. With one band the noise of each round is independent.

    Guarantees: (eps, delta)-DP for a whole run and client (so for every smaller unit), replace-one, for an
    observer of what the aggregator releases: the noisy sums of all rounds, and so all global models (view:
    aggregate). The eps follows from sigma, the clip, the rounds and the separation; who takes part must not
    depend on anybody's data. The aggregator itself is trusted: an enclave, or a server that is believed to
    add the noise. Nothing is proven against whoever sees the messages, or their sum before the noise, such as
    a server that runs `secure-aggregation` itself, or against one that colludes with clients, chooses them or
    sends them different things. One round alone
    proves at least what independent noise of sigma does. The noise is scaled by the largest weight of a
    message in the average, so that unequal weights and lost messages cost no privacy. Proven for real
    numbers; the average is rounded to float32 after the noise, which removes the last bits.

    `attack --view aggregate` reads sums without this noise: what the aggregator itself could read.

    Source: Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization: a unified approach to
    private training"; for sums that depend on earlier ones: Denisov et al. 2022, "Improved differential
    privacy for SGD via optimal private linear operators on adaptive streams", theorem 2.1.
    """

    name: ClassVar[str] = "correlated-gaussian"
    calibrated_by: ClassVar[Calibration] = Calibration(in_sum=True, released=True, needs_delta=True)
    works_on_sums: ClassVar[bool] = True

    sigma: float = Field(
        gt=0, le=1e300, description="standard deviation of the independent noise behind that of the sums"
    )
    bands: int | None = Field(
        default=None,
        ge=1,
        le=MOST_BANDS,
        description="rounds over which noise is correlated; those of --separation if left out",
    )

    def _bands(self, context: RoundContext) -> int:
        return self.bands or min(context.separation, MOST_BANDS)

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """The average plus the noise of this round times the largest weight, float64 (P,)."""
        noise = _NOISE.of_round(
            context.round,
            self.sigma,
            self._bands(context),
            aggregate.size,
            lambda round_: context.server_stream(self.name, round_),
        )
        largest = float(weights.max()) if weights.size else 1.0
        with np.errstate(over="ignore"):  # the server refuses a global model that is not finite
            return (aggregate + largest * noise).astype(np.float32).astype(np.float64)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (CorrelatedNoise(sigma=self.sigma, bands=self._bands(context)),)

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> Self:
        return cls(sigma=number)
