"""A recommendation as rich tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.pictures.compare_plots import short_method
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.recommend import RecommendReport
from foltr_audit.report.results.wording import counted
from foltr_audit.report.tables.attack import dataset_line
from foltr_audit.report.tables.compare import without_message
from foltr_audit.report.tables.layout import below, name_lines, print_fitting, table
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LESS_OF_EVIDENCE = ("bytes", "claimed", "without", "attack", "measured")
_LESS_OF_CANDIDATES = ("attack", "clip")
"""What each table does without on a narrow terminal, first to last."""


def print_recommend(report: RecommendReport, console: Console) -> None:
    """The answer, the options, their evidence, and what came next."""
    config = report.config["spec"]
    trained = report.evidence or {"learner": config["train"]["learner"], "pdgd": "none"}
    console.print(dataset_line(report.dataset, config, [trained]))
    console.print(_asked(report), highlight=False)
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
    console.print(_counted(report.search), highlight=False)
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


def _asked(report: RecommendReport) -> str:
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
    runs = effort["runs"]
    found = table(
        f"on the test part, {counted(runs, 'fresh repetition')}: nothing here was used to choose",
        "below each value: its 95 % interval over queries; loss: against no defense; without: highest "
        "AUC of a guess that reads no message; proven: an upper bound by accounting; measured: what "
        f"{effort['trials']} trials show at least; bytes: of a client in a round",
        space=0 if narrow else 1,
    )
    found.add_column("defense", no_wrap=True)
    headings = ("nDCG@10", "loss", "attack", "AUC", "without", "claimed", "proven", "measured", "bytes")
    for heading in headings:
        found.add_column(heading, justify="right", no_wrap=True)
    others = [report.without] if report.without and report.without["name"] != row["name"] else []
    for one in (row, *others):
        found.add_row(
            escape(name_lines(one["name"], narrow=narrow)),
            below(one, "ndcg@10"),
            _loss(one),
            escape(_attack(one, narrow=narrow)),
            "-" if one["auc"] is None else below(one, "auc"),
            without_message(one),
            *(_epsilon(one.get(f"eps_{what}_{view}")) for what in ("claimed", "proven", "measured")),
            "-" if one["bytes_per_client"] is None else f"{one['bytes_per_client']:,.0f}",
        )
    return found


def _attack(row: Row, *, narrow: bool) -> str:
    attack = str(row["attack"] or "-")
    return short_method(attack) if narrow else attack


def _loss(row: Row) -> str:
    difference = row["ndcg@10_difference"]
    if difference is None:
        return "-"
    loss, interval = short(0.0 - round(difference, 3)), row["ndcg@10_difference_ci95"]
    return loss if interval is None else f"{loss}\n{short(-interval[1])} to {short(-interval[0])}"


def _epsilon(value: float | None) -> str:
    return "-" if value is None else "none" if math.isinf(value) else f"{value:.2f}"


def _candidates(rows: Sequence[Row], report: RecommendReport, narrow: bool) -> Table:
    limited = report.config["limits"]["max_auc"] is not None
    title = "the best candidate of each defense" if report.recommended else "the nearest candidates"
    found = table(
        f"{title}, on the validation part, which chose",
        "a candidate keeps to --max-attack-auc if the interval of every attack ends below it"
        if limited
        else None,
        space=0 if narrow else 1,
    )
    found.add_column("defense", no_wrap=True)
    for heading in ("clip", "proven", "nDCG@10", *(("attack", "AUC") if limited else ())):
        found.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [
            "-" if row["norm"] is None else f"{row['norm']:g}",
            _epsilon(row["eps_proven"]),
            short(row["ndcg@10_validation"]),
        ]
        if limited:
            cells += [escape(_attack(row, narrow=narrow)), "-" if row["auc"] is None else below(row, "auc")]
        found.add_row(escape(name_lines(row["name"], narrow=narrow)), *cells)
    return found


def _counted(search: Row) -> str:
    parts = [f"{search['kept']} kept to the limits", f"{search['above_auc']} above --max-attack-auc"]
    parts += [f"{search['refused']} refused by accounting", f"{search['failed']} failed"]
    repeated = search["candidates"] - search["different"]
    again = f" ({repeated} of them again)" if repeated else ""
    count = search["defenses_refused"]
    before = f"; {counted(count, 'defense')} refused before any was run:" if count else ""
    return f"{counted(search['candidates'], 'candidate')}{again}: {', '.join(parts)}{before}"
