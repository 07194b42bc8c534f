"""Audits of any function: a lower bound on its epsilon, from trials with two neighbouring inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from foltr_audit.auditing.estimators import ESTIMATORS, FOR_NORMAL, LowerBound, TrialScores
from foltr_audit.auditing.evaluation import about_best, every_bound, promised_bound, split
from foltr_audit.auditing.function_outputs import FunctionOutputs, Mechanism, T, call_function
from foltr_audit.auditing.output_scores import LINEAR_SCORES, in_levels, output_scores
from foltr_audit.auditing.repeated_noise import repeated_noise
from foltr_audit.auditing.trial_scores import Pair
from foltr_audit.auditing.verdict import ClaimEvidence, Verdict, verdict_on
from foltr_audit.core.settings.function_audit import FunctionAuditSpec
from foltr_audit.core.warning_codes import CodedWarning, coded
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.blas_threads import one_blas_thread
from foltr_audit.utils.progress import SILENT, Progress

_MOST_STANDARD_ERRORS = 6.0
_AS_GOOD, _BY_CHANCE = 0.95, 0.15  # of scores; thousands of trials choose them


@dataclass(frozen=True, kw_only=True)
class FunctionFinding:
    """What trials show of a function on one pair of neighbouring inputs.

    Attributes:
        eps_claimed: what is claimed; infinite without a claim.
        lower: the lower bound, at its confidence.
        estimates: the lower bounds of all estimators for the same trials.
        score: the score that told the inputs apart best on trials of its own.
        verdict: `refuted` or `not refuted`.
        why: the reason for the verdict.
        repeats: why the noise repeats, in words; empty where nothing says so.
        notes: what else a reader should know.
    """

    eps_claimed: float
    lower: LowerBound
    estimates: tuple[LowerBound, ...]
    score: str
    verdict: Verdict
    why: str
    repeats: str
    notes: tuple[CodedWarning, ...]


def audit_function(
    mechanism: Mechanism[T],
    inputs: tuple[T, T],
    spec: FunctionAuditSpec,
    progress: Progress = SILENT,
    reload: Callable[[], Mechanism[T]] | None = None,
) -> FunctionFinding:
    """Measure a lower bound on the epsilon of a function, and compare it with a claim.

    Each trial calls the function once, with a random generator of its own. Scores are learned from the first
    trials with each input, one of them and its threshold are chosen on the next, and the last are evaluated.

    *Guarantees* for any function whose trials are independent: the probability that the bound is above the
    epsilon of this pair is at most 1 - confidence, as its estimator states. Neighbours are the two inputs,
    and the observer sees the whole output. With `reload`, see `call_function`, a seed that the function sets
    when it is loaded is found as well.

    Raises:
        UsageError: an unknown estimator or one that does not fit, or see `call_function`.
    """
    _check_estimator(spec)
    return audit_outputs(
        call_function(mechanism, inputs, spec.calls, Streams(spec.seed), progress, reload), spec
    )


def audit_outputs(outputs: FunctionOutputs, spec: FunctionAuditSpec) -> FunctionFinding:
    """As `audit_function`, on the outputs of `spec.calls` trials with each input that were made before.

    Raises:
        UsageError: an estimator that does not fit the outputs.
    """
    streams, normal = Streams(spec.seed), spec.estimator in FOR_NORMAL
    score, trials = _best(_scores(outputs, spec), spec)
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
    verdict, why = _verdict(claimed, lower)
    # An intact mechanism of so large an epsilon may repeat itself as often.
    repeats = repeated_noise(outputs) if spec.eps is None or spec.eps < lower.ceiling else ""
    return FunctionFinding(
        eps_claimed=claimed,
        lower=lower,
        estimates=bounds,
        score=score,
        verdict=verdict,
        why=why,
        repeats=repeats,
        notes=tuple(_notes(outputs, claimed, lower)),
    )


def _check_estimator(spec: FunctionAuditSpec) -> None:
    """Refuse an estimator that does not exist, or does not fit the delta, before anything is called.

    Raises:
        UsageError: it is one of these.
    """
    name = spec.estimator
    if name not in ESTIMATORS:
        raise UsageError(f"estimator: unknown estimator {name!r}; {suggest_name(name, ESTIMATORS)}")
    if name in FOR_NORMAL and spec.delta == 0:
        raise UsageError(f"estimator: {name} has no bound at delta 0; expected a delta above 0")


def _scores(outputs: FunctionOutputs, spec: FunctionAuditSpec) -> dict[str, Pair]:
    """The scores that fit the estimator; BLAS has one thread, so that they do not depend on their number."""
    with one_blas_thread():
        found = output_scores(outputs, spec.learning)
    linear = spec.estimator in FOR_NORMAL
    return {name: pair for name, pair in found.items() if not linear or name in LINEAR_SCORES}


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
            split((zero[start:stop], one[start:stop]), spec.choosing // 2),
            delta=spec.delta,
            confidence=spec.confidence,
        )
        for _, (zero, one) in tried
    ]
    name, (zero, one) = tried[about_best(promised, share=_AS_GOOD, chance=_BY_CHANCE)[0]]
    return name, split((zero[start:], one[start:]), spec.choosing, independent=True)


def _verdict(claimed: float, lower: LowerBound) -> tuple[Verdict, str]:
    # What estimators for normal noise assume was tested.
    return verdict_on(
        ClaimEvidence(
            claimed=claimed, proven=math.inf, exact=None, measured=lower.epsilon, strict=lower.epsilon
        )
    )


def _refuse_other_noise(trials: TrialScores, estimator: str) -> None:
    """Refuse scores whose skewness or kurtosis is not that of a normal law.

    Tested on the trials for choosing: six standard errors, which normal scores hardly ever exceed.

    Raises:
        UsageError: they are not normal.
    """
    for scores in (trials.choose_zero, trials.choose_one):
        if max(_away_from_normal(scores)) > _MOST_STANDARD_ERRORS:
            raise UsageError(
                f"estimator: {estimator} is for normal noise, and these outputs are not normal; expected "
                "one-run, clopper-pearson or betting"
            )


def _away_from_normal(scores: Floats) -> tuple[float, float]:
    """Skewness and excess kurtosis as normal variates, without sign; 0 for constant scores.

    Source: D'Agostino 1970, "Transformation to normality of the null distribution of g1"; Anscombe & Glynn
    1983, "Distribution of the kurtosis statistic b2 for normal samples".
    """
    from scipy import stats

    if not np.ptp(scores) > 0:
        return 0.0, 0.0
    return abs(float(stats.skewtest(scores).statistic)), abs(float(stats.kurtosistest(scores).statistic))


def _notes(outputs: FunctionOutputs, claimed: float, lower: LowerBound) -> Iterator[CodedWarning]:
    """What a reader should know apart from the verdict."""
    zero, one = outputs.zero, outputs.one
    seen = np.unique(np.concatenate([zero.codes, one.codes])).size
    if seen == 1:
        yield coded(
            "constant outputs", "every output is the same, with either input: these inputs show nothing"
        )
    elif np.unique(zero.codes).size == np.unique(one.codes).size == 1:
        yield coded("constant outputs", "the output never varies: no noise is seen")
    missing = int(np.isnan(zero.numbers).any(axis=1).sum() + np.isnan(one.numbers).any(axis=1).sum())
    if missing:
        yield coded("NaN outputs", f"{missing} of {2 * zero.codes.size} outputs hold NaN")
    if not outputs.repeatable:
        yield coded(
            "own random numbers",
            "the function draws random numbers of its own: --seed does not fix the result",
        )
    if lower.epsilon >= lower.ceiling * (1 - 1e-9):
        yield coded(
            "few trials", "every evaluated output reveals its input: more trials would show a larger epsilon"
        )
    elif math.isfinite(claimed) and claimed >= lower.ceiling:
        yield coded("few trials", f"so few trials cannot refute a claim of {claimed:g}; expected more trials")
