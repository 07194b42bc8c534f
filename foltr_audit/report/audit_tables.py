"""The audit as a rich table on a terminal, with the reason of every verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.audit import AuditReport
from foltr_audit.report.base import Row
from foltr_audit.report.layout import print_warnings, table
from foltr_audit.report.tables import dataset_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_STYLES = {"refuted": "bold red", "false by exact loss": "bold red", "proven": "green"}
_HEADINGS = ("view", "unit", "canary", "claimed", "proven upper", "exact", "measured lower", "ceiling")


def print_audit(report: AuditReport, console: Console) -> None:
    """The whole report: data, warnings, a table per chain, and why each verdict is what it is."""
    console.print(dataset_line(report.dataset, report.config, report.results))
    for chain in dict.fromkeys(row["defense"] for row in report.results):
        rows = [row for row in report.results if row["defense"] == chain]
        console.print()
        console.print(_table(rows))
        for line in dict.fromkeys(_lines(rows)):
            console.print(line, highlight=False)
        print_warnings((row["warning"] for row in report.warnings if row["defense"] == chain), console)
    console.print()
    console.print(escape(conclusion(report.results)), style="bold", highlight=False)


def _table(rows: Sequence[Row]) -> Table:
    first = rows[0]
    delta = f", delta {first['delta']:g}" if first["delta"] else ""
    per = "one message" if first["messages"] == 1 else f"{first['messages']} messages of one client, pooled"
    found = table(
        escape(f"{first['defense']}: epsilon of {per}{delta}"),
        f"measured lower: {100 * first['confidence']:g} % confidence each, {first['trials']} trials per "
        f"hypothesis;\nceiling: what these trials could show at most; exact: the loss of the played pair",
        space=1,
    )
    for heading in _HEADINGS:
        left = heading in _HEADINGS[:3]
        found.add_column(heading, justify="left" if left else "right", overflow="fold")
    found.add_column("verdict", overflow="fold")
    for row in rows:
        numbers = [row[f"eps_{name}"] for name in ("claimed", "upper", "exact", "lower", "ceiling")]
        names = [row["view"], row["unit"], row["canary"]]
        verdict = (
            f"[{_STYLES.get(row['verdict'], '')}]{row['verdict']}[/]"
            if row["verdict"] in _STYLES
            else row["verdict"]
        )
        found.add_row(*names, *(_number(value) for value in numbers), verdict)
    return found


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "inf" if math.isinf(value) else f"{value:.2f}"


def _lines(rows: Sequence[Row]) -> list[str]:
    """Why each verdict is what it is, the pairs that were played, and how bounds were proven."""
    lines = []
    for row in rows:
        place = f"{row['view']}, {row['unit']}, {row['canary']}"
        assumed = f" (assumes {row['assumes']})" if row["assumes"] else ""
        lines.append(escape(f"{place}: {row['why']}; scored by {row['score']}, {row['estimator']}{assumed}"))
    lines += [escape(f"upper, {row['view']}, {row['unit']}: {row['upper_how']}{_run(row)}") for row in rows]
    lines += [
        escape(f"pair of {row['canary']}, {row['unit']}, at the {row['model']} model: {row['pair']}")
        for row in rows
    ]
    return lines


def _run(row: Row) -> str:
    """What is proven for all rounds of the run, where anything is."""
    if math.isinf(row["eps_upper_run"]):
        return ""
    return f"; over the {row['rounds']} rounds of this run {row['eps_upper_run']:.4g}"


def conclusion(results: Sequence[Row]) -> str:
    """One sentence on all verdicts."""
    false = [row for row in results if row["verdict"] in ("refuted", "false by exact loss")]
    if false:
        views = sorted({f"{row['view']} view, unit {row['unit']}" for row in false})
        worst = max(max(row["eps_lower"], row["eps_exact"] or 0.0) for row in false)
        claimed = min(row["eps_claimed"] for row in false)
        shown = "no finite epsilon holds" if math.isinf(worst) else f"epsilon is {worst:.3g} at least"
        return f"The claim of {claimed:g} is false for: {'; '.join(views)}. There {shown}."
    open_ = [row for row in results if row["verdict"] == "not refuted"]
    if open_:
        return f"{len(results) - len(open_)} of {len(results)} claims are proven; none is refuted."
    return "Every claim is proven, and none is refuted."
