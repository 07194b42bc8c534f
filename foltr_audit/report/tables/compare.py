"""The report of `compare` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.core.spec.experiment import Spec
from foltr_audit.report.render.terminal import STYLES
from foltr_audit.report.results.base import DatasetFacts, Row
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_summary import p_value
from foltr_audit.report.results.compare_worlds import WorldRows, worlds
from foltr_audit.report.results.wording import (
    CHOSEN,
    FIXED,
    FRONT,
    claimed_delta,
    counted,
    evaluated_part,
    measured,
    short_method,
    verdict_mark,
    verdict_text,
)
from foltr_audit.report.tables.attack import dataset_line
from foltr_audit.report.tables.columns import name_lines
from foltr_audit.report.tables.layout import (
    Column,
    bytes_text,
    interval_column,
    interval_columns,
    loss_text,
    print_fitting,
    rows_table,
    text_column,
)
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LESS_OF_LEAKS = ("accuracy", "F1", "TPR@1%", "without", "best attack")
_LESS_OF_PRICES = ("bytes", "hit hardest", "served worst", "online", "p")
_LESS_OF_CLAIMS = ("ceiling", "all rounds", "proven", "claimed")
"""Columns that each table leaves out on a narrow terminal, first to last."""


def print_compare(report: CompareReport, console: Console) -> None:
    """The whole report: data, the leaks and costs in each world, then the claims and what holds of them."""
    seeded = {"seed": Spec().seed, **report.config["spec"]}
    if report.dataset:
        console.print(dataset_line(DatasetFacts.of_plain(report.dataset), seeded, _systems(report.results)))
    several = worlds(report)
    for world in several:
        console.print()
        leaks = partial(_leaks, world.results, several=len(several) > 1)
        print_fitting(leaks, _LESS_OF_LEAKS, console)
        console.print()
        print_fitting(partial(_prices, world), _LESS_OF_PRICES, console)
        for row in world.results:
            if row["dominated_by"]:
                line = f"  {row['name']}: beaten by {' and '.join(row['dominated_by'])}"
                console.print(escape(line), highlight=False)
    if report.claims:
        console.print()
        print_fitting(partial(_claims, report.claims), _LESS_OF_CLAIMS, console)
    _print_rest(report, console)


def _systems(rows: Sequence[Row]) -> set[tuple[str, str]]:
    return {(row["learner"], row["pdgd"]) for row in rows}


def _print_rest(report: CompareReport, console: Console) -> None:
    console.print()
    for row in report.left_out:
        console.print(escape(f"left out: {row['learner']}, {row['defense']}: {row['why']}"), highlight=False)
    for row in report.failed:
        console.print(
            escape(f"failed: {row['defense']}, {row['click_model']} clicks: {row['why']}"), style="red"
        )


def warnings_by_defense(rows: Sequence[Row]) -> list[str]:
    """Each warning once, after the defenses and epsilons that it is about."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        about = found.setdefault(row["warning"], {}).setdefault(row["alternative"], [])
        if row["eps"] is not None and epsilon(row["eps"]) not in about:
            about.append(epsilon(row["eps"]))
    return [
        "; ".join(f"{name}, eps {', '.join(eps)}" if eps else name for name, eps in about.items())
        + f": {warning}"
        for warning, about in found.items()
    ]


def _names(rows: Sequence[Row], *, narrow: bool) -> list[Column]:
    """The mark of the front, and the defense with spaces where a line may break."""
    several = len({row["learner"] for row in rows}) > 1

    def name(row: Row) -> str:
        text = f"{row['learner']}: {row['name']}" if several else str(row["name"])
        return escape(name_lines(text, narrow=narrow))

    front = Column("", lambda row: "[green]*[/]" if row["pareto"] else "", "words")
    return [front, Column("defense", name, "name")]


_METRICS = {
    "auc": "AUC",
    "tpr_at_1": "TPR@1%",
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
}


def _leaks(rows: Sequence[Row], narrow: bool, *, several: bool) -> Table:
    first = rows[0]
    at = f" on {first['data']}" if several else ""

    def attack(row: Row) -> str:
        name = row["attack"] or "-"
        return escape(short_method(name) if narrow else name)

    return rows_table(
        escape(f"{first['click_model']} clicks, scenario {first['scenario']}{at}: what an attack finds"),
        f"best attack: highest AUC of those that ran, {CHOSEN}; "
        "without: highest AUC of a guess that reads no message; below each value: its 95 % interval; "
        f"*: on the front of AUC and nDCG@10: {FRONT}",
        [
            *_names(rows, narrow=narrow),
            Column("best attack", attack, "name"),
            *interval_columns(_METRICS),
            Column("without", without_message),
        ],
        rows,
        space=0 if narrow else 1,
    )


