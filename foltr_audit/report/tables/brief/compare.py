"""The short answer of `compare`: which defense to use, and how the others did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import CompareRow
from foltr_audit.report.results.compare_summary import describe_progress
from foltr_audit.report.results.compare_worlds import WorldRows, worlds
from foltr_audit.report.results.decision import Decision, decide
from foltr_audit.report.tables.brief.short_answer import MOST_ROWS, BriefAnswer, first_rows
from foltr_audit.report.tables.columns import estimate_cell
from foltr_audit.report.tables.compare import about_line, no_sum_lines, print_compare, server_lines
from foltr_audit.report.tables.compare_columns import (
    BYTES,
    NO_SUM,
    claimed_cell,
    difference_cell,
    known_cell,
    name_column,
    verdict_column,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_brief_compare(report: CompareReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer; where no cell is done the whole report, which says why."""
    answer = brief_compare(report)
    if answer is None:
        print_compare(report, console)
    else:
        answer.print(console, quiet=quiet)


def brief_compare(report: CompareReport) -> BriefAnswer | None:
    """The short answer; None where no cell is done."""
    decision = decide(report)
    if decision is None:
        return None
    every = worlds(report)
    world = max(every, key=lambda one: _auc_of(decision, one))
    shown = _shown(world.results, decision)
    rows, more = first_rows(shown, "rows")
    rest = len(world.results) - len(shown)
    others = [one.name for one in every if one is not world]
    left_out = [
        *others,
        *([f"{rest} rows of larger epsilons"] if rest else []),
        *more,
        "every attack metric, p-values and the checks of claims",
    ]
    failed = [f"failed: {one.defense}, {one.click_model} clicks: {one.why}" for one in report.failed]
    return BriefAnswer(
        conclusion=(*describe_progress(report), *decision.sentences),
        about=about_line(report),
        table=_table(world, rows, decision),
        notes=(*server_lines(report), *no_sum_lines(world), *failed),
        left_out=tuple(left_out),
    )


def _auc_of(decision: Decision, world: WorldRows) -> float:
    """How well the best attack does in a world: on the recommended defense, or on the best one."""
    chosen = decision.best.rows[0].setting.key if decision.best else None
    rows = [row for row in world.results if row.auc.known and chosen in (None, row.setting.key)]
    return min((row.auc.value for row in rows), default=0.0)


def _shown(rows: Sequence[CompareRow], decision: Decision) -> list[CompareRow]:
    """All rows, or if there are too many those of the smallest epsilon and the recommended one."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    least = min((row.setting.eps for row in rows if row.setting.eps is not None), default=None)
    return [
        row for row in rows if row.setting.eps in (None, least) or decision.judgement(row) == "recommended"
    ]


def _table(world: WorldRows, rows: Sequence[CompareRow], decision: Decision) -> Table:
    setting = rows[0].setting

    def auc(row: CompareRow) -> Cell:
        return Cell(NO_SUM) if row.unread else known_cell(row.auc)

    columns: list[Column[CompareRow]] = [
        name_column("defense", world.called),
        Column("claimed", lambda row: claimed_cell(row.setting.eps_claimed, 0.0)),
        Column("AUC", auc),
        Column("nDCG@10", lambda row: estimate_cell(row.ndcg)._replace(below="")),
        Column(
            "difference", lambda row: difference_cell(row.ndcg_difference, world.p(row))._replace(below="")
        ),
        BYTES,
        verdict_column(decision),
    ]
    return make_table(
        f"{setting.click_model} clicks, scenario {setting.scenario}",
        columns,
        rows,
        caption="claimed: epsilon; AUC of the best attack, and its 95 % interval; difference of nDCG@10 "
        "to no defense; bytes that a client sends in a round",
        spare=("bytes", "claimed", "difference"),
    )
