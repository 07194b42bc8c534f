"""Results as rich tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from foltr_audit.report.attack import AttackReport, Row
from foltr_audit.report.meaning import is_baseline, meaning
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
    "exact": "exact list",
    "auc": "AUC",
}


def print_attack(report: AttackReport, console: Console) -> None:
    """The whole report: data, results, utility, meaning."""
    console.print(_dataset_line(report))
    for rows in _by_click_model(report.results):
        console.print(_results_table(rows))
    if report.utility:
        console.print(_utility_table(report.utility))
    console.print(f"[bold]{meaning(report.results)}[/bold]", highlight=False)


def _dataset_line(report: AttackReport) -> str:
    from rich.markup import escape

    data, config = report.dataset, report.config
    kind = "synthetic data" if data["synthetic"] else "data"
    fold = data["folds"][0]
    sizes = f"{fold['train']} / {fold['vali']} / {fold['test']} queries"
    folds = f", {len(data['folds'])} folds" if len(data["folds"]) > 1 else ""
    pdgd = ", ".join(sorted({row["pdgd"] for row in report.results}))
    return escape(
        f"{kind} {data['source']} ({sizes}, {data['features']} features, {data['normalised']}{folds}, "
        f"fingerprint {fold['fingerprint'][:12]}), PDGD {pdgd}, seed {config.get('seed', 'several')}"
    )


def _by_click_model(results: Sequence[Row]) -> Iterator[list[Row]]:
    for click_model in dict.fromkeys(row["click_model"] for row in results):
        yield [row for row in results if row["click_model"] == click_model]


def _results_table(rows: Sequence[Row]) -> Table:
    from rich.table import Table

    first = rows[0]
    table = Table(title=_results_title(rows), title_justify="left", caption_justify="left")
    several = len({row["eps_claimed"] for row in rows}) > 1
    table.add_column("method", no_wrap=True)
    table.add_column("eps", justify="right")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        for row in mine:
            style = "dim" if is_baseline(method) else None
            cells = [_with_interval(row, name) for name in COLUMNS]
            table.add_row(method, epsilon(row["eps_claimed"]), *cells, style=style)
        if several:
            table.add_section()
    table.caption = _left_out(first)
    return table


def _results_title(rows: Sequence[Row]) -> str:
    first = rows[0]
    clipped = ", ".join(dict.fromkeys(_share(row["clipped"]) for row in rows))
    return (
        f"{first['click_model']} clicks: {first['lists']} lists of {first['queries']} queries, "
        f"{clipped} of the steps clipped, view {first['view']}"
    )


def _left_out(row: Row) -> str:
    return (
        f"left out: {row['skipped']} lists without a click; below each value: its 95 % interval over queries"
    )


def _with_interval(row: Row, name: str) -> str:
    value, interval = short(row[name]), row[f"{name}_ci95"]
    return value if interval is None else f"{value}\n{short(interval[0], 2)}-{short(interval[1], 2)}"


def _share(value: float) -> str:
    return "no" if value == 0 else f"{100 * value:.1f} %"


def _utility_table(rows: Sequence[Row]) -> Table:
    from rich.table import Table

    table = Table(
        title="nDCG@10 on the test part", title_justify="left", caption_justify="left",
        caption="ceiling: what a perfect ranker reaches, since queries without relevant documents count 0",
    )  # fmt: skip
    for heading in ("trained on", "eps", "untrained", "trained", "undefended", "ceiling", "clipped", "runs"):
        table.add_column(heading, justify="left" if heading == "trained on" else "right")
    for row in rows:
        table.add_row(
            row["trained_on"],
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
    from rich.table import Table

    table = Table(title="rounds", title_justify="left")
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