def without_message(row: Row) -> str:
    """The AUC of the best guess that reads no message, and below it which one."""
    guess = f"\n{escape(short_method(row['baseline']))}" if row["baseline"] else ""
    return short(row["baseline_auc"]) + guess


def _prices(world: WorldRows, narrow: bool) -> Table:
    rows, corrected = world.results, world.corrected()
    first = rows[0]
    over = ", interval over runs" if any(row["online_mean_ci95"] for row in rows) else ""
    columns = [
        *_names(rows, narrow=narrow),
        interval_column("nDCG@10", "ndcg@10"),
        Column("loss", loss_text),
        Column("p", lambda row: p_value(corrected.get((row["learner"], row["name"])))),
        interval_column("online", "online_mean"),
        Column("bytes", bytes_text),
    ]
    if any(row["worst_served_group"] for row in rows):
        columns.append(_group_column("served worst", "worst_served_group", "worst_served_online"))
        columns.append(_group_column("hit hardest", "worst_attacked_group", "worst_attacked_auc"))
    return rows_table(
        escape(f"{first['click_model']} clicks, scenario {first['scenario']}: what it costs"),
        f"{counted(first['runs'], 'run')}; nDCG@10 on {evaluated_part(rows)}, and online (mean of rounds"
        f"{over}); loss: against no defense, with p of a paired t-test times "
        f"{counted(max(len(corrected), 1), 'comparison')}; interval of nDCG@10 and p: {FIXED}; "
        f"ceiling {short(first['ndcg@10_ceiling'])}, "
        f"untrained {short(first['ndcg@10_untrained'])}; bytes: of a client in a round",
        columns,
        rows,
        space=0 if narrow else 1,
    )


def _group_column(header: str, group: str, value: str) -> Column:
    def cell(row: Row) -> str:
        return "-" if row[group] is None else escape(f"{row[group]} {short(row[value])}")

    return Column(header, cell, "fold")


def _claims(rows: Sequence[Row], narrow: bool) -> Table:
    units = list(dict.fromkeys(row["unit"] for row in rows))
    several = len({row["learner"] for row in rows}) > 1 or len({row["scenario"] for row in rows}) > 1
    lines, last = [], None
    for row in rows:
        name = f"{row['learner']}, {row['scenario']}: {row['name']}" if several else row["name"]
        sight = f"{row['sees']}, {row['unit']}" if len(units) > 1 else row["sees"]
        lines.append(row | {"sees": sight, "name": "" if name == last else name_lines(name, narrow=narrow)})
        last = name

    def verdict(row: Row) -> str:
        words = verdict_text(row["eps_claimed"], row["verdict"])
        style = STYLES[verdict_mark(row["verdict"])]
        words = words.replace("by ", "by\n") if narrow else words
        return f"[{style}]{words}[/]" if style else words

    bounds = {"proven": "upper", "all rounds": "upper_run", "measured": "lower", "ceiling": "ceiling"}
    return rows_table(
        f"epsilon for one {' or '.join(units)} in one message: claimed, and what holds",
        "sees: what the server sees; proven: an upper bound by accounting; all rounds: of all messages of "
        "the run together; measured: what trials show at least, "
        f"{measured(rows[0]['confidence'])}; ceiling: the most that this number of trials can show",
        [
            text_column("defense", "name", "name"),
            text_column("sees", "sees", "name"),
            Column("claimed", lambda row: _claimed(row, narrow=narrow)),
            *(_bound_column(header, f"eps_{what}") for header, what in bounds.items()),
            Column("verdict", verdict, "name"),
        ],
        lines,
        space=0 if narrow else 1,
    )


def _claimed(row: Row, *, narrow: bool) -> str:
    eps, delta = epsilon(row["eps_claimed"]), "" if math.isinf(row["eps_claimed"]) else claimed_delta(row)
    if not delta:
        return eps
    return "\n".join([eps, *delta.split()]) if narrow else f"{eps} ({delta})"


def _bound_column(header: str, name: str) -> Column:
    def cell(row: Row) -> str:
        value = row[name]
        return "none" if math.isinf(value) else f"{value:.2f}" if value < 1e5 else f"{value:.3g}"

    return Column(header, cell)
