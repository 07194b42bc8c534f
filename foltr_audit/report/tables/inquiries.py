"""Attacks on queries, counts, intents and clients, as tables and sentences on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.report.results.wording import whole_percent
from foltr_audit.report.tables.attack_details import refused_lines
from foltr_audit.report.tables.layout import (
    describe_world,
    group_by_world,
    in_method_order,
    interval_columns,
    is_baseline,
    method_columns,
    reference_row,
    rows_table,
)
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
_INTENTS = {"accuracy": "accuracy", "balanced_accuracy": "balanced", "bits": "bits"}
_LINKS = {"accuracy": "accuracy", "mrr": "MRR"}


def print_inquiries(report: AttackReport, console: Console) -> None:
    """The tables of every kind, one per click model and view, and a sentence per attack."""
    for rows, build in (
        (report.query_identification, query_table),
        (report.counts, count_table),
        (report.intent_inference, intent_table),
        (report.linkage, link_table),
        (report.tasks, task_table),
    ):
        for name, mine in group_by_world(rows).items():
            console.print(build(name, mine))
            console.print()
    printed = group_by_world(report.results)  # refusals of these worlds stand below their results
    for line in refused_lines([row for row in report.refused if describe_world(row) not in printed]):
        console.print(line, highlight=False)
    for line in (
        *_query_sentences(report.query_identification),
        *_count_sentences(report.counts),
        *_intent_sentences(report.intent_inference),
        *_link_sentences(report.linkage),
    ):
        console.print(escape(line), style="bold", highlight=False)


# --- tables ---------------------------------------------------------------------------------------


def query_table(name: str, rows: Sequence[Row]) -> Table:
    """How often each attack names the query, compared with guessing; rows of one world."""
    row = rows[0]
    caption = (
        f"one of {row['choices']} queries{_fewer_choices(row)}; "
        f"{row['messages']} messages of {row['queries']} queries\n"
        f"with pairs: the {row['messages_with_pairs']} from whose clicks anything was learnt; the others say "
        "nothing of the query\nMRR: mean reciprocal rank of the right one"
    )
    guessing = {name: row["chance_mrr" if name.startswith("mrr") else "chance"] for name in _QUERIES}
    return _metrics_table(
        f"which query? {name}", caption, _QUERIES, [_guess(guessing), *in_method_order(rows)]
    )


def count_table(name: str, rows: Sequence[Row]) -> Table:
    """How well click counts are estimated, also without a message; rows of one world."""
    row = rows[0]
    caption = (
        f"{row['lists']} lists of {row['queries']} queries, sums over {_summands(row)}\n"
        "below each value: its 95 % interval over queries; errors are those of click-through rates\n"
        "constant: the best one in hindsight; prior: what is usual, without a sum"
    )
    columns = [*method_columns(), *interval_columns(_COUNTS)]
    ordered = in_method_order(rows)
    return rows_table(f"click counts, {name}", caption, columns, ordered, space=2, dim=is_baseline)


def intent_table(name: str, rows: Sequence[Row]) -> Table:
    """How often each attack names the intent, also without a message; rows of one world."""
    first = rows[0]
    mixed = f"; left out: {first['mixed']} with several intents" if first["mixed"] else ""
    few = f"; {first['left_over']} messages too few of a client" if first["left_over"] else ""
    caption = (
        f"{first['intents']} intents; {first['decisions']} decisions, "
        f"{first['clients']} clients{mixed}{few}\n"
        "balanced: mean over intents; bits: log2 of the probability of the truth, above even odds\n"
        "relevant shown: the intent of which most relevant documents were shown; 95 % intervals over clients"
    )
    even = first["chance"]
    lines = [_guess({"accuracy": even, "balanced_accuracy": even, "bits": 0.0})]
    for row in in_method_order(rows):
        of = f" ({row['messages_together']} messages)" if row["messages_together"] > 1 else ""
        usual = {"accuracy": row["most_frequent"], "balanced_accuracy": even, "bits": None}
        shown = reference_row(f"relevant shown{of}", eps=row["eps_claimed"], bits=None)
        for metric, source in (("accuracy", "shown"), ("balanced_accuracy", "shown_balanced")):
            shown |= {metric: row[source], f"{metric}_ci95": row[f"{source}_ci95"]}
        lines += [reference_row(f"most frequent{of}", eps=row["eps_claimed"], **usual), shown, row]
    return _metrics_table(f"which intent? {name}", caption, _INTENTS, lines)


def link_table(name: str, rows: Sequence[Row]) -> Table:
    """How often a client's next message is named, also in simple ways; rows of one world."""
    row = rows[0]
    caption = (
        f"one of {row['choices']} messages of the next round{_fewer_choices(row)}; "
        f"{row['messages']} messages of {row['clients']} clients\n"
        "count: nearest number of interactions; same-queries: most queries in common\n"
        "MRR: mean reciprocal rank of the client's own; 95 % intervals over clients"
    )
    guessing = _guess({"accuracy": row["chance"], "mrr": row["chance_mrr"]})
    return _metrics_table(f"same client? {name}", caption, _LINKS, [guessing, *in_method_order(rows)])


