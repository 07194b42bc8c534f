"""Whether an attack is shown to beat a guess, and where results of attacks cannot be right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from foltr_audit.core.results import AttackRecord, Estimate
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.judge.significance import TAIL
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


def shown_above(estimate: Estimate, limit: float, choices: int = 1) -> bool:
    """Whether a number is shown to be above a limit: its one-sided lower bound at 95 % is.

    For the best of several `choices` the bound is that of all together (Bonferroni).
    """
    ends = estimate.ends(2 * TAIL / choices)
    return ends is not None and ends[0] > limit


class AttackedClicks(NamedTuple):
    """The AUC of one attack on the clicks of users of one kind."""

    click_model: str
    method: str
    auc: Estimate


def wrong_sign(attacks: Sequence[AttackedClicks]) -> str | None:
    """A warning about the worst of some attacks if it is significantly worse than guessing; else None.

    An AUC significantly below one half is not due to chance. Here one half is the yardstick, and no guess:
    the question is not what an attack adds to one, but whether it reads the opposite of the truth.
    """
    worse = [
        each
        for each in attacks
        if each.auc.value < 0.5 and (own := each.auc.ends(TAIL / len(attacks))) is not None and own[1] < 0.5
    ]
    if not worse:
        return None
    click_model, method, auc = min(worse, key=lambda each: each.auc.value)
    ends = (
        "no interval" if auc.ci95 is None else f"95 % interval [{', '.join(short(e, 2) for e in auc.ci95)}]"
    )
    return (
        f"{method} reads the {click_model} clicks with the wrong sign: AUC {short(auc.value)} ({ends}), "
        f"which is {short(1 - auc.value)} with the other sign; check the declared facts"
    )


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
            AttackedClicks(clicks, each.method, each.metrics["auc"])
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
