"""Results as rich tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.fact_warnings import print_facts
from foltr_audit.report.results.group_success import groups_table
from foltr_audit.report.results.group_utility import utility_groups_table
from foltr_audit.report.results.information import comparison_table, information_table
from foltr_audit.report.results.meaning import meaning
from foltr_audit.report.results.settings import differing, heading, setting_text
from foltr_audit.report.tables import attack_details as beside_results
from foltr_audit.report.tables.inquiries import print_inquiries
from foltr_audit.report.tables.layout import (
    below,
    by_method,
    method_table,
    method_text,
    of_world,
    percent,
    print_fitting,
    table,
    world,
)
from foltr_audit.utils.formatting import epsilon, short

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
    """The whole report: data, results with what stands beside them, utility, named queries, meaning."""
    console.print(dataset_line(report.dataset, report.config, report.results or report.counts))
    print_facts(report.facts, console)
    for name in dict.fromkeys(world(row) for row in report.results):
        _print_world(report, name, console)
    if len({row["learner"] for row in report.information}) > 1:
        console.print(comparison_table(report.information))
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
        console.print(escape(meaning(report.results)), style="bold", highlight=False)


def _print_world(report: AttackReport, name: str, console: Console) -> None:
    """The tables and lines of one click model and view."""
    rows = of_world(report.results, name)
    print_fitting(partial(_results_table, rows), _LESS_OF_RESULTS, console)
    console.print()
    print_fitting(partial(beside_results.scores_table, rows), beside_results.LESS_OF_SCORES, console)
    console.print()
    any_click = of_world(report.any_click, name)
    if any(row["auc"] is not None for row in any_click):
        said = partial(beside_results.any_click_table, any_click)
        print_fitting(said, beside_results.LESS_OF_ANY_CLICK, console)
        console.print()
    by_group = of_world(report.groups, name)
    if by_group:
        console.print(groups_table(by_group))
        console.print()
    by_place = of_world(report.places, name)
    if by_place:
        console.print(groups_table(by_place, "lists"))
        console.print()
    told = of_world(report.information, name)
    if told:
        console.print(information_table(told))
        console.print()
    for line in (
        *beside_results.identifiability_lines(of_world(report.identifiability, name)),
        *beside_results.calibration_lines(of_world(report.calibration, name)),
        *beside_results.refused_lines(of_world(report.refused, name)),
    ):
        console.print(line, highlight=False)
    console.print()


def _print_queries(report: AttackReport, console: Console) -> None:
    for table_of_queries in beside_results.query_tables(report.queries):
        console.print(table_of_queries)
        console.print()
    for line in beside_results.not_attacked_lines(report.queries):
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
"""What each table does without on a narrow terminal, first to last."""


def _results_table(rows: Sequence[Row], narrow: bool) -> Table:
    headings = COLUMNS.values()
    found = method_table(world(rows[0]), _lists(rows), headings, justify="right", space=0, narrow=narrow)
    several = len({row["eps_claimed"] for row in rows}) > 1
    for mine in by_method(rows):
        for row in mine:
            style = "dim" if row["baseline"] else None
            cells = [below(row, name) for name in COLUMNS]
            name = method_text(row["method"], narrow=narrow)
            found.add_row(name, epsilon(row["eps_claimed"]), *cells, style=style)
        if several:
            found.add_section()
    return found


def _lists(rows: Sequence[Row]) -> str:
    """How many lists stand behind the rows, one line per chain of defenses."""
    lines = [
        f"eps {epsilon(row['eps_claimed'])}: {row['lists']} lists of {row['queries']} queries; "
        f"{row['skipped']} without a click left out, {row['all_clicked']} with every document clicked kept"
        + ("" if math.isnan(row["clipped"]) else f"; {percent(row['clipped'])} of the steps clipped")
        for row in {row["defense"]: row for row in rows}.values()
    ]
    seen = "below each value: its 95 % interval over queries"
    return "\n".join([seen, *lines])


def _utility_table(rows: Sequence[Row], words: str, narrow: bool) -> Table:
    found = table(
        f"nDCG@10 on {' or '.join(sorted({str(row['evaluated_on']) for row in rows}, reverse=True))}",
        f"ceiling: what a perfect ranker reaches; queries without relevant documents {words}".rstrip(),
        0 if narrow else 1,
    )
    found.add_column("trained on")
    apart = [name for name in differing(rows) if name not in ("trained_on", "defense")]
    labels = {tuple(str(row.get(name)) for name in (*apart, "trained_on", "eps_claimed")) for row in rows}
    apart += ["defense"] if len(labels) < len(rows) else []
    for name in apart:
        found.add_column(heading(name), overflow="fold")
    for text in ("eps", "untrained", "trained", "undefended", "ceiling", "clipped", "runs"):
        found.add_column(text, justify="right", no_wrap=True)
    for row in rows:
        found.add_row(
            escape(row["trained_on"]),
            *(escape(setting_text(row, name, rows)) for name in apart),
            epsilon(row["eps_claimed"]),
            short(row["ndcg@10_untrained"]),
            short(row["ndcg@10"]),
            short(row["ndcg@10_undefended"]),
            short(row["ndcg@10_ceiling"]),
            percent(row["clipped"]),
            str(row["runs"]),
        )
    return found
