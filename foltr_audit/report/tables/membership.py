"""The report of `membership` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.membership import MembershipMetric, MembershipReport, MembershipRow
from foltr_audit.report.results.settings import setting_label
from foltr_audit.report.tables.columns import (
    dataset_line,
    estimate_column,
    no_relevant,
    systems_of,
    utility_table,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console

_KNOWN = {
    "client": "the queries of a candidate are known",
    "log": "the queries of a candidate, and the draws behind its lists and clicks, are known",
}


def print_membership(report: MembershipReport, console: Console) -> None:
    """The whole report: data, a table per setting, what is proven, utility, and what it all means."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.results)))
    settings = list(dict.fromkeys(_key(row) for row in report.results))
    for setting in settings:
        rows = [row for row in report.results if _key(row) == setting]
        print_table(_table(rows, several=len(settings) > 1, report=report), console)
        for line in _proofs(rows):
            console.print(escape(line), highlight=False)
        console.print()
    print_table(utility_table(report.utility, no_relevant(report.config)), console)
    console.print()
    for line in conclusions(report.results):
        console.print(escape(line), style="bold", highlight=False)


def _key(row: MembershipRow) -> str:
    return str(row.setting)


def _table(rows: Sequence[MembershipRow], *, several: bool, report: MembershipReport) -> Table:
    first, runs = rows[0], len({row.run for row in rows}) > 1
    every = [row.setting for row in report.results]
    label = setting_label(first.setting, every) if several else ""
    label = "" if first.setting.defense.startswith(label) else f"{label}\n"
    columns: list[Column[MembershipRow]] = [
        Column("sees", lambda row: row.observed, "words"),
        *([Column[MembershipRow]("run", lambda row: str(row.run))] if runs else []),
        Column("method", lambda row: row.method, "name"),
        *_columns("AUC", lambda row: row.auc),
        *_columns("TPR at 1 %", lambda row: row.tpr_at_1),
        *_columns("TPR at .1 %", lambda row: row.tpr_at_01),
    ]
    auc, one, tenth = (short(each.chance) for each in (first.auc, first.tpr_at_1, first.tpr_at_01))
    return make_table(
        f"{label}{first.setting.defense}\n"
        f"members among {first.candidates} candidates, {first.members} of them in a federation",
        columns,
        rows,
        caption=f"{first.federations} federations of {first.rounds} rounds, each attacked with the others as "
        f"shadows; {_KNOWN[first.of]}. TPR: members that are named, at 1 % and at .1 % false alarms. Below "
        f"each value: its 95 % interval. Chance: {auc}, {one} and {tenth}. Ceiling: the most that the proof "
        "leaves to any attack.",
        section=lambda row: row.view,
    )


def _columns(
    name: str, metric: Callable[[MembershipRow], MembershipMetric]
) -> tuple[Column[MembershipRow], Column[MembershipRow]]:
    """A metric and its ceiling."""

    def ceiling(row: MembershipRow) -> Cell:
        found = metric(row)
        text = "none" if found.ceiling is None else short(found.ceiling)
        return Cell(text, mark="bad" if found.broken else "")

    return estimate_column(name, lambda row: metric(row).found), Column("ceiling", ceiling)


def _proofs(rows: Sequence[MembershipRow]) -> Iterator[str]:
    """What is proven for each view, once."""
    for row in {row.view: row for row in rows}.values():
        of = f"one client over {row.rounds} round{'s' * (row.rounds > 1)}"
        if math.isinf(row.eps_upper):
            yield f"{row.observed}: nothing is proven of {of}: {row.upper_how}"
        else:
            delta = f", delta {row.delta:g}" if row.delta else ""
            yield f"{row.observed}: epsilon {row.eps_upper:.3g}{delta} of {of}: {row.upper_how}"


def conclusions(rows: Sequence[MembershipRow]) -> Iterator[str]:
    """What the attacks show together: a sentence for each setting and view."""
    settings = [row.setting for row in rows]
    for key in dict.fromkeys((_key(row), row.view) for row in rows):
        mine = [row for row in rows if (_key(row), row.view) == key]
        best = max(mine, key=lambda row: row.auc.found.value)
        several = len({str(one) for one in settings}) > 1
        where = f"{setting_label(best.setting, settings)}: " if several else ""
        yield f"{where}{best.observed}: {_shown(best)}."


def _shown(row: MembershipRow) -> str:
    ends = row.auc.found.ci95
    if ends is None:
        return "too few federations to tell"
    if ends[0] <= row.auc.chance:
        return "no attack tells members from others better than chance"
    found = row.tpr_at_1.found.value
    return (
        f"{row.method} tells members from others, AUC {short(row.auc.found.value)}; it names "
        f"{100 * found:.3g} % of them with 1 % false alarms"
    )
