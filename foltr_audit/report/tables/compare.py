"""A comparison as rich tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.report.pictures.compare_plots import short_method
from foltr_audit.report.results.base import Row
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
    verdict_text,
)
from foltr_audit.report.tables.attack import dataset_line
from foltr_audit.report.tables.layout import below, name_lines, print_fitting, table
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LESS_OF_LEAKS = ("accuracy", "F1", "TPR@1%", "without", "best attack")
_LESS_OF_PRICES = ("bytes", "hit hardest", "served worst", "online", "p")
_LESS_OF_CLAIMS = ("ceiling", "all rounds", "proven", "claimed")
"""What each table does without on a narrow terminal, first to last."""


def print_compare(report: CompareReport, console: Console) -> None:
    """The whole report: data, per world the leaks and prices, then what is claimed and what holds."""
    seeded = {"seed": Spec().seed, **report.config["spec"]}
    if report.dataset:
        console.print(dataset_line(report.dataset, seeded, report.results))
    several = worlds(report)
    for world in several:
        console.print()
        leaks = partial(_leaks, world.results, several=len(several) > 1)
        print_fitting(leaks, _LESS_OF_LEAKS, console)
        console.print()
        print_fitting(partial(_prices, world), _LESS_OF_PRICES, console)
        for line in _beaten(world.results):
            console.print(line, highlight=False)
    if report.claims:
        console.print()
        print_fitting(partial(_claims, report.claims), _LESS_OF_CLAIMS, console)
    _print_rest(report, console)


def _print_rest(report: CompareReport, console: Console) -> None:
    console.print()
    for row in report.left_out:
        console.print(escape(f"left out: {row['learner']}, {row['defense']}: {row['why']}"), highlight=False)
    for row in report.failed:
        console.print(
            escape(f"failed: {row['defense']}, {row['click_model']} clicks: {row['why']}"), style="red"
        )


def warnings_by_defense(rows: Sequence[Row]) -> list[str]:
    """Each warning once, with the defenses and epsilons that it is about."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        about = found.setdefault(row["warning"], {}).setdefault(row["alternative"], [])
        if row["eps"] is not None and epsilon(row["eps"]) not in about:
            about.append(epsilon(row["eps"]))
    return [
        f"{'; '.join(_with_eps(name, eps) for name, eps in about.items())}: {warning}"
        for warning, about in found.items()
    ]


def _with_eps(alternative: str, eps: Sequence[str]) -> str:
    return f"{alternative}, eps {', '.join(eps)}" if eps else alternative


def _name(row: Row, rows: Sequence[Row], *, narrow: bool) -> tuple[str, str]:
    """The mark of the front, and the defense with spaces where a line may break."""
    several = len({other["learner"] for other in rows}) > 1
    name = f"{row['learner']}: {row['name']}" if several else str(row["name"])
    return "[green]*[/]" if row["pareto"] else "", escape(name_lines(name, narrow=narrow))


def _table(title: str, caption: str, *, narrow: bool) -> Table:
    found = table(escape(title), caption, space=0 if narrow else 1)
    found.add_column("")
    found.add_column("defense", no_wrap=True)
    return found


def _leaks(rows: Sequence[Row], narrow: bool, *, several: bool) -> Table:
    first = rows[0]
    at = f" on {first['data']}" if several else ""
    found = _table(
        f"{first['click_model']} clicks, scenario {first['scenario']}{at}: what an attack finds",
        f"best attack: highest AUC of those that ran, {CHOSEN}; "
        "without: highest AUC of a guess that reads no message; below each value: its 95 % interval; "
        f"*: on the front of AUC and nDCG@10: {FRONT}",
        narrow=narrow,
    )
    found.add_column("best attack", no_wrap=True)
    shown = {"auc": "AUC", "tpr_at_1": "TPR@1%", "accuracy": "accuracy", "precision": "precision"}
    shown |= {"recall": "recall", "f1": "F1"}
    for heading in (*shown.values(), "without"):
        found.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = (below(row, name) for name in shown)
        attack = row["attack"] or "-"
        attack = escape(short_method(attack) if narrow else attack)
        found.add_row(*_name(row, rows, narrow=narrow), attack, *cells, without_message(row))
    return found


def without_message(row: Row) -> str:
    """The AUC of the best guess that reads no message, and below it which one."""
    return "\n".join(
        [short(row["baseline_auc"]), *([escape(short_method(row["baseline"]))] if row["baseline"] else [])]
    )


