"""Attack success and utility by group of clients, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foltr_audit.judge.group_scores import RANDOM
from foltr_audit.judge.significance import FEWEST
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.settings import differing
from foltr_audit.report.tables.layout import (
    Column,
    epsilon_column,
    in_method_order,
    is_baseline,
    rows_table,
    setting_columns,
    text_column,
    with_interval,
)
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.table import Table

_SUCCESS = {"f1": "F1", "exact": "exact", "auc": "AUC", "auc_difference": "AUC - all"}
_DIFFERENCE = "_difference"


def groups_table(rows: Sequence[Row], of: str = "clients") -> Table:
    """Which groups of `clients` or `lists` attacks read best, highest AUC first; rows of one world.

    Of the guesses without a message only the random one is shown.
    """
    shown = [row for row in rows if not row["baseline"] or row["method"] == RANDOM]
    lines: list[Row] = []
    for block in _blocks(in_method_order(shown)):
        lists = sum(row["lists"] for row in block)
        lines += [block[0] | {"group": f"all {of}", "lists": lists, "total": True}, *block]

    return rows_table(
        f"by group of {of}, hit hardest (highest AUC) first",
        f"AUC - all: less that of all {of}, in the same resamples of queries\n"
        "below each value: its 95 % interval, not widened for the choice of the first",
        [
            _of_totals(text_column("method", "method")),
            _of_totals(epsilon_column()),
            text_column("group", "group"),
            text_column("lists", "lists", "number"),
            *(_metric_column(header, name) for name, header in _SUCCESS.items()),
        ],
        lines,
        dim=is_baseline,
        section=lambda line: line["method"],
    )


def utility_groups_table(rows: Sequence[Row]) -> Table:
    """How well each group of clients is served, the worst first, below all clients; rows of all settings."""
    several = max(row["runs"] for row in rows) >= FEWEST
    intervals = "\nbelow each value: its 95 % interval over runs" if several else ""
    shown = {"online_mean": "online\nmean", "online_last": "online\nlast", "online_mean_difference": "- all"}
    if any(row["ndcg@10"] is not None for row in rows):
        shown |= {"ndcg@10": "own intent\noffline", "ndcg@10_difference": "- all"}
    lines: list[Row] = []
    for number, block in enumerate(_blocks(rows)):
        lines += [
            {**row, "block": number} for row in (block[0] | {"group": "all clients", "total": True}, *block)
        ]
    apart = [name for name in differing(rows) if name != "trained_on"]
    return rows_table(
        "nDCG@10 by group of clients, worst served first",
        "online: mean of the rounds, and of their last tenth; of documents of a single grade it is 0 or 1\n"
        f"- all: less that of all clients in the same run{intervals}",
        [
            _of_totals(text_column("trained on", "trained_on", "words")),
            *map(_of_totals, setting_columns(rows, apart)),
            _of_totals(epsilon_column()),
            text_column("group", "group"),
            *(_metric_column(header, name) for name, header in shown.items()),
        ],
        lines,
        section=lambda line: line["block"],
    )


def _blocks(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each setting, which begin with the first group."""
    found: list[list[Row]] = []
    for row in rows:
        if row["place"] == 1:
            found.append([])
        found[-1].append(row)
    return found


def _of_totals(column: Column) -> Column:
    """A column that only has text in the line above the groups of a setting."""
    return column._replace(cell=lambda line: column.cell(line) if "total" in line else "")


def _metric_column(header: str, name: str) -> Column:
    """A metric of a group with its interval; above the groups that of all, which differs by nothing."""

    def cell(line: Row) -> str:
        if "total" not in line:
            return with_interval(line, name)
        return "" if name.endswith(_DIFFERENCE) else short(line[f"{name}_all"])

    return Column(header, cell)
