"""The report of `attack` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.fact_warnings import print_facts
from foltr_audit.report.results.meaning import describe_results
from foltr_audit.report.results.settings import differing
from foltr_audit.report.tables import attack_details as details
from foltr_audit.report.tables.group_tables import groups_table, utility_groups_table
from foltr_audit.report.tables.inquiries import print_inquiries
from foltr_audit.report.tables.layout import (
    describe_world,
    epsilon_column,
    group_by_world,
    in_method_order,
    interval_columns,
    is_baseline,
    method_columns,
    percent,
    percent_column,
    print_fitting,
    rows_table,
    setting_columns,
    short_columns,
    text_column,
)
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NORMALISED = {"none": "not normalised"}
COLUMNS = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "exact": "exact",
    "auc": "AUC",
}


def print_attack(report: AttackReport, console: Console) -> None:
    """The whole report: data, results and their details, utility, named queries, and what it all means."""
    console.print(dataset_line(report.dataset, report.config, report.results or report.counts))
    print_facts(report.facts, console)
    for name, rows in group_by_world(report.results).items():
        _print_world(report, name, rows, console)
    if len({row["learner"] for row in report.information}) > 1:
        console.print(details.learners_table(report.information))
        console.print()
    if report.utility:
        words = no_relevant(report.config)
        print_fitting(partial(_utility_table, report.utility, words), _LESS_OF_UTILITY, console)
        console.print()
    if report.utility_groups:
        console.print(utility_groups_table(report.utility_groups))
        console.print()
    _print_queries(report, console)
    print_inquiries(report, console)
    if any(not row["baseline"] for row in report.results) or not (
        report.counts or report.query_identification or report.intent_inference or report.linkage
    ):
        console.print(escape(describe_results(report.results)), style="bold", highlight=False)


def _print_world(report: AttackReport, name: str, rows: Sequence[Row], console: Console) -> None:
    """The tables and lines of one click model and view."""

    def here(kind: Sequence[Row]) -> list[Row]:
        return group_by_world(kind).get(name, [])

    print_fitting(partial(_results_table, rows), _LESS_OF_RESULTS, console)
    console.print()
    print_fitting(partial(details.scores_table, rows), details.LESS_OF_SCORES, console)
    console.print()
    any_click = here(report.any_click)
    if any(row["auc"] is not None for row in any_click):
        print_fitting(partial(details.any_click_table, any_click), details.LESS_OF_ANY_CLICK, console)
        console.print()
    for kind, of in ((report.groups, "clients"), (report.places, "lists")):
        if mine := here(kind):
            console.print(groups_table(mine, of))
            console.print()
    if learned := here(report.information):
        console.print(details.information_table(learned))
        console.print()
    for line in (
        *details.identifiability_lines(here(report.identifiability)),
        *details.calibration_lines(here(report.calibration)),
        *details.refused_lines(here(report.refused)),
    ):
        console.print(line, highlight=False)
    console.print()


def _print_queries(report: AttackReport, console: Console) -> None:
    for found in details.query_tables(report.queries):
        console.print(found)
        console.print()
    for line in details.not_attacked_lines(report.queries):
        console.print(line, highlight=False)


def dataset_line(data: Row, config: Row, rows: Sequence[Row]) -> str:
    """The data, its preparation and the seed in one line."""
    kind = "synthetic data" if data["synthetic"] else "data"
    fold = data["folds"][0]
    sizes = f"{fold['train']} / {fold['vali']} / {fold['test']} queries, " if "train" in fold else ""
    intents = ""
    if "intents" in data:
        origin = f" of {data['intents_from']}" if data["intents_from"] else ""
        intents = f"{data['intents']} intents{origin}, "
    folds = f", first of {len(data['folds'])} folds" if len(data["folds"]) > 1 else ""
    learners = "".join(sorted({f", {row['learner'].partition(':')[0]}" for row in rows} - {", unknown"}))
    settings = ", ".join(sorted({row["pdgd"] for row in rows} - {"none", "unknown/unknown"}))
    pdgd = f", PDGD {settings}" if settings else ""
    width = f"{data['parameters']} parameters" if data["features"] is None else f"{data['features']} features"
    fingerprint = f", fingerprint {fold['fingerprint'][:12]}" if fold["fingerprint"] else ""
    short_ones = data.get("queries_too_short", 0)
    left_out = f"; {short_ones} attacked queries with too few documents left out" if short_ones else ""
    return escape(
        f"{kind} {data['source'] or 'of an unknown source'} ({sizes}{intents}{width}, "
        f"{_NORMALISED.get(data['normalised'], data['normalised'])}{folds}{fingerprint}){learners}{pdgd}, "
        f"seed {config.get('seed', 'several')}{left_out}"
    )


def no_relevant(config: Row) -> str:
    """How queries without relevant documents count, in words."""
    specs = (config, config.get("spec", {}), *config.get("cells", ()))
    tables = [spec.get("train", {}) for spec in specs]
    words = {"zero": "count 0", "skip": "are left out"}
    return " or ".join(
        text for name, text in words.items() if any(table.get("no_relevant") == name for table in tables)
    )


_LESS_OF_RESULTS = ("F1", "accuracy", "recall", "exact")
_LESS_OF_UTILITY = ("runs", "clipped", "ceiling", "untrained")
"""Columns that each table leaves out on a narrow terminal, first to last."""


def _results_table(rows: Sequence[Row], narrow: bool) -> Table:
    several = len({row["eps_claimed"] for row in rows}) > 1
    return rows_table(
        describe_world(rows[0]),
        _lists(rows),
        [*method_columns(narrow=narrow), *interval_columns(COLUMNS)],
        in_method_order(rows),
        space=0,
        dim=is_baseline,
        section=lambda row: several and row["method"],
    )


def _lists(rows: Sequence[Row]) -> str:
    """How many lists the rows are means over, one line per chain of defenses."""
    lines = [
        f"eps {epsilon(row['eps_claimed'])}: {row['lists']} lists of {row['queries']} queries; "
        f"{row['skipped']} without a click left out, {row['all_clicked']} with every document clicked kept"
        + ("" if math.isnan(row["clipped"]) else f"; {percent(row['clipped'])} of the steps clipped")
        for row in {row["defense"]: row for row in rows}.values()
    ]
    seen = "below each value: its 95 % interval over queries"
    return "\n".join([seen, *lines])


def _utility_table(rows: Sequence[Row], words: str, narrow: bool) -> Table:
    apart = [name for name in differing(rows) if name not in ("trained_on", "defense")]
    # The chain is a column only where epsilon and the other settings do not tell the rows apart
    labels = {tuple(str(row.get(name)) for name in (*apart, "trained_on", "eps_claimed")) for row in rows}
    apart += ["defense"] if len(labels) < len(rows) else []
    return rows_table(
        f"nDCG@10 on {' or '.join(sorted({str(row['evaluated_on']) for row in rows}, reverse=True))}",
        f"ceiling: what a perfect ranker reaches; queries without relevant documents {words}".rstrip(),
        [
            text_column("trained on", "trained_on", "words"),
            *setting_columns(rows, apart),
            epsilon_column(),
            *short_columns({"untrained": "ndcg@10_untrained", "trained": "ndcg@10"}),
            *short_columns({"undefended": "ndcg@10_undefended", "ceiling": "ndcg@10_ceiling"}),
            percent_column("clipped", "clipped"),
            text_column("runs", "runs", "number"),
        ],
        rows,
        space=0 if narrow else 1,
    )
