"""The report of `attack` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.attack_rows import AttackRow
from foltr_audit.report.results.fact_warnings import print_facts
from foltr_audit.report.results.meaning import describe_results
from foltr_audit.report.results.proven_rows import ProvenRow
from foltr_audit.report.results.settings import differing
from foltr_audit.report.results.whole_run import run_caption
from foltr_audit.report.tables import attack_details as details
from foltr_audit.report.tables.columns import (
    claimed_column,
    dataset_line,
    describe_world,
    eps_text,
    estimate_column,
    group_by_world,
    in_method_order,
    method_columns,
    no_relevant,
    percent,
    setting_columns,
    systems_of,
    utility_table,
)
from foltr_audit.report.tables.group_tables import groups_table, utility_groups_table
from foltr_audit.report.tables.inquiries import print_inquiries
from foltr_audit.report.tables.promises import ANY_ATTACK, EXPLAINED, promise_lines, with_ceilings
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from rich.console import Console

RESULT_COLUMNS: list[Column[AttackRow]] = [
    *method_columns(),
    estimate_column("accuracy", lambda row: row.found.accuracy),
    estimate_column("precision", lambda row: row.found.precision),
    estimate_column("recall", lambda row: row.found.recall),
    estimate_column("F1", lambda row: row.found.f1),
    estimate_column("exact\nmatch", lambda row: row.found.exact),
    estimate_column("AUC", lambda row: row.found.auc),
]
"""The columns of the results of attacks."""


def print_attack(report: AttackReport, console: Console) -> None:
    """The whole report: data, results and their details, utility, named queries, and what it all means."""
    attacked = systems_of(report.results or report.counts)
    console.print(dataset_line(report.dataset, report.config, attacked))
    known = report.config.get("known")
    print_facts(report.facts, console, known if isinstance(known, Mapping) else None)
    for name, rows in group_by_world(report.results).items():
        _print_world(report, name, rows, console)
    if len({row.setting.learner for row in report.information}) > 1:
        _print(details.learners_table(report.information), console)
    if report.utility:
        _print(utility_table(report.utility, no_relevant(report.config)), console)
    if report.utility_groups:
        _print(utility_groups_table(report.utility_groups), console)
    if any(math.isfinite(row.eps_proven) for row in report.proven):
        _print(_proven_table(report.proven), console)
    print_named_queries(report, console)
    print_inquiries(report, console)
    others = (
        report.counts
        or report.query_identification
        or report.intent_inference
        or report.linkage
        or report.tasks
    )
    if any(not row.baseline for row in report.results) or not others:
        console.print(escape(describe_results(report.results)), style="bold", highlight=False)


def print_named_queries(report: AttackReport, console: Console) -> None:
    """What was found in the lists of the queries that --queries names."""
    for found in details.query_tables(report.queries):
        _print(found, console)
    for line in details.not_attacked_lines(report.queries):
        console.print(escape(line), highlight=False)


def _print(table: Table, console: Console) -> None:
    print_table(table, console)
    console.print()


def _print_world(report: AttackReport, name: str, rows: Sequence[AttackRow], console: Console) -> None:
    """The tables and lines of one click model and view."""
    lines = with_ceilings(rows)
    _print(_results_table(lines), console)
    _print(details.scores_table(lines), console)
    any_click = group_by_world(report.any_click).get(name, [])
    if any(row.auc.known for row in any_click):
        _print(details.any_click_table(any_click), console)
    for kind, of in ((report.groups, "clients"), (report.places, "lists")):
        if mine := group_by_world(kind).get(name, []):
            _print(groups_table(mine, of), console)
    if learned := group_by_world(report.information).get(name, []):
        _print(details.information_table(learned), console)
    for line in (
        *promise_lines(group_by_world(report.promises).get(name, [])),
        *details.published_lines(group_by_world(report.published).get(name, [])),
        *details.identifiability_lines(group_by_world(report.identifiability).get(name, [])),
        *details.calibration_lines(group_by_world(report.calibration).get(name, [])),
        *details.refused_lines(group_by_world(report.refused).get(name, [])),
    ):
        console.print(escape(line), highlight=False)
    console.print()


def _results_table(rows: Sequence[AttackRow]) -> Table:
    several = len({row.eps_claimed for row in rows}) > 1
    return make_table(
        describe_world(rows[0]),
        RESULT_COLUMNS,
        in_method_order(rows),
        caption=_lists(rows),
        space=0,
        dim=lambda row: row.baseline,
        section=lambda row: several and row.method,
        spare=("F1", "accuracy", "recall", "exact\nmatch"),
    )


def _lists(rows: Sequence[AttackRow]) -> str:
    """How many lists the rows are means over, one line per chain of defenses."""
    lines = [
        f"claimed {epsilon(row.eps_claimed)}: {row.found.lists} lists of {row.found.queries} queries; "
        f"{row.found.skipped} without a click left out, {row.found.all_clicked} with every document clicked "
        "kept"
        + (f"; {row.found.unknown} whose clicks are not known left out" if row.found.unknown else "")
        + ("" if math.isnan(row.found.clipped) else f"; {percent(row.found.clipped)} of the steps clipped")
        for row in {row.setting.defense: row for row in rows}.values()
    ]
    seen = "below each value: its 95 % interval over queries"
    known = [EXPLAINED] if any(row.method == ANY_ATTACK for row in rows) else []
    return "\n".join([seen, *known, *lines])


def _proven_table(rows: Sequence[ProvenRow]) -> Table:
    apart = [name for name in differing([row.setting for row in rows]) if name not in ("trained_on", "sees")]
    unit = rows[0].unit
    columns: list[Column[ProvenRow]] = [
        Column("server sees", lambda row: row.setting.sees or "", "name"),
        *setting_columns(rows, apart),
        claimed_column(),
        Column("round", lambda row: eps_text(row.eps_proven)),
        Column("run", lambda row: eps_text(row.run.eps) + row.run.of_clicks),
    ]
    return make_table(
        "proven epsilon, whatever the attack",
        columns,
        rows,
        caption=f"round: proven for one {unit} in a message of training; "
        f"{run_caption(row.run for row in rows)}",
    )
