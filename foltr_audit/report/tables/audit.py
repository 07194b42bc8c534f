"""The report of `audit` as tables on a terminal, with the reason for every verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.auditing.verdict import BROKEN
from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.render.terminal import STYLES, print_table
from foltr_audit.report.results.audit import AuditReport, FindingRow
from foltr_audit.report.results.whole_run import run_caption
from foltr_audit.report.results.wording import verdict_mark, verdict_text
from foltr_audit.report.tables.columns import chain_label, dataset_line, systems_of
from foltr_audit.report.tables.measured_bound import verdict_cell
from foltr_audit.report.tables.table import Column, Table, make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_audit(report: AuditReport, console: Console) -> None:
    """The whole report: data, a table per chain, and why each verdict is what it is."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.results)))
    for chain in dict.fromkeys(row.setting.defense for row in report.results):
        rows = [row for row in report.results if row.setting.defense == chain]
        console.print()
        print_table(_table(rows), console)
        for row in rows:
            console.print()
            for line in _block(row, several=len({row.run for row in rows}) > 1):
                console.print(line, highlight=False)
        console.print()
        for line in conclusions(rows):
            console.print(escape(line), style="bold", highlight=False)


def _table(rows: Sequence[FindingRow]) -> Table:
    first, several = rows[0], len({row.run for row in rows}) > 1
    stopped = len({row.trials for row in rows}) > 1
    shown_by = "the trials" if stopped else f"{first.trials} trials"
    delta = f", delta {first.delta:g}" if first.delta else ""
    per = "one message" if first.messages == 1 else f"{first.messages} messages of one client, pooled"
    behind = f"of {first.interactions} interaction{'s' * (first.interactions > 1)}"

    def view(row: FindingRow) -> str:
        run = f"run {row.run}\n" if several else ""
        return f"{run}{row.sees}\n{row.unit}\n{row.canary}"

    columns: list[Column[FindingRow]] = [
        Column("server sees", view, "name"),
        Column("claimed", lambda row: bound_text(row.setting.eps_claimed)),
        Column("upper\nbound", lambda row: bound_text(row.eps_upper)),
        Column("run", lambda row: bound_text(row.whole_run.eps) + row.whole_run.of_clicks),
        Column("exact\nloss", lambda row: number_text(row.eps_exact)),
        Column("lower\nbound", lambda row: number_text(row.eps_lower)),
        Column("at most", lambda row: number_text(row.eps_ceiling)),
        *([Column[FindingRow]("trials", lambda row: str(row.trials))] if stopped else []),
        verdict_column(),
    ]
    return make_table(
        f"{chain_label(first.setting.defense)}\nepsilon of {per} {behind}{delta}",
        columns,
        rows,
        caption="upper bound: by accounting; "
        f"{run_caption(row.whole_run for row in rows)}; exact loss: of the pair that was "
        f"played; lower bound: shown by {shown_by} per hypothesis, each at "
        f"{100 * first.confidence:g} % confidence, and at most: the most that so many can show",
        space=2,
        narrow_space=1,
        spare=("at most", "exact\nloss", "claimed", "run", "upper\nbound"),
    )


def verdict_column() -> Column[FindingRow]:
    """The verdict on the claim of a row."""
    return Column(
        "verdict",
        lambda row: verdict_cell(row.setting.eps_claimed, row.verdict),
        "name",
        narrow=lambda text: text.replace("by ", "by\n"),
    )


def bound_text(value: float) -> str:
    """An epsilon that is claimed or proven; `none` where there is none."""
    return "none" if math.isinf(value) else number_text(value)


def number_text(value: float | None) -> str:
    """An epsilon with two digits; `-` where there is none."""
    if value is None:
        return "-"
    usual = value == 0 or 0.005 <= value < 1e5
    return "inf" if math.isinf(value) else f"{value:.2f}" if usual else f"{value:.3g}"


def _block(row: FindingRow, *, several: bool) -> Iterator[str]:
    """One audited row in words: verdict and reason, pair, proof, and the score that separates the inputs."""
    run = f"run {row.run}, " if several else ""
    style = STYLES[verdict_mark(row.verdict)] or "bold"
    yield (
        f"{run}{row.sees}, one {row.unit} differs, {row.canary}: "
        f"[{style}]{verdict_text(row.setting.eps_claimed, row.verdict)}[/]: {escape(row.why)}"
    )
    at = "a global model of another round each" if row.model == "rounds" else f"the {row.model} model"
    yield escape(f"  pair: {row.pair}; at {at}")
    yield escape(f"  upper bound {bound_text(row.eps_upper)}: {row.upper_how}")
    yield escape(f"  {row.whole_run.text}")
    if row.declared == "not looked":
        yield escape(f"  not checked whether links do what they declare: {row.declared_why}")
    assumed = f", which assumes {row.assumes}" if row.assumes else ""
    yield escape(f"  lower bound {number_text(row.eps_lower)}: score {row.score}, {row.estimator}{assumed}")


def conclusions(results: Sequence[FindingRow]) -> list[str]:
    """What all rows of one chain show together: one sentence per kind of verdict."""
    broken = [row for row in results if row.verdict == BROKEN]
    refuted = [row for row in results if row.verdict in ("refuted", "false by exact loss")]
    proven = [row for row in results if row.verdict == "proven"]
    # What claims nothing is last, whatever the order of the rows
    open_ = [row for row in results if row.verdict == "not refuted"]
    open_.sort(key=lambda row: math.isinf(row.setting.eps_claimed))
    found: dict[str, list[str]] = {}
    for row in (*refuted, *proven, *open_):
        found.setdefault(_conclusion(row), []).append(_place(row))
    return [
        *dict.fromkeys(f"Not proven where the server sees {_place(row)}: {row.why}." for row in broken),
        *(text.format("; ".join(dict.fromkeys(places))) for text, places in found.items()),
    ]


def _conclusion(row: FindingRow) -> str:
    """A sentence with room for what the server sees."""
    if row.verdict == "proven":
        return "Proven where the server sees {}."
    if row.verdict == "not refuted":
        if math.isinf(row.setting.eps_claimed):
            what = "--claim E (and --delta D) states a claim to check"
            return f"Nothing is claimed where the server sees {{}}; {what}."
        return "Neither proven nor refuted where the server sees {}."
    worst = max(row.eps_lower if row.verdict == "refuted" else 0.0, row.eps_exact or 0.0)
    shown = "no finite epsilon holds" if math.isinf(worst) else f"at least {worst:.3g} is lost"
    return f"The claim of {row.setting.eps_claimed:g} is false: {shown} where the server sees {{}}."


def _place(row: FindingRow) -> str:
    return f"{with_article(row.sees)}, for one {row.unit}"
