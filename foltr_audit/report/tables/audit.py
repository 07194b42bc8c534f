"""The report of `audit` as tables on a terminal, with the reason for every verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from foltr_audit.auditing.verdict import BROKEN
from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.results.audit import AuditReport
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.wording import verdict_style, verdict_text
from foltr_audit.report.tables.attack import dataset_line
from foltr_audit.report.tables.layout import Column, print_fitting, rows_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NUMBERS = {
    "claimed": "claimed",
    "upper": "proven",
    "exact": "exact",
    "lower": "measured",
    "ceiling": "ceiling",
}


def print_audit(report: AuditReport, console: Console) -> None:
    """The whole report: data, a table per chain, and why each verdict is what it is."""
    console.print(dataset_line(report.dataset, report.config, report.results))
    for chain in dict.fromkeys(row["defense"] for row in report.results):
        rows = [row for row in report.results if row["defense"] == chain]
        console.print()
        print_fitting(partial(_table, rows), _LESS, console)
        for row in rows:
            console.print()
            for line in _block(row, several=len({row["run"] for row in rows}) > 1):
                console.print(line, highlight=False)
        console.print()
        for line in conclusions(rows):
            console.print(escape(line), style="bold", highlight=False)


_LESS = ("ceiling", "exact", "claimed", "proven")
"""Columns that the table leaves out on a narrow terminal, first to last."""


def _table(rows: Sequence[Row], narrow: bool) -> Table:
    first, several = rows[0], len({row["run"] for row in rows}) > 1
    delta = f", delta {first['delta']:g}" if first["delta"] else ""
    per = "one message" if first["messages"] == 1 else f"{first['messages']} messages of one client, pooled"
    behind = f"of {first['interactions']} interaction{'s' * (first['interactions'] > 1)}"

    def view(row: Row) -> str:
        run = f"run {row['run']}\n" if several else ""
        return f"{run}{row['sees']}\n{row['unit']}\n{row['canary']}"

    def verdict(row: Row) -> Text:
        words = verdict_text(row)
        return Text(words.replace("by ", "by\n") if narrow else words, style=verdict_style(row))

    return rows_table(
        escape(f"{first['defense']}\nepsilon of {per} {behind}{delta}"),
        "sees: what the server sees; proven: an upper bound; exact: the loss of the pair that was played; "
        f"measured: shown by {first['trials']} trials per hypothesis, each at "
        f"{100 * first['confidence']:g} % confidence, and ceiling: the most that so many can show",
        [
            Column("sees", view, "name"),
            *(Column(header, partial(_cell, name=name)) for name, header in _NUMBERS.items()),
            Column("verdict", verdict, "name"),
        ],
        rows,
        space=1 if narrow else 2,
    )


def _cell(row: Row, name: str) -> str:
    """An epsilon of a row; `none` where it is not bounded, or not claimed."""
    value = row[f"eps_{name}"]
    if name in ("claimed", "upper") and math.isinf(value):
        return "none"
    return _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    usual = value == 0 or 0.005 <= value < 1e5
    return "inf" if math.isinf(value) else f"{value:.2f}" if usual else f"{value:.3g}"


def _block(row: Row, *, several: bool) -> Iterator[str]:
    """One audited row in words: verdict and reason, pair, proof, and the score that separates the inputs."""
    run = f"run {row['run']}, " if several else ""
    style = verdict_style(row) or "bold"
    yield (
        f"{run}{row['sees']}, one {row['unit']} differs, {row['canary']}: "
        f"[{style}]{verdict_text(row)}[/]: {escape(row['why'])}"
    )
    at = "a global model of another round each" if row["model"] == "rounds" else f"the {row['model']} model"
    yield escape(f"  pair: {row['pair']}; at {at}")
    whole = f"; over all {row['rounds']} rounds of the run {_cell(row, 'upper_run')}"
    proven = f"{_cell(row, 'upper')}: {row['upper_how']}{whole if math.isfinite(row['eps_upper']) else ''}"
    yield escape(f"  proven {proven}")
    if row["declared"] == "not looked":
        yield escape(f"  not checked whether links do what they declare: {row['declared_why']}")
    assumed = f", which assumes {row['assumes']}" if row["assumes"] else ""
    yield escape(f"  measured {_number(row['eps_lower'])}: score {row['score']}, {row['estimator']}{assumed}")


def conclusions(results: Sequence[Row]) -> list[str]:
    """What all rows of one chain show together: one sentence per kind of verdict."""
    broken = [row for row in results if row["verdict"] == BROKEN]
    refuted = [row for row in results if row["verdict"] in ("refuted", "false by exact loss")]
    proven = [row for row in results if row["verdict"] == "proven"]
    # What claims nothing is last, whatever the order of the rows
    open_ = [row for row in results if row["verdict"] == "not refuted"]
    open_.sort(key=lambda row: math.isinf(row["eps_claimed"]))
    found: dict[str, list[str]] = {}
    for row in (*refuted, *proven, *open_):
        found.setdefault(_conclusion(row), []).append(_place(row))
    return [
        *dict.fromkeys(f"Not proven where the server sees {_place(row)}: {row['why']}." for row in broken),
        *(text.format("; ".join(dict.fromkeys(places))) for text, places in found.items()),
    ]


def _conclusion(row: Row) -> str:
    """A sentence with room for what the server sees."""
    if row["verdict"] == "proven":
        return "Proven where the server sees {}."
    if row["verdict"] == "not refuted":
        if math.isinf(row["eps_claimed"]):
            what = "--claim E (and --delta D) states a claim to check"
            return f"Nothing is claimed where the server sees {{}}; {what}."
        return "Neither proven nor refuted where the server sees {}."
    worst = max(row["eps_lower"] if row["verdict"] == "refuted" else 0.0, row["eps_exact"] or 0.0)
    shown = "no finite epsilon holds" if math.isinf(worst) else f"at least {worst:.3g} is lost"
    return f"The claim of {row['eps_claimed']:g} is false: {shown} where the server sees {{}}."


def _place(row: Row) -> str:
    return f"{with_article(row['sees'])}, for one {row['unit']}"
