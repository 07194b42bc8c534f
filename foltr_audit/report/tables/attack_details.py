"""What stands below an attack's results on a terminal: scores, any click, identifiability, named queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.layout import (
    at_eps,
    below,
    beside,
    by_method,
    method_table,
    method_text,
    of_world,
    percent,
    table,
    world,
)
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.table import Table

_SCORES = {
    "tpr_at_1": "TPR@1%",
    "tpr_at_01": "TPR@.1%",
    "accuracy_identifiable": "identifiable",
    "exact_message": "message",
}
_RANDOM = "random:k=mean"  # of the random guesses the one that knows most stands beside the scores


LESS_OF_SCORES = ("TPR@.1%", "message", "identifiable")
LESS_OF_ANY_CLICK = ("accuracy",)
"""What each table does without on a narrow terminal, first to last."""


def scores_table(results: Sequence[Row], narrow: bool = False) -> Table:
    """What scores are worth at few false alarms, and on documents that can be told; rows of one world."""
    rows = [row for row in results if not row["method"].startswith("random:") or row["method"] == _RANDOM]
    columns = {
        name: heading
        for name, heading in _SCORES.items()
        if name != "exact_message" or any(row[name] is not None for row in rows)
    }
    return _metrics_table(None, _scores_caption(rows, columns), columns, rows, narrow=narrow)


def _scores_caption(rows: Sequence[Row], columns: dict[str, str]) -> str:
    counts = sorted({row["unclicked_documents"] for row in rows})
    among = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    finest = f", one of which is {percent(1 / counts[0])}" if counts[0] else ""
    few = " (no interval: too few for it)" if any(row["tpr_at_01_ci95"] is None for row in rows) else ""
    message = "\nmessage: all lists of a message right" if "exact_message" in columns else ""
    return (
        f"TPR at a false positive rate of at most 1 % and .1 % of {among} unclicked documents{finest}{few}\n"
        f"identifiable: accuracy on documents whose click a message can tell at all{message}"
    )


def any_click_table(rows: Sequence[Row], narrow: bool = False) -> Table:
    """Whether a list has any click, beside always saying yes; rows of one world."""
    settings = {(row["eps_claimed"], row["defense"]): row for row in rows}
    always = [
        {
            **row,
            "method": "always yes",
            "baseline": True,
            "auc": 0.5 if row["auc"] is not None else None,
            "auc_ci95": None,
            "accuracy": row["base_rate"],
            "accuracy_ci95": row["base_rate_ci95"],
        }
        for row in settings.values()
    ]
    title = "any click at all? (every list counts)"
    columns = {"auc": "AUC", "accuracy": "accuracy"}
    return _metrics_table(title, None, columns, [*always, *rows], narrow=narrow)


def _metrics_table(
    title: str | None, caption: str | None, columns: dict[str, str], rows: Sequence[Row], *, narrow: bool
) -> Table:
    """One line per row, with each metric's interval beside it, or below it where it is narrow."""
    found = method_table(title, caption, columns.values(), narrow=narrow)
    entry = below if narrow else beside
    for mine in by_method(rows):
        for row in mine:
            cells = [entry(row, name) for name in columns]
            style = "dim" if row["baseline"] else None
            found.add_row(
                method_text(row["method"], narrow=narrow), epsilon(row["eps_claimed"]), *cells, style=style
            )
    return found


def identifiability_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per setting of a world: what its messages can tell at all."""
    for row in rows:
        if not row["lists"]:
            continue
        lost = row["not_told"]
        yield escape(
            f"{at_eps(row, rows)}identifiable: {percent(row['identifiable'])} of documents; "
            f"rank {row['rank_mean']:.1f} of {row['unknowns_mean']:.1f} unknowns, "
            f"{row['rank_min']} at least; "
            f"{row['all_clicked']} lists all clicked, {row['without_click']} without a click; "
            f"{percent(row['not_observed'])} of documents not observed"
            + (f", {percent(lost)} combinations of others, too faint, or not in a metric" if lost else "")
        )


def calibration_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per attack with probabilities and setting of a world."""
    for row in rows:
        yield escape(
            f"{row['method']}: {at_eps(row, rows)}Brier score {beside(row, 'brier')} "
            f"(base rate {beside(row, 'brier_base_rate')}), log loss {short(row['log_loss'])}, "
            f"calibration error {short(row['calibration_error'])}"
        )


def refused_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per attack of a world that could not run, and why."""
    yield from dict.fromkeys(escape(f"{row['method']}: cannot run: {row['reason']}") for row in rows)


def query_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """The attacked lists of the named queries, one table per world: what was clicked, what was named."""
    attacked = [row for row in rows if row["method"] is not None]
    for name in dict.fromkeys(world(row) for row in attacked):
        yield _query_table(name, of_world(attacked, name))


def _query_table(name: str, rows: Sequence[Row]) -> Table:
    found = table(
        f"named queries, {name}",
        "documents by their place in the query's data, from 0, in the order shown; * clicked",
    )
    found.add_column("query", overflow="fold")
    found.add_column("eps", justify="right", no_wrap=True)
    found.add_column("who", overflow="fold")
    found.add_column("documents", overflow="fold")
    found.add_column("exact", no_wrap=True)
    lists: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row["query"], row["eps_claimed"], row["defense"], row["list"])
        lists.setdefault(key, []).append(row)
    for attacks in lists.values():
        first = attacks[0]
        shown = _documents(first, [True] * len(first["shown"]))
        found.add_row(escape(first["query"]), epsilon(first["eps_claimed"]), "shown", shown, "")
        for row in attacks:
            exact = "yes" if row["exact"] else "no"
            style = "dim" if row["baseline"] else None
            found.add_row("", "", escape(row["method"]), _documents(row, row["guessed"]), exact, style=style)
        found.add_section()
    return found


def _documents(row: Row, which: Sequence[bool]) -> str:
    named = zip(row["shown"], row["clicked"], which, strict=True)
    return " ".join(f"{document}{'*' if clicked else ''}" for document, clicked, here in named if here) or "-"


def not_attacked_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per named query without an attacked list anywhere."""
    attacked = {row["query"] for row in rows if row["method"] is not None}
    for name in dict.fromkeys(row["query"] for row in rows):
        if name not in attacked:
            yield escape(f"query {name}: not attacked")
