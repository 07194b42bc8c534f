"""What the results of attacks mean, in words, and warnings where they cannot be right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.results import Estimate, Interval
from foltr_audit.core.warning_kinds import coded
from foltr_audit.judge.bootstrap import TAIL, binomial_interval
from foltr_audit.privacy.observer_views import attacker
from foltr_audit.report.results.attack_rows import AttackRow
from foltr_audit.report.results.base import WarningRow, few_lists
from foltr_audit.report.results.wording import whole_percent
from foltr_audit.utils.formatting import epsilon, short


class _StrongestAttack(NamedTuple):
    """The strongest attack on the smallest claimed epsilon.

    Attributes:
        row: its row.
        rows: the attacks that it was chosen from.
        sure: whether it is shown to beat guessing.
    """

    row: AttackRow
    rows: Sequence[AttackRow]
    sure: bool


def strongest_attack(results: Sequence[AttackRow]) -> AttackRow | None:
    """The row that `describe_results` is about; None where no list with a click was attacked."""
    strongest = _strongest(results)
    return None if strongest is None else strongest.row


def _strongest(results: Sequence[AttackRow]) -> _StrongestAttack | None:
    rows = [row for row in results if not row.baseline and row.found.auc.known]
    if not rows:
        return None
    smallest = min(row.eps_claimed for row in rows)
    rows = [row for row in rows if row.eps_claimed == smallest]
    sure = [row for row in rows if beats_guessing(row.found.auc, row.found.queries, len(rows))]
    best = max(sure or rows, key=lambda row: (float(row.found.auc.value), _recall_and_precision(row)))
    return _StrongestAttack(best, rows, bool(sure))


def describe_results(results: Sequence[AttackRow]) -> str:
    """What the strongest attack on the smallest claimed epsilon shows.

    The strongest of several rows is the luckiest too. So its AUC counts as better than guessing only
    if its interval, widened for the number of rows that it was chosen from, lies above one half.
    """
    strongest = _strongest(results)
    if strongest is None:
        return "No list with a click was attacked, so nothing can be said."
    row, rows, sure = strongest
    claimed = f"At a claimed epsilon of {epsilon(row.eps_claimed)}"
    claim = "Without a claimed epsilon" if math.isinf(row.eps_claimed) else claimed
    if not sure:
        backwards = reads_backwards(rows)
        return f"{claim}, {_not_shown(row, rows) if backwards is None else f'{backwards}.'}"
    guess = next(other for other in results if other.method == "random:k=3" and other.where == row.where)
    return (
        f"{claim}, a {attacker(row.where.view)} that sees {_plural(row.sees)} recovers "
        f"{whole_percent(row.found.recall.value)} of the {row.where.click_model} users' clicks "
        f"with {row.method}, at a precision of {whole_percent(row.found.precision.value)} "
        f"(three random guesses: {whole_percent(guess.found.recall.value)} and "
        f"{whole_percent(guess.found.precision.value)})."
        f"{_better_guess(row, results)}{few_lists([row.found.lists])}"
    )


def _better_guess(row: AttackRow, results: Sequence[AttackRow]) -> str:
    """What to know where a guess orders the documents better than an attack that reads messages."""
    guesses = [other for other in results if other.baseline and other.where == row.where]
    known = {float(other.found.auc.value): other.method for other in guesses if other.found.auc.known}
    best, auc = max(known, default=0.0), float(row.found.auc.value)
    if best <= auc:
        return ""
    return (
        f" A guess that reads no message, {known[best]}, orders the documents better: "
        f"its AUC is {short(best)}, that of {row.method} {short(auc)}."
    )


def reads_backwards(rows: Sequence[AttackRow]) -> str | None:
    """A warning about the worst attack if it is significantly worse than guessing; else None."""
    worse = [row for row in rows if beats_guessing(_mirrored(row.found.auc), row.found.queries, len(rows))]
    if not worse:
        return None
    row = min(worse, key=lambda row: float(row.found.auc.value))
    return (
        f"{row.method} reads the {row.where.click_model} clicks with the wrong sign: "
        f"AUC {short(row.found.auc.value)} ({_interval(row)}), which is {short(1 - row.found.auc.value)} "
        "with the other sign; check the declared facts"
    )


def _mirrored(auc: Estimate) -> Estimate:
    """The AUC of the attack that orders all documents in reverse."""

    def ends() -> Interval | None:
        return None if auc.ci95 is None else (1 - auc.ci95[1], 1 - auc.ci95[0])

    return Estimate(1 - auc.value, ends)


def _not_shown(row: AttackRow, rows: Sequence[AttackRow]) -> str:
    """No attack is shown to be better than guessing, with the names of those that ran."""
    ran = list(dict.fromkeys(other.method for other in rows))
    auc = f"{short(row.found.auc.value)} ({_interval(row)}) on {row.found.lists} lists"
    succeeded = (
        f"no attack that ran ({', '.join(ran)}) is shown to be better than guessing; the best, "
        f"{row.method} on {row.where.click_model} clicks, has an AUC of {auc}."
    )
    if not any(attack.strongest for name in ran if (attack := make_if_known(Attack, name))):
        succeeded += " Stronger attacks were not tried: leave out --method to run them."
    return succeeded + few_lists([row.found.lists])


def _plural(sees: str) -> str:
    """What a server sees of many clients: `messages and lists`."""
    return sees.replace("message", "messages").replace("sum", "sums")


def beats_guessing(found: Estimate, queries: int, choices: int) -> bool:
    """Whether `sure_auc` is above one half.

    Most AUCs are far from that. Bounds of both quantiles in `sure_auc` then say so without SciPy, whose
    import takes a twentieth of an attack: of Student's t by Cantelli's inequality, of the binomial interval
    by the spread of a beta distribution (Marchal & Arbel 2017, "On the sub-Gaussianity of the beta and
    Dirichlet distributions", theorem 1).
    """
    if not found.value > 0.5 or found.ci95 is None:
        return False
    if queries > 3:
        tail, variance = TAIL / choices, (queries - 1) / (queries - 3)
        auc, error = _inside(found.value, queries), _standard_error(found, queries)
        quantile = math.sqrt(variance * (1 - tail) / tail)
        above = found.value * queries / (queries + 1) - 0.5
        trials_are_sure = above > 0 and math.exp(-2 * (queries + 2) * above**2) < tail
        if trials_are_sure and quantile * error / (auc * (1 - auc)) < math.log(auc / (1 - auc)):
            return True
    return sure_auc(found, queries, choices) > 0.5


def sure_auc(found: Estimate, queries: int, choices: int) -> float:
    """Lower end of an AUC's interval at 95 % for all of `choices` rows together (Bonferroni).

    On the logit scale, where the interval of an AUC is close to symmetric (Pepe 2003, "The statistical
    evaluation of medical tests", section 5.2), with the standard error of the bootstrap and the t
    distribution over the queries. Where the interval is that of one trial per query, as close to 1, the
    lower end is that of these trials (`bootstrap.share_interval`). Below any AUC where there is no interval.
    """
    from scipy.special import stdtrit

    if found.ci95 is None:
        return -1.0
    trials = found.value * queries, queries
    if found.ci95[0] <= binomial_interval(*trials)[0]:
        return binomial_interval(*trials, TAIL / choices)[0]
    auc, error = _inside(found.value, queries), _standard_error(found, queries)
    step = float(stdtrit(queries - 1, 1 - TAIL / choices)) * error / (auc * (1 - auc))
    return 1 / (1 + math.exp(min(step - math.log(auc / (1 - auc)), 700.0)))


def _inside(auc: float, queries: int) -> float:
    """An AUC between 0 and 1, so that it has a place on the logit scale."""
    edge = 0.5 / (queries + 1)
    return min(max(auc, edge), 1 - edge)


def _standard_error(estimate: Estimate, queries: int) -> float:
    """That of the bootstrap, by the width of its interval; where it has none, that of independent trials."""
    low, high = estimate.ci95 or (0.0, 0.0)
    auc = _inside(estimate.value, queries)
    return (high - low) / (2 * 1.959964) or math.sqrt(auc * (1 - auc) / queries)


def _recall_and_precision(row: AttackRow) -> float:
    """Recall and precision together, which tell attacks of equal AUC apart; 0 where nothing was named."""
    both = float(row.found.recall.value) + float(row.found.precision.value)
    return 0.0 if math.isnan(both) else both


def _interval(row: AttackRow) -> str:
    ci95 = row.found.auc.ci95
    return "no interval" if ci95 is None else f"95 % interval {short(ci95[0], 2)}-{short(ci95[1], 2)}"


def doubt_rows(results: Sequence[AttackRow]) -> list[WarningRow]:
    """Warnings about attacks that are worse than they can be, a row each.

    An AUC significantly below one half is not due to chance. The strongest attack weighs every click pattern
    by the declared facts; where another attack that needs no more of them is clearly right more often on the
    same lists, they are wrong.
    """
    attacks = [row for row in results if not row.baseline and row.found.auc.known]
    backwards = reads_backwards(attacks)
    return [
        *([] if backwards is None else [WarningRow.of(coded("wrong sign", backwards))]),
        *(WarningRow.of(coded("weaker attack", text)) for text in _below_weaker(attacks)),
    ]


def _below_weaker(rows: Sequence[AttackRow]) -> Iterator[str]:
    every = {row.method: make_if_known(Attack, row.method) for row in rows}
    attacks = {name: attack for name, attack in every.items() if attack is not None}
    known = [row for row in rows if row.method in attacks]
    for best in (row for row in known if attacks[row.method].strongest):
        for other in (row for row in known if row.where == best.where):
            knows_less = attacks[other.method].needs < attacks[best.method].needs
            exact, better = best.found.exact, other.found.exact
            if not knows_less or exact.ci95 is None or better.ci95 is None:
                continue
            if exact.ci95[1] < better.ci95[0]:
                yield (
                    f"{best.method} reads {short(exact.value)} of the lists with {best.where.click_model} "
                    f"clicks right, and {other.method}, which needs fewer facts, {short(better.value)}: "
                    "the declared facts do not fit the messages"
                )
