"""Results as rich tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.attack import AttackReport
from foltr_audit.report.base import Row
from foltr_audit.report.meaning import meaning
from foltr_audit.report.plain import epsilon, short
from foltr_audit.report.train import TrainReport

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COLUMNS = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "exact": "exact",
    "auc": "AUC",
}


def print_attack(report: AttackReport, console: Console) -> None:
    """The whole report: data, results, utility, meaning."""
    console.print(_dataset_line(report.dataset, report.config, report.results))
    for rows in _by_world(report.results):
        console.print(_results_table(rows))
        console.print()
    if report.utility:
        console.print(_utility_table(report.utility))
        console.print()
    console.print(escape(meaning(report.results)), style="bold", highlight=False)


def _dataset_line(data: Row, config: Row, rows: Sequence[Row]) -> str:
    kind = "synthetic data" if data["synthetic"] else "data"
    fold = data["folds"][0]
    sizes = f"{fold['train']} / {fold['vali']} / {fold['test']} queries, " if "train" in fold else ""
    folds = f", first of {len(data['folds'])} folds" if len(data["folds"]) > 1 else ""
    pdgd = ", ".join(sorted({row["pdgd"] for row in rows}))
    short_ones = data.get("queries_too_short", 0)
    left_out = f"; {short_ones} attacked queries with too few documents left out" if short_ones else ""
    return escape(
        f"{kind} {data['source']} ({sizes}{data['features']} features, {data['normalised']}{folds}, "
        f"fingerprint {fold['fingerprint'][:12]}), PDGD {pdgd}, seed {config.get('seed', 'several')}"
        f"{left_out}"
    )


def _table(title: str, caption: str | None, space: int = 1) -> Table:
    """A table that fits a terminal of 80 columns."""
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, space, 0, 0),
        show_edge=False,
    )


def _world(row: Row) -> str:
    """What a table's rows have in common: click model, view, and Spec fields without a column."""
    more = [f", {name}={row[name]}" for name in row if "." in name]
    return escape(f"{row['click_model']} clicks, view {row['view']}{''.join(more)}")


def _by_world(results: Sequence[Row]) -> Iterator[list[Row]]:
    for world in dict.fromkeys(_world(row) for row in results):
        yield [row for row in results if _world(row) == world]


def _results_table(rows: Sequence[Row]) -> Table:
    table = _table(_world(rows[0]), _lists(rows), space=0)
    several = len({row["eps_claimed"] for row in rows}) > 1
    table.add_column("method", overflow="fold")
    table.add_column("eps", justify="right", no_wrap=True)
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        for row in mine:
            style = "dim" if row["baseline"] else None
            cells = [_with_interval(row, name) for name in COLUMNS]
            table.add_row(escape(method), epsilon(row["eps_claimed"]), *cells, style=style)
        if several:
            table.add_section()
    return table


def _lists(rows: Sequence[Row]) -> str:
    """How many lists stand behind the rows, one line per chain of defenses."""
    lines = [
        f"eps {epsilon(row['eps_claimed'])}: {row['lists']} lists of {row['queries']} queries; "
        f"{row['skipped']} without a click left out, {row['all_clicked']} with every document clicked kept; "
        f"{_share(row['clipped'])} of the steps clipped"
        for row in {row["defense"]: row for row in rows}.values()
    ]
    return "\n".join(["below each value: its 95 % interval over queries", *lines])


def _with_interval(row: Row, name: str) -> str:
    value, interval = short(row[name]), row[f"{name}_ci95"]
    if interval is None:
        return value
    low, high = (short(end, 2).replace("1.00", "1.0") for end in interval)
    return f"{value}\n{low}-{high}"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f} %"


def _utility_table(rows: Sequence[Row]) -> Table:
    table = _table(
        "nDCG@10 on the test part",
        "ceiling: what a perfect ranker reaches; queries without relevant documents count 0",
    )
    for heading in ("trained on", "eps", "untrained", "trained", "undefended", "ceiling", "clipped", "runs"):
        table.add_column(heading, justify="left" if heading == "trained on" else "right")
    for row in rows:
        table.add_row(
            escape(row["trained_on"]),
            epsilon(row["eps_claimed"]),
            short(row["ndcg@10_untrained"]),
            short(row["ndcg@10"]),
            short(row["ndcg@10_undefended"]),
            short(row["ndcg@10_ceiling"]),
            _share(row["clipped"]),
            str(row["runs"]),
        )
    return table


def print_train(report: TrainReport, console: Console) -> None:
    """A line per round and the final model's figures."""
    console.print(_dataset_line(report.dataset, report.config, report.utility))
    table = _table("rounds", None)
    for heading in ("run", "eps", "round", "online nDCG@10", "offline nDCG@10", "MaxRR", "clipped"):
        table.add_column(heading, justify="right")
    for row in report.rounds:
        table.add_row(
            str(row["run"]),
            epsilon(row["eps_claimed"]),
            str(row["round"]),
            short(row["online_ndcg@10"]),
            short(row["offline_ndcg@10"]),
            short(row["maxrr"]),
            _share(row["clipped"]),
        )
    console.print(table)
    console.print(_utility_table(report.utility))
