"""Audits of any function: a lower bound on its epsilon, from trials with two neighbouring inputs.

Scores of its outputs are learned on trials of their own; higher = more like those with input 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from foltr_audit.auditing.estimators import ESTIMATORS, FOR_NORMAL, TrialScores
from foltr_audit.auditing.evaluation import Pair, about_best, discriminant, every_bound, promised_bound, split
from foltr_audit.auditing.function_outputs import (
    FunctionOutputs,
    Mechanism,
    T,
    call_function,
    repeated_noise,
)
from foltr_audit.auditing.verdict import verdict_on
from foltr_audit.core.results import FunctionRecord, LowerBound
from foltr_audit.core.settings.audit import FunctionAuditSpec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.blas_threads import one_thread
from foltr_audit.utils.progress import SILENT, Progress

LINEAR_SCORES = ("projection", "discriminant")
"""Scores that are linear in the output, as `gaussian-dp` assumes."""

_RIDGE = 1e-9  # share of a squared difference that is added to a variance, to divide by it
_FARTHEST = 1e8  # in robust standard deviations; the square of what is farther could overflow
_MOST_CORRELATED = 500  # coordinates of a covariance
_MOST_COORDINATES = 8  # for nearest neighbours, which tell little in more dimensions, and take long
_LEVELS = 16
_MOST_LEARNED = 4000  # trials with each input among which neighbours are searched


def output_scores(outputs: FunctionOutputs, learning: int) -> dict[str, Pair]:
    """The scores (N,) of all trials by name, learned from the first `learning` trials with each input.

    - `projection`: onto the difference of the mean outputs, each coordinate in units of its variance.
    - `discriminant`: Fisher's, with the covariance of up to 500 coordinates.
    - `quadratic`: the log likelihood ratio of two normal laws with a mean and a variance for each coordinate,
      so that noise of different size is seen.
    - `neighbours`: which input the nearest learned outputs had, for up to 8 coordinates.
    - `frequency`: the log ratio of how often exactly this output occurred: for discrete outputs, and for
      noise that repeats.
    - `not finite`: the number of NaN and infinities in an output.

    In the first four, NaN and infinities count as the median.
    """
    seen = _standardised(outputs.numbers, learning)
    coordinates = seen.shape[2]
    scores = {"projection": _projection(seen, learning)}
    if 1 < coordinates <= _MOST_CORRELATED:
        scores["discriminant"] = discriminant(seen, learning)
    scores["quadratic"] = _quadratic(seen, learning)
    if coordinates <= _MOST_COORDINATES:
        scores["neighbours"] = _neighbours(seen, learning)
    size = 1 + int(outputs.codes.max())
    counts = [np.bincount(codes[:learning], minlength=size) for codes in outputs.codes]
    scores["frequency"] = (np.log(counts[1] + 0.5) - np.log(counts[0] + 0.5))[outputs.codes]
    scores["not finite"] = (~np.isfinite(outputs.numbers)).sum(axis=2).astype(np.float64)
    return scores


def in_levels(pair: Pair, trials: slice) -> Pair:
    """Scores in 16 levels, between quantiles of the scores of some trials with either input.

    All thresholds in a tail of a Laplace law show the same epsilon. Of many, the one that looks best by
    chance lies far out, where few evaluated trials are; of 15 none does.
    """
    edges = np.unique(np.quantile(pair[:, trials], np.arange(1, _LEVELS) / _LEVELS))
    return np.searchsorted(edges, pair, side="right").astype(np.float64)


def _standardised(numbers: Floats, learning: int) -> Floats:
    """Coordinates of (2, N, d) less their median, in units of their interquartile range or deviation."""
    learned = numbers[:, :learning].reshape(-1, numbers.shape[2])
    with np.errstate(invalid="ignore", over="ignore"):
        learned = np.where(np.isfinite(learned), learned, np.nan)
        learned[:, np.isnan(learned).all(axis=0)] = 0.0
        low, median, high = np.nanquantile(learned, [0.25, 0.5, 0.75], axis=0)
        spread = high - low
        spread = np.where(spread > 0, spread, np.nanstd(learned, axis=0))
        spread = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        centred = np.where(np.isfinite(numbers), numbers, median) - median
        return np.asarray(np.clip(centred / spread, -_FARTHEST, _FARTHEST))


def _projection(seen: Floats, learning: int) -> Pair:
    (first, second), variances = seen[:, :learning].mean(axis=1), seen[:, :learning].var(axis=1)
    shift = second - first
    variance = 0.5 * (variances[0] + variances[1]) + _RIDGE * shift * shift
    weights = np.divide(shift, variance, out=np.zeros_like(shift), where=variance > 0)
    # `einsum`, not BLAS: its sums have one order, whatever the number of threads.
    return np.stack([np.einsum("np,p->n", side, weights) for side in seen])


def _quadratic(seen: Floats, learning: int) -> Pair:
    means, variances = seen[:, :learning].mean(axis=1), seen[:, :learning].var(axis=1)
    ridge = _RIDGE * ((means[1] - means[0]) ** 2 + variances[0] + variances[1])
    known = ridge > 0
    widths = np.where(known, variances + ridge, 1.0)
    away = [(seen - mean) ** 2 / width for mean, width in zip(means, widths, strict=True)]
    terms = away[0] - away[1] - np.log(widths[1] / widths[0])
    return np.asarray(0.5 * np.where(known, terms, 0.0).sum(axis=2))


def _neighbours(seen: Floats, learning: int) -> Pair:
    """How many more of the k nearest learned outputs had input 1 than input 0.

    Coordinates are replaced by their ranks among the learned ones, and k is the root of the number of these.
    The scores of learned outputs are not used, and 0: each would count itself.

    Source: Fix & Hodges 1951, "Discriminatory analysis, nonparametric discrimination".
    """
    from scipy.spatial import KDTree

    learned = np.concatenate([*seen[:, : min(learning, _MOST_LEARNED)]])
    ordered = np.sort(learned, axis=0)

    def ranks(values: Floats) -> Floats:
        columns = [
            np.searchsorted(each, column, side="left") + np.searchsorted(each, column, side="right")
            for each, column in zip(ordered.T, values.T, strict=True)
        ]
        return np.stack(columns, axis=1).astype(np.float64)

    tree, sign = KDTree(ranks(learned)), np.repeat([-1.0, 1.0], len(learned) // 2)
    votes = np.zeros(seen.shape[:2])
    for row, side in zip(votes, seen, strict=True):
        _, nearest = tree.query(ranks(side[learning:]), k=max(2, round(np.sqrt(len(learned)))))
        row[learning:] = sign[nearest].sum(axis=1)
    return votes


_MOST_STANDARD_ERRORS = 6.0
_AS_GOOD, _BY_CHANCE = 0.95, 0.15  # of scores; thousands of trials choose them


def audit_function(
    mechanism: Mechanism[T],
    inputs: tuple[T, T],
    spec: FunctionAuditSpec,
    progress: Progress = SILENT,
    reload: Callable[[], Mechanism[T]] | None = None,
    name: str | None = None,
) -> FunctionRecord:
    """Measure a lower bound on the epsilon of a function, and compare it with a claim.

    Each trial calls the function once, with a random generator of its own. Scores are learned from the first
    trials with each input, one of them and its threshold are chosen on the next, and the last are evaluated.

    *Guarantees* for any function whose trials are independent: the probability that the bound is above the
    epsilon of this pair is at most 1 - confidence, as its estimator states. Neighbours are the two inputs,
    and the observer sees the whole output. With `reload`, see `call_function`, a seed that the function sets
    when it is loaded is found as well. The record names the function by `name`, or as its code does.

    Raises:
        UsageError: an unknown estimator or one that does not fit, or see `call_function`.
    """
    estimator = spec.estimator
    if estimator not in ESTIMATORS:
        raise UsageError(f"estimator: unknown estimator {estimator!r}; {suggest_name(estimator, ESTIMATORS)}")
    if estimator in FOR_NORMAL and spec.delta == 0:
        raise UsageError(f"estimator: {estimator} has no bound at delta 0; expected a delta above 0")
    outputs = call_function(mechanism, inputs, spec.calls, Streams(spec.seed), progress, reload)
    return audit_outputs(outputs, spec, name or str(getattr(mechanism, "__name__", type(mechanism).__name__)))


def audit_outputs(outputs: FunctionOutputs, spec: FunctionAuditSpec, name: str = "") -> FunctionRecord:
    """As `audit_function`, on the outputs of `spec.calls` trials with each input that were made before."""
    streams, normal = Streams(spec.seed), spec.estimator in FOR_NORMAL
    with one_thread():  # so that scores do not depend on the number of threads
        scores = output_scores(outputs, spec.learning)
    fitting = {name: pair for name, pair in scores.items() if not normal or name in LINEAR_SCORES}
    score, trials = _best(fitting, spec)
    if normal:
        _refuse_other_noise(trials, spec.estimator)
    bounds = tuple(
        every_bound(
            trials,
            lambda name: streams.generator(f"audit-function/{name}"),
            delta=spec.delta,
            confidence=spec.confidence,
            normal=normal,
        )
    )
    lower = next(bound for bound in bounds if bound.estimator == spec.estimator)
    claimed = math.inf if spec.eps is None else spec.eps
    # What estimators for normal noise assume was tested.
    verdict, why = verdict_on(claimed=claimed, proven=math.inf, measured=lower.epsilon, strict=lower.epsilon)
    # An intact mechanism of so large an epsilon may repeat itself as often.
    repeats = repeated_noise(outputs) if spec.eps is None or spec.eps < lower.ceiling else ""
    return FunctionRecord(
        function=name,
        claim=spec.eps,
        delta=spec.delta,
        lower=lower,
        estimates=bounds,
        score=score,
        verdict=verdict,
        why=why,
        repeats=repeats,
        warnings=tuple(_warnings(outputs, claimed, lower, trials)),
    )


def _best(scores: Mapping[str, Pair], spec: FunctionAuditSpec) -> tuple[str, TrialScores]:
    """The score that promises most on the trials for choosing, by name, and its trials.

    Each is tried in levels first, and then as it is, unless the estimator needs it as it is.
    """
    start, stop = spec.learning, spec.learning + spec.choosing
    coarse = {} if spec.estimator in FOR_NORMAL else scores
    tried = [(name, in_levels(pair, slice(start, stop))) for name, pair in coarse.items()]
    tried += scores.items()
    promised = [
        promised_bound(
            split(pair[:, start:stop], spec.choosing // 2), delta=spec.delta, confidence=spec.confidence
        )
        for _, pair in tried
    ]
    name, pair = tried[about_best(promised, share=_AS_GOOD, chance=_BY_CHANCE)[0]]
    return name, split(pair[:, start:], spec.choosing, independent=True)


def _refuse_other_noise(trials: TrialScores, estimator: str) -> None:
    """Refuse scores whose skewness or kurtosis is not that of a normal law.

    Tested on the trials for choosing: six standard errors, which normal scores hardly ever exceed.

    Source: D'Agostino 1970, "Transformation to normality of the null distribution of g1"; Anscombe & Glynn
    1983, "Distribution of the kurtosis statistic b2 for normal samples".
    """
    from scipy import stats

    for scores in (trials.choose_zero, trials.choose_one):
        tests = (stats.skewtest(scores), stats.kurtosistest(scores)) if np.ptp(scores) > 0 else ()
        if any(abs(test.statistic) > _MOST_STANDARD_ERRORS for test in tests):
            raise UsageError(
                f"estimator: {estimator} is for normal noise, and these outputs are not normal; expected "
                "one-run, clopper-pearson or betting"
            )


def _warnings(
    outputs: FunctionOutputs, claimed: float, lower: LowerBound, trials: TrialScores
) -> Iterator[CodedWarning]:
    """What a reader should know apart from the verdict."""
    seen = np.unique(outputs.codes).size
    if seen == 1:
        yield coded(
            "constant outputs", "every output is the same, with either input: these inputs show nothing"
        )
    elif seen == 2 and np.all(outputs.codes == outputs.codes[:, :1]):
        yield coded("constant outputs", "the output never varies: no noise is seen")
    missing = int(np.isnan(outputs.numbers).any(axis=2).sum())
    if missing:
        yield coded("NaN outputs", f"{missing} of {outputs.codes.size} outputs hold NaN")
    if not outputs.repeatable:
        yield coded(
            "own random numbers",
            "the function draws random numbers of its own: --seed does not fix the result",
        )
    apart = trials.zero.max() < trials.one.min() or trials.one.max() < trials.zero.min()
    if not lower.ceiling > 0:  # also with a large delta, at which more trials may not help
        more = ", a smaller delta or another estimator" if lower.delta > 0 else ""
        yield coded("few trials", f"such trials show no epsilon above 0; expected more trials{more}")
    elif apart and lower.epsilon >= lower.ceiling * (1 - 1e-9):
        yield coded(
            "few trials", "every evaluated output reveals its input: more trials would show a larger epsilon"
        )
    elif math.isfinite(claimed) and claimed >= lower.ceiling:
        yield coded("few trials", f"so few trials cannot refute a claim of {claimed:g}; expected more trials")
