"""Whether an attack is shown to beat guessing, and where results of attacks cannot be right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from foltr_audit.core.results import AttackRecord, Estimate, Interval
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.judge.bootstrap import TAIL, binomial_interval
from foltr_audit.utils.formatting import short

FEW_LISTS = 30
"""With fewer lists than this a sentence says how many there are."""


def describe_few_lists(counts: Sequence[int]) -> str:
    """The numbers of lists that are too few, in words that follow a name; empty where each has enough.

    >>> describe_few_lists([14, 11, 90]), describe_few_lists([5]), describe_few_lists([30])
    ('only 11 to 14 lists', 'only 5 lists', '')
    """
    few = sorted(count for count in counts if count < FEW_LISTS)
    if not few:
        return ""
    span = str(few[0]) if few[0] == few[-1] else f"{few[0]} to {few[-1]}"
    return f"only {span} {'list' if few[-1] == 1 else 'lists'}"


def beats_guessing(auc: Estimate, queries: int, choices: int) -> bool:
    """Whether `sure_auc` is above one half.

    Most AUCs are far from that. Bounds of both quantiles in `sure_auc` then say so without SciPy, whose
    import takes a twentieth of an attack: of Student's t by Cantelli's inequality, of the binomial interval
    by the spread of a beta distribution (Marchal & Arbel 2017, "On the sub-Gaussianity of the beta and
    Dirichlet distributions", theorem 1).
    """
    if not auc.value > 0.5 or auc.ci95 is None:
        return False
    if queries > 3:
        tail, variance = TAIL / choices, (queries - 1) / (queries - 3)
        inner, error = _inside(auc.value, queries), _standard_error(auc, queries)
        quantile = math.sqrt(variance * (1 - tail) / tail)
        above = auc.value * queries / (queries + 1) - 0.5
        trials_are_sure = above > 0 and math.exp(-2 * (queries + 2) * above**2) < tail
        if trials_are_sure and quantile * error / (inner * (1 - inner)) < math.log(inner / (1 - inner)):
            return True
    return sure_auc(auc, queries, choices) > 0.5


def sure_auc(auc: Estimate, queries: int, choices: int) -> float:
    """Lower end of an AUC's interval at 95 % for all of `choices` attacks together (Bonferroni).

    On the logit scale, where the interval of an AUC is close to symmetric (Pepe 2003, "The statistical
    evaluation of medical tests", section 5.2), with the standard error of the bootstrap and the t
    distribution over the queries. Where the interval is that of one trial per query, as close to 1, the
    lower end is that of these trials (`bootstrap.share_interval`). Below any AUC where there is no interval.
    """
    from scipy.special import stdtrit

    if auc.ci95 is None:
        return -1.0
    trials = auc.value * queries, queries
    if auc.ci95[0] <= binomial_interval(*trials)[0]:
        return binomial_interval(*trials, TAIL / choices)[0]
    inner, error = _inside(auc.value, queries), _standard_error(auc, queries)
    step = float(stdtrit(queries - 1, 1 - TAIL / choices)) * error / (inner * (1 - inner))
    return 1 / (1 + math.exp(min(step - math.log(inner / (1 - inner)), 700.0)))


def _inside(auc: float, queries: int) -> float:
    """An AUC between 0 and 1, so that it has a place on the logit scale."""
    edge = 0.5 / (queries + 1)
    return min(max(auc, edge), 1 - edge)


def _standard_error(auc: Estimate, queries: int) -> float:
    """That of the bootstrap, by the width of its interval; where it has none, that of independent trials."""
    low, high = auc.ci95 or (0.0, 0.0)
    inner = _inside(auc.value, queries)
    return (high - low) / (2 * 1.959964) or math.sqrt(inner * (1 - inner) / queries)


class AttackedClicks(NamedTuple):
    """The AUC of one attack on the clicks of users of one kind, over some queries."""

    click_model: str
    method: str
    auc: Estimate
    queries: int


def wrong_sign(attacks: Sequence[AttackedClicks]) -> str | None:
    """A warning about the worst of some attacks if it is significantly worse than guessing; else None.

    An AUC significantly below one half is not due to chance.
    """
    worse = [each for each in attacks if beats_guessing(_mirrored(each.auc), each.queries, len(attacks))]
    if not worse:
        return None
    click_model, method, auc, _ = min(worse, key=lambda each: each.auc.value)
    ends = (
        "no interval" if auc.ci95 is None else f"95 % interval [{', '.join(short(e, 2) for e in auc.ci95)}]"
    )
    return (
        f"{method} reads the {click_model} clicks with the wrong sign: AUC {short(auc.value)} ({ends}), "
        f"which is {short(1 - auc.value)} with the other sign; check the declared facts"
    )


def _mirrored(auc: Estimate) -> Estimate:
    """The AUC of the attack that orders all documents in reverse."""

    def ends() -> Interval | None:
        return None if auc.ci95 is None else (1 - auc.ci95[1], 1 - auc.ci95[0])

    return Estimate(1 - auc.value, ends)


def doubts(pools: Sequence[tuple[str, Sequence[AttackRecord]]]) -> Iterator[CodedWarning]:
    """Warnings about attacks on clicks that are worse than they can be.

    The strongest attack weighs every click pattern by the declared facts; where another attack that needs no
    more of them is clearly right more often on the same lists, they are wrong. A pool says how the attacked
    users click.
    """
    known = [
        (clicks, [each for each in records if each.role == "attack" and each.metric("auc").known])
        for clicks, records in pools
    ]
    backwards = wrong_sign(
        [
            AttackedClicks(clicks, each.method, each.metrics["auc"], each.counts["queries"])
            for clicks, records in known
            for each in records
        ]
    )
    if backwards is not None:
        yield coded("wrong sign", backwards)
    for clicks, records in known:
        for best in (each for each in records if each.strongest):
            for other in records:
                exact, better = best.metrics["exact"], other.metrics["exact"]
                if not other.needs < best.needs or exact.ci95 is None or better.ci95 is None:
                    continue
                # A guess that names nothing is right on lists without a click, which are not judged.
                nothing = (best.counts.get("precision_undefined") or 0) / (best.counts.get("lists") or 1)
                if exact.ci95[1] + nothing < better.ci95[0]:
                    text = (
                        f"{best.method} reads {short(exact.value)} of the lists with {clicks} clicks right, "
                        f"and {other.method}, which needs fewer facts, {short(better.value)}: "
                        "the declared facts do not fit the messages"
                    )
                    yield coded("weaker attack", text)