def task_table(name: str, rows: Sequence[Row]) -> Table:
    """Whatever tasks of other packages measure; rows of one world."""
    tasks = ", ".join(dict.fromkeys(row["task"] for row in rows))
    names = dict.fromkeys(key.removesuffix("_ci95") for row in rows for key in row if key.endswith("_ci95"))
    caption, metrics = "95 % intervals beside the values", {name: name for name in names}
    return _metrics_table(f"{tasks}: {name}", caption, metrics, in_method_order(rows))


def _metrics_table(title: str, caption: str, metrics: dict[str, str], rows: Sequence[Row]) -> Table:
    columns = [*method_columns(), *interval_columns(metrics, "name", beside=True)]
    return rows_table(title, caption, columns, rows, dim=is_baseline)


def _guess(values: dict[str, float]) -> Row:
    return reference_row("guessing", **values)


def _fewer_choices(row: Row) -> str:
    """A note if there were fewer choices than asked for; else nothing."""
    fewer = row["choices"] < row["choices_asked"]
    return f", not {row['choices_asked']}: there are no more" if fewer else ""


def _summands(row: Row) -> str:
    """What each sum adds up, e.g. `20 clients`."""
    least, most = row["clients_min"], row["clients_max"]
    count = f"{least}" if least == most else f"{least} to {most}"
    return f"{count} messages of one client" if row["view"] == "pooled" else f"{count} clients"


# --- sentences ------------------------------------------------------------------------------------


def _setting(row: Row) -> str:
    """What a sentence about a row begins with: click model, epsilon, and Spec fields without a column."""
    more = "".join(f", {name}={row[name]}" for name in row if "." in name)
    return f"{row['click_model']} clicks, eps {epsilon(row['eps_claimed'])}{more}"


def _query_sentences(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield (
            f"{_setting(row)}: {row['method']} names {whole_percent(row['accuracy'])} of the queries among "
            f"{row['choices']}, {whole_percent(row['accuracy_with_pairs'])} where anything was learnt "
            f"(guessing: {whole_percent(row['chance'])})."
        )


def _count_sentences(rows: Sequence[Row]) -> Iterator[str]:
    usual = {_setting(row): row["error"] for row in rows if row["method"] == "position-prior:median"}
    for row in (row for row in rows if not row["baseline"]):
        without = f" (without the sums: {short(usual[_setting(row)])})" if _setting(row) in usual else ""
        yield (
            f"{_setting(row)}: {row['method']} estimates click-through rates from sums over {_summands(row)} "
            f"to within {short(row['error'])} on average{without}."
        )


def _intent_sentences(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        several = f" from {row['messages_together']} messages" if row["messages_together"] > 1 else ""
        yield (
            f"{_setting(row)}: {row['method']} names {whole_percent(row['accuracy'])} of the clients' intents"
            f"{several} (guessing: {whole_percent(row['chance'])}; by what was shown: "
            f"{whole_percent(row['shown'])})."
        )


def _link_sentences(rows: Sequence[Row]) -> Iterator[str]:
    for row in (row for row in rows if not row["baseline"]):
        yield (
            f"{_setting(row)}: {row['method']} links {whole_percent(row['accuracy'])} of the messages to the "
            f"next one of their client among {row['choices']} "
            f"(guessing: {whole_percent(row['chance'])}{_best_simple_way(row, rows)})."
        )


def _best_simple_way(row: Row, rows: Sequence[Row]) -> str:
    """The best that can be done in the same setting without an attack."""
    simple = [one for one in rows if one["baseline"] and _setting(one) == _setting(row)]
    known = [one for one in simple if one["accuracy"] is not None]
    if not known:
        return ""
    best = max(known, key=lambda one: float(one["accuracy"]))
    return f"; {best['method']} alone: {whole_percent(best['accuracy'])}"
