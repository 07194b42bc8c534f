"""The report of `unlearn` as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.settings import setting_label
from foltr_audit.report.results.unlearning import HistoryRow, UnlearningReport, UnlearningRow
from foltr_audit.report.tables.columns import (
    dataset_line,
    estimate_column,
    no_relevant,
    percent,
    systems_of,
    utility_table,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table

if TYPE_CHECKING:
    from rich.console import Console


_STORED = {"individual": "every message", "aggregate": "the sum of each round"}


def print_unlearning(report: UnlearningReport, console: Console) -> None:
    """The whole report: data, a table per setting, utility, and what it all means."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.results)))
    settings = list(dict.fromkeys(str(row.setting) for row in report.results))
    for setting in settings:
        rows = [row for row in report.results if str(row.setting) == setting]
        print_table(unlearning_table(rows, report.results), console)
        console.print()
        leaks = [row for row in report.history if str(row.setting) == setting]
        if leaks:
            print_table(history_table(leaks), console)
            console.print()
    print_table(utility_table(report.utility, no_relevant(report.config)), console)
    console.print()
    for line in (*conclusions(report.results), *_read(report.history)):
        console.print(escape(line), style="bold", highlight=False)


def _read(rows: Sequence[HistoryRow]) -> Iterator[str]:
    """How much the attacks on the first history find."""
    found = {row.stored: row for row in rows[::-1] if not row.baseline}
    if len(found) == len(_STORED):
        every, total = (found[name] for name in _STORED)
        yield (
            f"Whoever reads the stored messages finds {percent(every.exact.value)} of the lists exactly; of "
            f"the sums alone, {percent(total.exact.value)}."
        )


def unlearning_table(rows: Sequence[UnlearningRow], every: Sequence[UnlearningRow]) -> Table:
    """A line for each method and run of a setting."""
    first, runs = rows[0], len({row.run for row in rows}) > 1
    columns: list[Column[UnlearningRow]] = [
        *([Column[UnlearningRow]("run", lambda row: str(row.run))] if runs else []),
        Column("method", lambda row: row.method, "name"),
        estimate_column("nDCG@10", lambda row: row.ndcg),
        estimate_column("distance", lambda row: row.relative),
        Column("eps at least", _bound),
        Column("client rounds", lambda row: f"{row.client_rounds:,.0f}"),
        Column("interactions", lambda row: f"{row.interactions:,.0f}"),
        Column("stored", lambda row: _bytes(row.stored_bytes)),
    ]
    return make_table(
        f"{_label(first, every)}\n{_who_leaves(first)}",
        columns,
        rows,
        caption=f"Means over {first.trainings} trainings. Distance: to the retrained model, as a share of "
        f"that of the trained one; between two retrainings it is {first.floor:.2f}. Eps at least: lower "
        f"bound at delta {first.delta:g} with confidence {first.confidence:g}, from {first.evaluated} models "
        f"of federations that they left and as many of others; at most {first.at_most:.2f} can show. Client "
        "rounds: how often a client computes a message. Stored: what the server must keep of the training.",
        section=lambda row: row.run,
    )


def _who_leaves(row: UnlearningRow) -> str:
    one = len(row.clients) == 1
    who = f"client{'s' * (not one)} {', '.join(map(str, row.clients))} of {row.members}"
    return f"{who} leave{'s' * one} after {row.rounds} round{'s' * (row.rounds > 1)}"


def history_table(rows: Sequence[HistoryRow]) -> Table:
    """What the stored history of a setting reveals; baselines, which are the same for both kinds, once."""
    columns: list[Column[HistoryRow]] = [
        Column("stored", lambda row: "-" if row.baseline else _STORED[row.stored], "words"),
        Column("method", lambda row: row.method, "name"),
        estimate_column("exact lists", lambda row: row.exact),
        estimate_column("AUC", lambda row: row.auc),
    ]
    first = rows[0]
    shown = [row for row in rows if row.run == first.run]
    return make_table(
        "clicks that a reader of the stored history finds",
        columns,
        [row for row in shown if not row.baseline or row.stored == first.stored],
        caption=f"{first.lists} lists of one training. Exact lists: of which every document is right.",
        dim=lambda row: row.baseline,
    )


def _label(row: UnlearningRow, every: Sequence[UnlearningRow]) -> str:
    settings = [one.setting for one in every]
    several = len({str(one) for one in settings}) > 1
    label = setting_label(row.setting, settings) if several else row.setting.defense
    return label if row.setting.defense in label else f"{label}\n{row.setting.defense}"


def _bound(row: UnlearningRow) -> Cell:
    return Cell(f"{row.eps_lower:.2f}", mark="bad" if row.eps_lower > 0 else "")


def _bytes(size: float) -> str:
    if size < 1:
        return "-"
    return f"{size / 1000:,.1f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"


def conclusions(rows: Sequence[UnlearningRow]) -> Iterator[str]:
    """What the games show: a sentence for each setting and run."""
    settings = [row.setting for row in rows]
    several = len({str(one) for one in settings}) > 1
    for key in dict.fromkeys((str(row.setting), row.run) for row in rows):
        mine = [row for row in rows if (str(row.setting), row.run) == key]
        where = f"{setting_label(mine[0].setting, settings)}: " if several else ""
        told = [f"{row.method} (eps >= {row.eps_lower:.2f})" for row in mine if row.eps_lower > 0]
        found = (
            f"the model tells that they were there after {', '.join(told)}"
            if told
            else "no game tells whether they were there"
        )
        yield f"{where}{found}."
