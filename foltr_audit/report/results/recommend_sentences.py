"""A recommendation in words, with the limits that it breaks on the test split."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foltr_audit.auditing.verdict import FALSE
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.experiments.recommend.limits import PrivacyLimits
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import ComparedAttackRow, CompareRow
from foltr_audit.report.results.few_lists import few_lists
from foltr_audit.report.results.recommend_rows import CandidateRow, SearchCounts
from foltr_audit.utils.formatting import epsilon, short


def broken_on_test(
    report: CompareReport | None, evidence: CompareRow | None, limits: PrivacyLimits
) -> list[str]:
    """What the confirmation shows against a recommended defense, in words; empty if nothing.

    Args:
        report: of the confirming cells; None where nothing was recommended.
        evidence: the row of the recommended defense; None where its cells could not be run.
        limits: the limits of the search.
    """
    if report is None:
        return []
    if evidence is None or report.failed:
        return [f"the confirmation could not be run: {report.failed[0].why if report.failed else ''}"]
    rows = [row for row in report.attacks if row.setting.name == evidence.setting.name]
    return [*_leaks(rows, limits), *_claims(evidence, limits)]


def _leaks(rows: Sequence[ComparedAttackRow], limits: PrivacyLimits) -> list[str]:
    if limits.max_auc is None:
        return []
    aucs = [(row.found.auc.ci95, row.method) for row in rows if not row.baseline]
    uppers = [(ci95[1], method) for ci95, method in aucs if ci95 is not None]
    if not uppers:
        return ["no attack could be run on the test split"]
    upper, worst = max(uppers, key=lambda one: one[0])
    if limits.excess(upper) <= 0:
        return []
    return [f"the 95 % interval of {worst}'s AUC ends at {short(upper)} (limit {short(limits.max_auc)})"]


def _claims(evidence: CompareRow, limits: PrivacyLimits) -> list[str]:
    audit = evidence.audits.get(limits.view)
    if audit is None:
        return ["its epsilon was not audited"]
    found = [f"the verdict on its epsilon is: {audit.verdict}"] if audit.verdict in FALSE else []
    if not limits.proves(audit.eps_proven):
        found.append(f"the audit proves epsilon {epsilon(audit.eps_proven)}, above {epsilon(limits.max_eps)}")
    left = next((one.auc for one in evidence.ceilings if one.view == limits.view), 1.0)
    if not limits.promises(left):
        found.append(f"the proof leaves an AUC of {short(left)}, above {short(limits.max_proven_auc)}")
    return found


def sentence(
    chosen: CandidateRow | None,
    evidence: CompareRow | None,
    broken: Sequence[str],
    candidates: Sequence[CandidateRow],
    search: SearchCounts,
    limits: PrivacyLimits,
) -> str:
    """The answer in words.

    Args:
        chosen: the row of the recommended candidate; None if none is within the limits.
        evidence: its row on the test split.
        broken: see `broken_on_test`.
        candidates: all of them.
        search: counts of candidates.
        limits: the limits of the search.
    """
    if chosen is None:
        return _none(candidates, search, limits)
    start = _choice(chosen, candidates, search)
    if evidence is None:
        return f"{start}, but {'; '.join(broken)}."
    loss, audit = evidence.ndcg_difference.value, evidence.audits.get(limits.view)
    compared = (
        "" if math.isnan(loss) else f", {short(abs(loss))} {'below' if loss < 0 else 'above'} no defense"
    )
    text = f"{start}. On the test split its nDCG@10 is {short(evidence.ndcg.value)}{compared}"
    if evidence.auc.known:
        upper = "" if evidence.auc.ci95 is None else f" (95 % interval up to {short(evidence.auc.ci95[1])})"
        text += f"; the best attack, {evidence.attack}, has an AUC of {short(evidence.auc.value)}{upper}"
    if audit is not None and math.isfinite(audit.eps_proven):
        observer = with_article(sees(limits.view))
        text += f"; epsilon {audit.eps_proven:.4g} is proven where the server sees {observer}"
    if limits.max_proven_auc is not None:
        text += (
            f"; no attack can infer a click of one interaction with an AUC above {short(chosen.auc_proven)}"
        )
    few = few_lists([evidence.lists]) if evidence.lists is not None else ""
    if broken:
        return f"{text}. Not confirmed on the test split: {'; '.join(broken)}.{few}"
    return f"{text}. It is within the limits there too.{few}"


def _choice(chosen: CandidateRow, candidates: Sequence[CandidateRow], search: SearchCounts) -> str:
    """Which candidate was chosen, and why."""
    verb = "Use no defense" if chosen.alternative == NO_DEFENSE else f"Use {chosen.name}"
    of = f"{search.kept} of {search.candidates} candidates are within the limits"
    best = max(
        (row.ndcg for row in candidates if row.outcome == "kept" and row.ndcg is not None), default=None
    )
    if best is None or chosen.ndcg is None or chosen.ndcg >= best:
        return f"{verb}: {of}, and it has the best nDCG@10 of these on the validation split"
    return (
        f"{verb}: {of}; of those with the best nDCG@10 on the validation split, up to chance, it has the "
        f"smallest proven epsilon ({short(chosen.ndcg)}; the best has {short(best)})"
    )


def describe_runner_up(runners_up: Sequence[CandidateRow]) -> str:
    """The second choice, which was made before the test split was looked at; empty where there is none."""
    if not runners_up:
        return ""
    first = runners_up[0]
    return (
        f"Runner-up: {first.name}, nDCG@10 {short(first.ndcg)} on the validation split, not tried on the "
        f"test split: {first.options}"
    )


def _none(candidates: Sequence[CandidateRow], search: SearchCounts, limits: PrivacyLimits) -> str:
    if not search.candidates:
        limited = [] if math.isinf(limits.max_eps) else [f"an epsilon of at most {epsilon(limits.max_eps)}"]
        if limits.max_proven_auc is not None:
            limited.append(f"an AUC of attacks of at most {short(limits.max_proven_auc)}")
        return (
            f"No defense is within the limits: for none is {' and '.join(limited)} "
            f"proven where the server sees {with_article(sees(limits.view))}."
        )
    start = f"No defense is within the limits: none of {search.candidates} candidates"
    known = [row for row in candidates if row.excess is not None]
    if not known:
        return f"{start}; none could be run."
    first = min(known, key=lambda row: row.excess or 0.0)
    if first.auc.ci95 is None:
        return f"{start}; attacks could not be measured on any."
    return (
        f"{start}. The nearest is {first.name}: the 95 % interval of the AUC of {first.attack} ends at "
        f"{short(first.auc.ci95[1])} (limit {short(limits.max_auc)})."
    )
