"""The subjects of a check, one for each defense and world of a comparison, and the attacks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.base import name_in
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.judge.protocol import not_for_clicks
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import ClaimRow, CompareRow, ViewCeiling
from foltr_audit.report.results.compare_summary import epsilons, families
from foltr_audit.report.results.wording import join_names


class CheckReading(NamedTuple):
    """A number of a subject.

    Attributes:
        found: the number with its interval.
        missing: why the number is missing, or why the interval of a number is.
    """

    found: Estimate = UNKNOWN
    missing: str = ""


NO_READING = CheckReading()

NO_ATTACK = "no attack was run"
NO_SUM = "no round opens a sum, so that attacks have nothing to read"


class CheckedAttack(NamedTuple):
    """An attack on clicks, its AUC and the number of lists with a click that it was judged on."""

    method: str
    auc: Estimate
    lists: int


@dataclass(frozen=True, kw_only=True)
class CheckSubject:
    """One defense in one world.

    Attributes:
        name: its name, e.g. `published, eps 1.2, perfect clicks`.
        attacks: the attacks that ran.
        refused: why attacks could not run, by their names.
        all_attacks: whether the AUC cannot be judged if an attack could not run.
        no_attack: why there are no attacks.
        ceilings: the proven AUC of any attack, for each view.
        no_ceiling: why there are no ceilings.
        claims: a row for each audited view.
        no_audit: why there are no claims.
        ndcg: offline nDCG@10.
        loss: nDCG@10 without a defense minus its own.
    """

    name: str
    attacks: Sequence[CheckedAttack] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    all_attacks: bool = True
    no_attack: str = NO_ATTACK
    ceilings: Sequence[ViewCeiling] = ()
    no_ceiling: str = "the comparison holds no such proof"
    claims: Sequence[ClaimRow] = ()
    no_audit: str = "no audit was run"
    ndcg: CheckReading = NO_READING
    loss: CheckReading = NO_READING


def subjects_of(
    report: CompareReport,
    defenses: Sequence[str] = (),
    eps: Sequence[float] = (),
    *,
    all_attacks: bool = False,
) -> list[CheckSubject]:
    """The chosen rows of a comparison, each as a subject.

    Args:
        report: the report of the comparison.
        defenses: alternatives as they were written; if empty, all except `none`.
        eps: epsilons of the alternatives; if empty, all. Alternatives without an epsilon are always chosen.
        all_attacks: whether the AUC cannot be judged if an attack could not run.

    Raises:
        UsageError: the comparison does not have an alternative or epsilon, or no row is left.
    """
    chosen = chosen_rows(report, defenses, eps)
    every = [row.setting for row in report.results]
    several = (len({one.learner for one in every}) > 1, len({one.scenario for one in every}) > 1)
    return [
        CheckSubject(
            name=_name(row, *several),
            attacks=[
                CheckedAttack(one.method, one.found.auc, one.found.lists)
                for one in report.attacks
                if one.setting == row.setting and not one.baseline
            ],
            refused=refusals(
                {one.method: one.reason for one in report.refused if one.setting == row.setting}
            ),
            all_attacks=all_attacks,
            no_attack=NO_SUM if row.unread else NO_ATTACK,
            ceilings=row.ceilings,
            claims=[one for one in report.claims if _is_of(one, row)],
            no_audit=_no_audit(report, row),
            ndcg=CheckReading(row.ndcg),
            loss=_loss(row),
        )
        for row in chosen
    ]


def _is_of(claim: ClaimRow, row: CompareRow) -> bool:
    of, mine = row.setting, (claim.learner, claim.scenario, claim.name, claim.defense)
    return mine == (of.learner, of.scenario, of.name, of.defense)


def chosen_rows(report: CompareReport, defenses: Sequence[str], eps: Sequence[float]) -> list[CompareRow]:
    """The rows of a comparison that are judged; arguments and errors as for `subjects_of`."""
    known, there = families(report), epsilons(report.results)
    left_out = {row.defense: row.why for row in report.left_out}
    for name in defenses:
        if name not in known:
            why = f"left out: {left_out[name]}" if name in left_out else suggest_name(name, known)
            raise UsageError(f"--defense: {name!r} is not a defense of this comparison; {why}")
    for value in eps:
        if value not in there:
            listed = ", ".join(f"{one:g}" for one in there) or "none"
            raise UsageError(
                f"--eps: {value:g} is not an epsilon of this comparison; expected one of {listed}"
            )
    wanted = defenses or [name for name in known if name != NO_DEFENSE]
    found = [
        row
        for row in report.results
        if row.setting.alternative in wanted and (not eps or row.setting.eps in (None, *eps))
    ]
    if not found:
        raise UsageError(
            "the comparison contains only the runs without a defense; choose them with --defense none"
        )
    return found


def _name(row: CompareRow, learners: bool, scenarios: bool) -> str:
    of = row.setting
    more = [of.learner] * learners + [of.scenario] * scenarios
    return printable(", ".join((of.name, f"{of.click_model} clicks", *more)))


def printable(text: str) -> str:
    """A name in which `?` replaces the characters that terminals and XML cannot print."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _no_audit(report: CompareReport, row: CompareRow) -> str:
    if not report.config.get("audit", True):
        return "the comparison ran without audits"
    of = row.setting
    reasons = [one.why for one in report.left_out if one.defense in ("audit", of.alternative)]
    reasons += [one.why for one in report.failed if one.defense == of.defense]
    return "; ".join(dict.fromkeys(reasons)) or "no audit of it was run"


def _loss(row: CompareRow) -> CheckReading:
    if row.setting.alternative == NO_DEFENSE:
        return CheckReading(Estimate(0.0, (0.0, 0.0)))
    value, ends = row.ndcg_difference.value, row.ndcg_difference.ci95
    if not row.ndcg_difference.known:
        return CheckReading(missing="there is no training without a defense to compare with")
    return CheckReading(Estimate(0.0 - value, None if ends is None else (0.0 - ends[1], 0.0 - ends[0])))


# --- attacks --------------------------------------------------------------------------------------


def click_attacks(methods: Sequence[str], *, every: bool) -> tuple[str, ...]:
    """The attacks among some that infer clicks; with `every` the others are skipped, else refused.

    Raises:
        UsageError: an unknown attack, or a refused one.
    """
    found = []
    for text in methods:
        problem = not_for_clicks([make(Attack, text)])
        if not problem:
            found.append(text)
        elif not every:
            name, why = next(iter(problem.items()))
            raise UsageError(f"--method {name}: {why}; expected attacks that max_attack_auc can be judged by")
    return tuple(found)


def untried_warnings(protocol: AttackSpec, kind: str) -> list[CodedWarning]:
    """A warning if attacks were named and a default one for the kind of messages is not among them."""
    ran = {name_in(text) for text in protocol.methods_on(kind)}
    usual = [make(Attack, text) for text in protocol.defaults_on(kind)]
    missing = [attack.label for attack in usual if attack.name not in ran]
    if not missing:
        return []
    return [
        coded(
            "untried attacks",
            f"max_attack_auc is not judged by {join_names(missing, 'or')}, which were not tried; "
            "leave out --method to judge by them too",
        )
    ]


def refusals(reasons: Mapping[str, str]) -> dict[str, str]:
    """Why attacks could not run, by their names; baselines are left out."""
    return {name: why for name, why in reasons.items() if not make(Attack, name).baseline}
