"""The subjects of a check: one for each defense and world of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.evidence.check.attack_choice import refusals
from foltr_audit.judge.bootstrap import Interval
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.compare import CompareReport

_WORLD = ("learner", "scenario")


@dataclass(frozen=True, kw_only=True)
class ValueWithInterval:
    """A number with its 95 % interval, or why there is none.

    Attributes:
        value: the number; None if it is missing.
        interval: its interval; None if it has none.
        missing: why the value is missing, or why the interval of a value is.
    """

    value: float | None = None
    interval: Interval | None = None
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckSubject:
    """One defense in one world.

    Attributes:
        name: its name, e.g. `published, eps 1.2, perfect clicks`.
        attacks: a row with `method`, `auc` and `auc_ci95` for each attack.
        refused: why attacks could not run, by their names.
        all_attacks: whether the AUC cannot be judged if an attack could not run.
        no_attack: why there are no attacks.
        claims: a row of `CompareReport.claims` for each audited view.
        no_audit: why there are no claims.
        ndcg: offline nDCG@10.
        loss: nDCG@10 without a defense minus its own.
    """

    name: str
    attacks: Sequence[Row] = ()
    refused: dict[str, str] = field(default_factory=dict)
    all_attacks: bool = True
    no_attack: str = "no attack was run"
    claims: Sequence[Row] = ()
    no_audit: str = "no audit was run"
    ndcg: ValueWithInterval = ValueWithInterval()
    loss: ValueWithInterval = ValueWithInterval()


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
    learners, scenarios = (len({row[name] for row in report.results}) > 1 for name in _WORLD)
    return [
        CheckSubject(
            name=_name(row, learners=learners, scenarios=scenarios),
            attacks=[one for one in _rows_of(row, report.attacks) if not one["baseline"]],
            refused=refusals(_rows_of(row, report.refused)),
            all_attacks=all_attacks,
            claims=[one for one in report.claims if all(one[name] == row[name] for name in _CLAIM)],
            no_audit=_no_audit(report, row),
            ndcg=ValueWithInterval(value=row["ndcg@10"], interval=_pair(row["ndcg@10_ci95"])),
            loss=_loss(row),
        )
        for row in chosen
    ]


_ATTACK = ("learner", "scenario", "click_model", "name", "defense")
_CLAIM = ("learner", "scenario", "name", "defense")


def _rows_of(row: Row, rows: Sequence[Row]) -> list[Row]:
    return [one for one in rows if all(one[name] == row[name] for name in _ATTACK)]


def chosen_rows(report: CompareReport, defenses: Sequence[str], eps: Sequence[float]) -> list[Row]:
    """The rows of a comparison that are judged; arguments and errors as for `subjects_of`."""
    known = dict.fromkeys(row["alternative"] for row in report.results)
    left_out = {row["defense"]: row["why"] for row in report.left_out}
    for name in defenses:
        if name not in known:
            why = f"left out: {left_out[name]}" if name in left_out else suggest_name(name, known)
            raise UsageError(f"--defense: {name!r} is not a defense of this comparison; {why}")
    there = sorted({row["eps"] for row in report.results if row["eps"] is not None})
    for value in eps:
        if value not in there:
            listed = ", ".join(f"{one:g}" for one in there) or "none"
            raise UsageError(
                f"--eps: {value:g} is not an epsilon of this comparison; expected one of {listed}"
            )
    wanted = defenses or [name for name in known if name != "none"]
    found = [
        row
        for row in report.results
        if row["alternative"] in wanted and (not eps or row["eps"] is None or row["eps"] in eps)
    ]
    if not found:
        raise UsageError(
            "the comparison contains only the runs without a defense; check them with --defense none"
        )
    return found


def _name(row: Row, *, learners: bool, scenarios: bool) -> str:
    more = [f"{row['click_model']} clicks"]
    more += [row["learner"]] if learners else []
    more += [row["scenario"]] if scenarios else []
    return printable(", ".join((row["name"], *more)))


def printable(text: str) -> str:
    """A name in which `?` replaces the characters that terminals and XML cannot print."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _no_audit(report: CompareReport, row: Row) -> str:
    if not report.config.get("audit", True):
        return "the comparison ran without audits"
    reasons = [one["why"] for one in report.left_out if one["defense"] in ("audit", row["alternative"])]
    reasons += [one["why"] for one in report.failed if one["defense"] == row["defense"]]
    return "; ".join(dict.fromkeys(reasons)) or "no audit of it was run"


def _pair(interval: Sequence[float] | None) -> Interval | None:
    return None if interval is None else (float(interval[0]), float(interval[1]))


def _loss(row: Row) -> ValueWithInterval:
    if row["alternative"] == "none":
        return ValueWithInterval(value=0.0, interval=(0.0, 0.0))
    difference, interval = row["ndcg@10_difference"], _pair(row["ndcg@10_difference_ci95"])
    if difference is None:
        return ValueWithInterval(missing="there is no training without a defense to compare with")
    flipped = None if interval is None else (0.0 - interval[1], 0.0 - interval[0])
    return ValueWithInterval(value=0.0 - difference, interval=flipped)
