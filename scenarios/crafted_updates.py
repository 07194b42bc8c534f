"""Malicious clients that agree on updates, which they make from those of the honest clients of the round.

They add no noise of their own, so that a proof of the sum counts on the noise of the honest clients alone.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Poisoning, RoundContext
from foltr_audit.utils.arrays import Bools, Floats


class LittleIsEnough(Poisoning):
    """All malicious clients send mean - z std of the honest updates, coordinate by coordinate.

    With n clients in a round and m malicious ones, z is the quantile of the standard normal distribution at
    (n - m - s) / (n - m) with s = floor(n / 2 + 1) - m, the honest clients that must look more unusual. With
    few malicious clients z is negative. s is at least 1 and at most n - m - 1, so that z is finite. `z` sets
    it instead.

    Source: Baruch, Baruch & Goldberg 2019, "A little is enough: circumventing defenses for distributed
    learning", section 3 and algorithm 3; here malicious clients know the honest updates.

    Example:
        >>> LittleIsEnough(share=0.3).text
        'lie:share=0.3'
    """

    name: ClassVar[str] = "lie"

    z: float | None = Field(None, description="standard deviations from the mean; default: by the cohort")

    def on_updates(self, updates: Floats, malicious: Bools, context: RoundContext) -> Floats:
        honest = self.honest(updates, malicious)
        z = self._largest(malicious.size, int(malicious.sum())) if self.z is None else self.z
        return self.replaced(updates, malicious, honest.mean(axis=0) - z * honest.std(axis=0))

    def _largest(self, n: int, m: int) -> float:
        from scipy.special import ndtri

        honest = n - m
        if honest < 2:
            return 0.0
        s = min(max(n // 2 + 1 - m, 1), honest - 1)
        return float(ndtri((honest - s) / honest))


class _FarthestUpdate(Poisoning):
    """All malicious clients send mean - gamma std of the honest updates with the largest allowed gamma."""

    def on_updates(self, updates: Floats, malicious: Bools, context: RoundContext) -> Floats:
        """See `Poisoning`; where all honest updates are equal, malicious clients send the same."""
        honest = self.honest(updates, malicious)
        mean, direction = honest.mean(axis=0), -honest.std(axis=0)
        if not direction.any():
            return self.replaced(updates, malicious, mean)
        gamma = self._gamma(mean - honest, direction, _squared_distances(honest))
        return self.replaced(updates, malicious, mean + gamma * direction)

    def _gamma(self, away: Floats, direction: Floats, distances: Floats) -> float:
        """The largest gamma, with the mean's differences (N, P) from and squared distances (N, N) of them."""
        raise NotImplementedError


class MinMax(_FarthestUpdate):
    """All malicious clients send mean - gamma std of the honest updates, no farther than honest ones are.

    gamma is the largest number for which the distance to every honest update is at most the largest distance
    between two of them. It is the smallest root of one quadratic equation for each honest update; the source
    searches it in halved steps.

    Source: Shejwalkar & Houmansadr 2021, "Manipulating the Byzantine: optimizing model poisoning attacks and
    defenses for federated learning", section IV, AGR-agnostic attacks, with the inverse standard deviation.

    Example:
        >>> MinMax(share=0.3).text
        'min-max:share=0.3'
    """

    name: ClassVar[str] = "min-max"

    def _gamma(self, away: Floats, direction: Floats, distances: Floats) -> float:
        # |away + gamma direction|^2 <= bound, for each honest update.
        a, b = float((direction**2).sum()), (away * direction).sum(axis=1)
        c = (away**2).sum(axis=1) - distances.max()
        return max(0.0, float(((np.sqrt(np.maximum(b**2 - a * c, 0)) - b) / a).min()))


class MinSum(_FarthestUpdate):
    """All malicious clients send mean - gamma std of the honest updates, as central as honest ones are.

    gamma is the largest number for which the sum of the squared distances to the honest updates is at most
    that of an honest update, the largest one. It has a closed form; the source searches it in halved steps.

    Source: as `min-max`.

    Example:
        >>> MinSum(share=0.3).text
        'min-sum:share=0.3'
    """

    name: ClassVar[str] = "min-sum"

    def _gamma(self, away: Floats, direction: Floats, distances: Floats) -> float:
        # The differences from the mean add up to 0, so the equation has no linear term.
        room = distances.sum(axis=1).max() - (away**2).sum()
        return float(np.sqrt(max(room, 0.0) / (len(away) * (direction**2).sum())))


class FangTrimmedMean(Poisoning):
    """Malicious clients push each coordinate against the mean of the honest updates, beyond all of them.

    Where the mean is positive they send less than the smallest honest number, else more than the largest one:
    that number times or divided by a factor, whichever lies beyond. The factor is drawn uniformly from (1, 2)
    for each client and coordinate.

    Source: Fang, Cao, Jia & Gong 2020, "Local model poisoning attacks to Byzantine-robust federated
    learning", section 4.3, the attack on trimmed mean and median with full knowledge; here on updates in
    place of models.

    Example:
        >>> FangTrimmedMean(share=0.3).text
        'fang:share=0.3'
    """

    name: ClassVar[str] = "fang"

    def on_updates(self, updates: Floats, malicious: Bools, context: RoundContext) -> Floats:
        honest = self.honest(updates, malicious)
        here = context.at(np.flatnonzero(malicious))
        factor = 1 + here.streams(f"poisoning/{self.name}").uniform(updates.shape[1])
        down = honest.mean(axis=0) > 0
        bound = np.where(down, honest.min(axis=0), honest.max(axis=0))
        # Down from a positive number, and up from a negative one, leads towards zero.
        sent = np.where(down == (bound > 0), bound / factor, bound * factor)
        return self.replaced(updates, malicious, sent)


def _squared_distances(updates: Floats) -> Floats:
    """The squared L2 distance of every two updates, (N, N)."""
    return np.stack([((updates - one) ** 2).sum(axis=1) for one in updates])
