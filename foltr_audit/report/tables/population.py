"""On a terminal: intents told from messages, and messages linked to their client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.layout import (
    beside,
    by_method,
    fewer_choices,
    method_table,
    setting_of,
    share_of,
)
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.table import Table

_INTENTS = {"accuracy": "accuracy", "balanced_accuracy": "balanced", "bits": "bits"}
_LINKS = {"accuracy": "accuracy", "mrr": "MRR"}


def intent_table(name: str, rows: Sequence[Row]) -> Table:
    """How often each attack names the intent, beside saying it without a message; rows of one world."""
    found = method_table(f"which intent? {name}", _decisions(rows), _INTENTS.values())
    even = short(rows[0]["chance"])
    found.add_row("guessing", "", even, even, short(0.0), style="dim")
    for mine in by_method(rows):
        of = f" ({mine[0]['messages_together']} messages)" if mine[0]["messages_together"] > 1 else ""
        for row in mine:
            eps = epsilon(row["eps_claimed"])
            usual = short(row["most_frequent"])
            found.add_row(f"most frequent{of}", eps, usual, even, "-", style="dim")
            cells = [beside(row, column) for column in ("shown", "shown_balanced")]
            found.add_row(f"relevant shown{of}", eps, *cells, "-", style="dim")
            found.add_row(escape(row["method"]), eps, *[beside(row, column) for column in _INTENTS])
    return found


def _decisions(rows: Sequence[Row]) -> str:
    row = rows[0]
    left = f"; left out: {row['mixed']} with several intents" if row["mixed"] else ""
    few = f"; {row['left_over']} messages too few of a client" if row["left_over"] else ""
    return (
        f"{row['intents']} intents; {row['decisions']} decisions, {row['clients']} clients{left}{few}\n"
        "balanced: mean over intents; bits: log2 of the probability of the truth, above even odds\n"
        "relevant shown: the intent of which most relevant documents were shown; 95 % intervals over clients"
    )


def link_table(name: str, rows: Sequence[Row]) -> Table:
    """How often a client's next message is named, beside simple ways to do so; rows of one world."""
    found = method_table(f"same client? {name}", _choices(rows), _LINKS.values())
    found.add_row("guessing", "", short(rows[0]["chance"]), short(rows[0]["chance_mrr"]), style="dim")
    for mine in by_method(rows):
        for row in mine:
            cells = [beside(row, column) for column in _LINKS]
            style = "dim" if row["baseline"] else None
            found.add_row(escape(row["method"]), epsilon(row["eps_claimed"]), *cells, style=style)
    return found


def _choices(rows: Sequence[Row]) -> str:
    row = rows[0]
    return (
        f"one of {row['choices']} messages of the next round{fewer_choices(row)}; "
        f"{row['messages']} messages of {row['clients']} clients\n"
        "count: nearest number of interactions; same-queries: most queries in common\n"
        "MRR: mean reciprocal rank of the client's own; 95 % intervals over clients"
    )


def population_sentences(intents: Sequence[Row], links: Sequence[Row]) -> Iterator[str]:
    """One sentence per attack and setting."""
    for row in intents:
        several = f" from {row['messages_together']} messages" if row["messages_together"] > 1 else ""
        yield escape(
            f"{setting_of(row)}: {row['method']} names {share_of(row['accuracy'])} of the clients' intents"
            f"{several} (guessing: {share_of(row['chance'])}; by what was shown: {share_of(row['shown'])})."
        )
    for row in links:
        if not row["baseline"]:
            links_of = f"{setting_of(row)}: {row['method']} links {share_of(row['accuracy'])} of the messages"
            yield escape(
                f"{links_of} to the next one of their client among {row['choices']} "
                f"(guessing: {share_of(row['chance'])}{_simplest(row, links)})."
            )


def _simplest(row: Row, links: Sequence[Row]) -> str:
    """The best that is done in the same setting without an attack."""
    there = [other for other in links if other["baseline"] and setting_of(other) == setting_of(row)]
    known = [other for other in there if other["accuracy"] is not None]
    if not known:
        return ""
    best = max(known, key=lambda other: float(other["accuracy"]))
    return f"; {best['method']} alone: {share_of(best['accuracy'])}"
