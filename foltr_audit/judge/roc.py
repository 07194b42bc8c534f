"""The ROC curve of scores over pooled items: its area, and its low end."""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import numpy as np

from foltr_audit.judge.bootstrap import BootstrapDistribution, QueryBootstrap, ResampledMetric
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.rows import Estimate

FALSE_POSITIVES = {"tpr_at_1": 100, "tpr_at_01": 1000}
"""The false positive rates at which true positives are reported, one in N: 1 % and 0.1 %."""

_ENOUGH = 2  # false positives that a level must allow for an interval; see `true_positives`


class ScoreRanking(NamedTuple):
    """D scored items in rising order of score.

    Attributes:
        positive: the truth, bool (D,).
        tie: number of the distinct score, int64 (D,).
        cluster: number of the query that an item belongs to, int64 (D,).
    """

    positive: Bools
    tie: Ints
    cluster: Ints

    @classmethod
    def of(cls, scores: Floats, positive: Bools, cluster: Ints) -> ScoreRanking:
        """Items (D,) in order; scores may be infinite, but not NaN."""
        order = np.argsort(scores, kind="stable")
        ranked = scores[order]
        # Cut to the number of items: without any, the leading False would be one too many.
        tie = np.cumsum(np.concatenate([[False], ranked[1:] != ranked[:-1]])[: ranked.size])
        return cls(positive[order], tie, np.ascontiguousarray(cluster[order]))

    def auc(self, resamples: QueryBootstrap) -> Estimate:
        """Area under the ROC curve, ties one half; NaN where one class is missing.

        Its interval is that of a share of as many trials as there are queries with a positive item, or with a
        negative one if these are fewer: the variance of an AUC a is at most a (1 - a) over the number of the
        rarer items (Birnbaum & Klose 1957, "Bounds for the variance of the Mann-Whitney statistic").
        """
        return self.areas(resamples).score

    def areas(self, resamples: QueryBootstrap) -> BootstrapDistribution:
        """As `auc`, with the area of every resample."""
        from foltr_audit.kernels.auc import weighted_auc

        def area(weights: Ints) -> Floats:
            return weighted_auc(self.positive, self.tie, self.cluster, weights)

        def resample() -> ResampledMetric:
            speak = min(self._queries(which) for which in (self.positive, ~self.positive))
            return ResampledMetric(area(resamples.weights), speak)

        return BootstrapDistribution(float(area(resamples.everybody)[0]), resample, share=True)

    def true_positives(self, resamples: QueryBootstrap) -> dict[str, Estimate]:
        """The largest TPR whose FPR does not exceed each of `FALSE_POSITIVES`.

        Items of equal score are named together or not at all, since no threshold separates them. With N
        unclicked items the FPR moves in steps of 1/N: with fewer than 100 (1,000) of them, it is the TPR
        before the first false positive (Carlini et al. 2022, "Membership inference attacks from first
        principles", section III, on why to look there). There is no interval where a level allows fewer than
        two false positives, since resampling then understates the uncertainty (in simulations 95 % intervals
        covered the truth 38 to 93 times in 100, otherwise 92 to 97 times).
        """
        rates, allowed = self._rates(resamples.everybody)
        resampled = cache(lambda: self._rates(resamples.weights)[0])

        def resample(level: int) -> ResampledMetric:
            return ResampledMetric(resampled()[:, level], self._queries(self.positive))

        found = {}
        for level, name in enumerate(FALSE_POSITIVES):
            value, enough = float(rates[0, level]), allowed[0, level] >= _ENOUGH
            share = BootstrapDistribution(value, partial(resample, level), share=True)
            found[name] = share.score if enough else Estimate(value)
        return found

    def _rates(self, weights: Ints) -> tuple[Floats, Ints]:
        """The TPR at each level under each row of weights (R, Q), and the allowed false positives."""
        from foltr_audit.kernels.auc import weighted_hits

        clicked, unclicked = (self._totals(weights, which) for which in (self.positive, ~self.positive))
        allowed = unclicked[:, np.newaxis] // np.array(list(FALSE_POSITIVES.values()))
        hits = weighted_hits(self.positive, self.tie, self.cluster, weights, allowed).astype(np.float64)
        both = ((clicked > 0) & (unclicked > 0))[:, np.newaxis]
        rates = np.divide(hits, clicked[:, np.newaxis], out=np.full_like(hits, np.nan), where=both)
        return rates, allowed

    def _queries(self, which: Bools) -> int:
        """How many queries some items belong to."""
        return int(np.unique(self.cluster[which]).size)

    def _totals(self, weights: Ints, which: Bools) -> Ints:
        """How many of some items each resample holds, int64 (R,)."""
        counts = np.bincount(self.cluster[which], minlength=weights.shape[1])
        totals: Ints = np.einsum("bq,q->b", weights, counts)
        return totals