def _prices(world: WorldRows, narrow: bool) -> Table:
    rows, corrected = world.results, world.corrected()
    first = rows[0]
    over = ", interval over runs" if any(row["online_mean_ci95"] for row in rows) else ""
    found = _table(
        f"{first['click_model']} clicks, scenario {first['scenario']}: what it costs",
        f"{counted(first['runs'], 'run')}; nDCG@10 on {evaluated_part(rows)}, and online (mean of rounds"
        f"{over}); loss: against no defense, with p of a paired t-test times "
        f"{counted(max(len(corrected), 1), 'comparison')}; interval of nDCG@10 and p: {FIXED}; "
        f"ceiling {short(first['ndcg@10_ceiling'])}, "
        f"untrained {short(first['ndcg@10_untrained'])}; bytes: of a client in a round",
        narrow=narrow,
    )
    for heading in ("nDCG@10", "loss", "p", "online", "bytes"):
        found.add_column(heading, justify="right", no_wrap=True)
    groups = any(row["worst_served_group"] for row in rows)
    if groups:
        found.add_column("served worst", overflow="fold")
        found.add_column("hit hardest", overflow="fold")
    for row in rows:
        cells = (
            below(row, "ndcg@10"),
            _loss(row),
            p_value(corrected.get((row["learner"], row["name"]))),
            below(row, "online_mean"),
            "-" if row["bytes_per_client"] is None else f"{row['bytes_per_client']:,.0f}",
        )
        found.add_row(*_name(row, rows, narrow=narrow), *cells, *(_worst(row) if groups else ()))
    return found


def _loss(row: Row) -> str:
    difference = row["ndcg@10_difference"]
    return "-" if difference is None else short(0.0 - round(difference, 3))


def _worst(row: Row) -> Iterator[str]:
    for group, value in (
        ("worst_served_group", "worst_served_online"),
        ("worst_attacked_group", "worst_attacked_auc"),
    ):
        yield "-" if row[group] is None else escape(f"{row[group]} {short(row[value])}")


def _beaten(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row["dominated_by"]:
            yield escape(f"  {row['name']}: beaten by {' and '.join(row['dominated_by'])}")


def _claims(rows: Sequence[Row], narrow: bool) -> Table:
    units = list(dict.fromkeys(row["unit"] for row in rows))
    found = table(
        f"epsilon for one {' or '.join(units)} in one message: claimed, and what holds",
        "sees: what the server sees; proven: an upper bound by accounting; all rounds: of all messages of "
        "the run together; measured: "
        f"what trials show at least, {measured(rows[0]['confidence'])}; ceiling: the most that so many "
        "trials can show",
        space=0 if narrow else 1,
    )
    found.add_column("defense", no_wrap=True)
    found.add_column("sees", no_wrap=True)
    for heading in ("claimed", "proven", "all rounds", "measured", "ceiling"):
        found.add_column(heading, justify="right", no_wrap=True)
    found.add_column("verdict", no_wrap=True)
    several = len({row["learner"] for row in rows}) > 1 or len({row["scenario"] for row in rows}) > 1
    last = None
    for row in rows:
        name = f"{row['learner']}, {row['scenario']}: {row['name']}" if several else row["name"]
        verdict = verdict_text(row).replace("by ", "by\n" if narrow else "by ")
        bad = row["verdict"] in (*FALSE, CONTRADICTION)
        style = "bold red" if bad else "green" if row["verdict"] == "proven" else ""
        found.add_row(
            "" if name == last else escape(name_lines(name, narrow=narrow)),
            f"{row['sees']}, {row['unit']}" if len(units) > 1 else row["sees"],
            _claimed(row, narrow=narrow),
            *(_number(row[f"eps_{what}"]) for what in ("upper", "upper_run", "lower", "ceiling")),
            f"[{style}]{verdict}[/]" if style else verdict,
        )
        last = name
    return found


def _claimed(row: Row, *, narrow: bool) -> str:
    delta = "" if math.isinf(row["eps_claimed"]) else claimed_delta(row)
    if narrow and delta:
        return "\n".join([epsilon(row["eps_claimed"]), *delta.split()])
    return f"{epsilon(row['eps_claimed'])} ({delta})" if delta else epsilon(row["eps_claimed"])


def _number(value: float) -> str:
    return "none" if math.isinf(value) else f"{value:.2f}" if value < 1e5 else f"{value:.3g}"
