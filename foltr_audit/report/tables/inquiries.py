"""On a terminal: queries told from others, counts told from sums, and what tells clients apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.attack_details import refused_lines
from foltr_audit.report.tables.layout import (
    below,
    beside,
    by_method,
    fewer_choices,
    method_table,
    of_world,
    setting_of,
    share_of,
    world,
)
from foltr_audit.report.tables.population import intent_table, link_table, population_sentences
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from foltr_audit.report.results.attack import AttackReport

_QUERIES = {
    "accuracy": "accuracy",
    "mrr": "MRR",
    "accuracy_with_pairs": "with pairs",
    "mrr_with_pairs": "MRR",
}
_COUNTS = {"error": "error", "rmse": "RMSE", "spearman": "Spearman", "exact": "exact"}


def print_inquiries(report: AttackReport, console: Console) -> None:
    """The tables of every kind, one per click model and view, and what they say."""
    tables = [
        *_tables(report.query_identification, query_table),
        *_tables(report.counts, count_table),
        *_tables(report.intent_inference, intent_table),
        *_tables(report.linkage, link_table),
    ]
    for found in tables:
        console.print(found)
        console.print()
    told = {world(row) for row in report.results}  # their refusals stand below the results
    for line in refused_lines([row for row in report.refused if world(row) not in told]):
        console.print(line, highlight=False)
    lines = (
        *_query_sentences(report.query_identification),
        *_count_sentences(report.counts),
        *population_sentences(report.intent_inference, report.linkage),
    )
    for line in lines:
        console.print(line, style="bold", highlight=False)


def _tables(rows: Sequence[Row], made: Callable[[str, Sequence[Row]], Table]) -> Iterator[Table]:
    for name in dict.fromkeys(world(row) for row in rows):
        yield made(name, of_world(rows, name))


def query_table(name: str, rows: Sequence[Row]) -> Table:
    """How often each attack names the query, beside guessing; rows of one world."""
    found = method_table(f"which query? {name}", _choices(rows), _QUERIES.values())
    chance, chance_mrr = short(rows[0]["chance"]), short(rows[0]["chance_mrr"])
    found.add_row("guessing", "", chance, chance_mrr, chance, chance_mrr, style="dim")
    for mine in by_method(rows):
        for row in mine:
            cells = [beside(row, metric) for metric in _QUERIES]
            found.add_row(escape(row["method"]), epsilon(row["eps_claimed"]), *cells)
    return found


def _choices(rows: Sequence[Row]) -> str:
    row = rows[0]
    return (
        f"one of {row['choices']} queries{fewer_choices(row)}; "
        f"{row['messages']} messages of {row['queries']} queries\n"
        f"with pairs: the {row['messages_with_pairs']} from whose clicks anything was learnt; the others say "
        "nothing of the query\nMRR: mean reciprocal rank of the right one"
    )


def count_table(name: str, rows: Sequence[Row]) -> Table:
    """How well click counts are estimated, beside estimates without a message; rows of one world."""
    headings = _COUNTS.values()
    found = method_table(f"click counts, {name}", _sums(rows), headings, justify="right", space=2)
    for mine in by_method(rows):
        for row in mine:
            cells = [below(row, metric) for metric in _COUNTS]
            style = "dim" if row["baseline"] else None
            found.add_row(escape(row["method"]), epsilon(row["eps_claimed"]), *cells, style=style)
    return found


def _sums(rows: Sequence[Row]) -> str:
    row = rows[0]
    return (
        f"{row['lists']} lists of {row['queries']} queries, sums over {_added(row)}\n"
        "below each value: its 95 % interval over queries; errors are those of click-through rates\n"
        "constant: the best one in hindsight; prior: what is usual, without a sum"
    )


def _added(row: Row) -> str:
    """What each sum adds up, e.g. `20 clients`."""
    least, most = row["clients_min"], row["clients_max"]
    count = f"{least}" if least == most else f"{least} to {most}"
    return f"{count} messages of one client" if row["view"] == "pooled" else f"{count} clients"


def _query_sentences(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield escape(
            f"{setting_of(row)}: {row['method']} names {share_of(row['accuracy'])} of the queries among "
            f"{row['choices']}, {share_of(row['accuracy_with_pairs'])} where anything was learnt "
            f"(guessing: {share_of(row['chance'])})."
        )


def _count_sentences(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row["baseline"]:
            continue
        usual = [
            other
            for other in rows
            if other["method"] == "position-prior:median" and setting_of(other) == setting_of(row)
        ]
        beside_it = f" (without the sums: {short(usual[0]['error'])})" if usual else ""
        yield escape(
            f"{setting_of(row)}: {row['method']} tells click-through rates from sums over {_added(row)} "
            f"to within {short(row['error'])} in the mean{beside_it}."
        )
