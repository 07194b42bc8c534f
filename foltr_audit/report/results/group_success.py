"""Attack success by groups of clients: rows of a report, and their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.group_scores import GROUP_METRICS, RANDOM, GroupScore, group_scores
from foltr_audit.judge.scoring import AttackScorer
from foltr_audit.report.results.attack_rows import columns, known
from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.layout import below, by_method, table
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = {"f1": "F1", "exact": "exact", "auc": "AUC"}


def group_rows(evidence: ClickEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per guesser and group of clients, hit hardest first; none where clients do not differ.

    Beside each metric, `_all` is that of all groups' lists and `_difference` the group's less that.
    `place` counts the groups of a guesser from 1.
    """
    if len(evidence.groups) < 2:
        return
    for found in group_scores(AttackScorer(evidence, streams)):
        for place, group in enumerate(found.groups, start=1):
            yield {
                "method": found.method,
                "baseline": found.method == RANDOM or found.method in evidence.baselines,
                **where,
                "group": group.group,
                "place": place,
                "lists": group.lists,
                "skipped": group.skipped,
                "queries": group.queries,
                **_metrics(group, found.everybody),
            }


def _metrics(group: GroupScore, everybody: dict[str, float]) -> Row:
    row: Row = {}
    for name in GROUP_METRICS:
        row |= columns(name, group.metrics[name])
        row[f"{name}_all"] = known(everybody[name])
        row |= columns(f"{name}_difference", group.differences[name])
    return row


def groups_table(rows: Sequence[Row], of: str = "clients") -> Table:
    """Who is hit hardest, by method and claimed epsilon; rows of one world, grouped by `clients` or `lists`.

    Of the guesses without a message only the random one stands beside the attacks.
    """
    shown = [row for row in rows if not row["baseline"] or row["method"] == RANDOM]
    found = table(
        f"by group of {of}, hit hardest (highest AUC) first",
        f"AUC - all: less that of all {of}, in the same resamples of queries\n"
        "below each value: its 95 % interval, not widened for the choice of the first",
    )
    found.add_column("method", overflow="fold")
    found.add_column("eps", justify="right", no_wrap=True)
    found.add_column("group", overflow="fold")
    for heading in ("lists", *_SHOWN.values(), "AUC - all"):
        found.add_column(heading, justify="right", no_wrap=True)
    for mine in by_method(shown):
        for block in _blocks(mine):
            style = "dim" if block[0]["baseline"] else None
            found.add_row(*_everybody(block, of), style=style)
            for row in block:
                cells = [below(row, name) for name in (*_SHOWN, "auc_difference")]
                found.add_row("", "", escape(row["group"]), str(row["lists"]), *cells, style=style)
        found.add_section()
    return found


def _blocks(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each setting, which begin with the first group."""
    found: list[list[Row]] = []
    for row in rows:
        if row["place"] == 1:
            found.append([])
        found[-1].append(row)
    return found


def _everybody(block: Sequence[Row], of: str) -> tuple[str, ...]:
    """The line of all clients or lists above the groups of a method and setting."""
    row, lists = block[0], sum(each["lists"] for each in block)
    values = (short(row[f"{name}_all"]) for name in _SHOWN)
    return (escape(row["method"]), epsilon(row["eps_claimed"]), f"all {of}", str(lists), *values, "")
