"""The report of `recommend` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.results.base import DatasetFacts, Row
from foltr_audit.report.results.recommend import RecommendReport
from foltr_audit.report.results.wording import counted, short_method
from foltr_audit.report.tables.attack import dataset_line
from foltr_audit.report.tables.columns import name_lines
from foltr_audit.report.tables.compare import without_message
from foltr_audit.report.tables.layout import (
    Column,
    bytes_text,
    interval_column,
    loss_text,
    print_fitting,
    rows_table,
    short_column,
    with_interval,
)
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LESS_OF_EVIDENCE = ("bytes", "claimed", "without", "attack", "measured")
_LESS_OF_CANDIDATES = ("attack", "clip")
"""Columns that each table leaves out on a narrow terminal, first to last."""


def print_recommend(report: RecommendReport, console: Console) -> None:
    """The answer, the options, their evidence, and the other candidates."""
    config = report.config["spec"]
    trained = report.evidence or {"learner": config["train"]["learner"], "pdgd": "none"}
    systems = [(trained["learner"], trained["pdgd"])]
    console.print(dataset_line(DatasetFacts.of_plain(report.dataset), config, systems))
    console.print(_limits_line(report), highlight=False)
    console.print()
    style = "bold" if report.confirmed else "bold red"
    console.print(escape(report.sentence), highlight=False, style=style)
    if report.recommended is not None:
        console.print()
        console.print(escape(report.recommended["options"]), highlight=False, soft_wrap=True)
    if report.evidence is not None:
        console.print()
        print_fitting(partial(_evidence, report, report.evidence), _LESS_OF_EVIDENCE, console)
    _print_rest(report, console)


def _print_rest(report: RecommendReport, console: Console) -> None:
    rows = [report.recommended, *report.runners_up] if report.recommended else report.nearest
    if rows:
        console.print()
        print_fitting(partial(_candidates, rows, report), _LESS_OF_CANDIDATES, console)
    console.print()
    console.print(_search_line(report.search), highlight=False)
    for row in report.refused:
        console.print(
            escape(f"refused: {row['alternative']}: proven {epsilon(row['eps_proven'])}: {row['why']}"),
            highlight=False,
        )
    failures = {row["alternative"]: row["why"] for row in report.candidates if row["outcome"] == "failed"}
    for name, why in failures.items():
        console.print(escape(f"failed: {name}: {why}"), style="red", highlight=False)
    for row in report.failed:
        console.print(escape(f"failed: {row['defense']}: {row['why']}"), style="red", highlight=False)


def _limits_line(report: RecommendReport) -> str:
    limits, spec = report.config["limits"], report.config["spec"]
    auc = "" if limits["max_auc"] is None else f", AUC of attacks at most {short(limits['max_auc'])}"
    most = f"epsilon at most {limits['max_eps']:g} (delta {limits['delta']:g}) for one interaction"
    most = "any epsilon" if math.isinf(limits["max_eps"]) else most
    return escape(
        f"{spec['train']['click_model']} clicks, scenario {spec['population']['scenario']}, "
        f"the server sees {with_article(sees(limits['view']))}: {most}{auc}"
    )


def _evidence(report: RecommendReport, row: Row, narrow: bool) -> Table:
    view, effort = report.config["limits"]["view"], report.config["effort"]
    without = [report.without] if report.without and report.without["name"] != row["name"] else []
    bounds = ("claimed", "proven", "measured")
    return rows_table(
        f"on the test part, {counted(effort['runs'], 'fresh repetition')}: nothing here was used to choose",
        "below each value: its 95 % interval over queries; loss: against no defense; without: highest "
        "AUC of a guess that reads no message; proven: an upper bound by accounting; measured: what "
        f"{effort['trials']} trials show at least; bytes: of a client in a round",
        [
            _name_column(narrow=narrow),
            interval_column("nDCG@10", "ndcg@10"),
            Column("loss", _loss),
            *_attack_columns(narrow=narrow),
            Column("without", without_message),
            *(_epsilon_column(header, f"eps_{header}_{view}") for header in bounds),
            Column("bytes", bytes_text),
        ],
        [row, *without],
        space=0 if narrow else 1,
    )


def _name_column(*, narrow: bool) -> Column:
    return Column("defense", lambda row: escape(name_lines(row["name"], narrow=narrow)), "name")


def _attack_columns(*, narrow: bool) -> list[Column]:
    def attack(row: Row) -> str:
        name = str(row["attack"] or "-")
        return escape(short_method(name) if narrow else name)

    def auc(row: Row) -> str:
        return "-" if row["auc"] is None else with_interval(row, "auc")

    return [Column("attack", attack), Column("AUC", auc)]


def _loss(row: Row) -> str:
    interval = row["ndcg@10_difference_ci95"]
    ends = "" if interval is None else f"\n{short(-interval[1])} to {short(-interval[0])}"
    return loss_text(row) + ends


def _epsilon_column(header: str, name: str) -> Column:
    def cell(row: Row) -> str:
        value = row.get(name)
        return "-" if value is None else "none" if math.isinf(value) else f"{value:.2f}"

    return Column(header, cell)


def _candidates(rows: Sequence[Row], report: RecommendReport, narrow: bool) -> Table:
    limited = report.config["limits"]["max_auc"] is not None
    title = "the best candidate of each defense" if report.recommended else "the nearest candidates"
    caption = "a candidate keeps to --max-attack-auc if the interval of every attack ends below it"
    return rows_table(
        f"{title}, on the validation part, which chose",
        caption if limited else None,
        [
            _name_column(narrow=narrow),
            Column("clip", lambda row: "-" if row["norm"] is None else f"{row['norm']:g}"),
            _epsilon_column("proven", "eps_proven"),
            short_column("nDCG@10", "ndcg@10_validation"),
            *(_attack_columns(narrow=narrow) if limited else ()),
        ],
        rows,
        space=0 if narrow else 1,
    )


def _search_line(search: Row) -> str:
    parts = [f"{search['kept']} kept to the limits", f"{search['above_auc']} above --max-attack-auc"]
    parts += [f"{search['refused']} refused by accounting", f"{search['failed']} failed"]
    repeated = search["candidates"] - search["different"]
    again = f" ({repeated} of them again)" if repeated else ""
    count = search["defenses_refused"]
    before = f"; {counted(count, 'defense')} refused before any was run:" if count else ""
    return f"{counted(search['candidates'], 'candidate')}{again}: {', '.join(parts)}{before}"
