"""The short answer of `audit`: the verdict on each claim, with the bounds that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foltr_audit.report.results.audit import AuditReport, FindingRow
from foltr_audit.report.tables.audit import bound_text, conclusions, number_text, verdict_column
from foltr_audit.report.tables.brief.short_answer import BriefAnswer, first_rows
from foltr_audit.report.tables.columns import chain_label, dataset_line, systems_of
from foltr_audit.report.tables.table import Column, Table, make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_brief_audit(report: AuditReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer."""
    brief_audit(report).print(console, quiet=quiet)


def brief_audit(report: AuditReport) -> BriefAnswer:
    """The short answer."""
    rows, more = first_rows(report.results, "rows")
    chains = list(dict.fromkeys(row.setting.defense for row in report.results))
    said = [
        f"{chain_label(chain)}: {line}" if len(chains) > 1 else line
        for chain in chains
        for line in conclusions([row for row in report.results if row.setting.defense == chain])
    ]
    return BriefAnswer(
        conclusion=tuple(said),
        about=dataset_line(report.dataset, report.config, systems_of(report.results)),
        table=_table(rows, chains),
        left_out=(*more, "the pair that each row was tested with, every proof and its reasons"),
    )


def _table(rows: Sequence[FindingRow], chains: Sequence[str]) -> Table:
    first = rows[0]
    units, canaries, runs = ({getattr(row, name) for row in rows} for name in ("unit", "canary", "run"))
    delta = f", delta {first.delta:g}" if first.delta else ""
    columns: list[Column[FindingRow]] = [
        *(
            [Column[FindingRow]("defense", lambda row: chain_label(row.setting.defense), "fold")]
            if len(chains) > 1
            else []
        ),
        *([Column[FindingRow]("repetition", lambda row: str(row.run))] if len(runs) > 1 else []),
        Column("server sees", lambda row: row.sees, "name"),
        *([Column[FindingRow]("unit", lambda row: row.unit, "name")] if len(units) > 1 else []),
        *([Column[FindingRow]("canary", lambda row: row.canary, "name")] if len(canaries) > 1 else []),
        Column("claimed", lambda row: bound_text(row.setting.eps_claimed)),
        Column("upper\nbound", lambda row: bound_text(row.eps_upper)),
        Column("lower\nbound", lambda row: number_text(row.eps_lower)),
        verdict_column(),
    ]
    unit = f" for one {first.unit}" if len(units) == 1 else ""
    return make_table(
        f"epsilon of one message{unit}{delta}" if first.messages == 1 else f"epsilon{unit}{delta}",
        columns,
        rows,
        caption="upper bound: by accounting, none where nothing is proven; lower bound: shown by "
        f"{first.trials} trials, at {100 * first.confidence:g} % confidence",
        space=2,
        spare=("canary", "claimed", "unit"),
    )
