"""The report of `recommend` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.compare_rows import AuditedView, CompareRow
from foltr_audit.report.results.recommend import RecommendReport
from foltr_audit.report.results.recommend_rows import CandidateRow, SearchCounts
from foltr_audit.report.results.whole_run import run_caption
from foltr_audit.report.results.wording import counted, short_method
from foltr_audit.report.tables.columns import dataset_line, eps_text, estimate_column, short_column
from foltr_audit.report.tables.compare_columns import (
    BYTES,
    NONE,
    WITHOUT,
    attack_column,
    difference_column,
    name_column,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console


def print_recommend(report: RecommendReport, console: Console) -> None:
    """The answer, the options, their evidence, and the other candidates."""
    console.print(data_line(report))
    console.print(escape(limits_line(report)), highlight=False)
    console.print()
    style = "bold" if report.confirmed else "bold red"
    console.print(escape(report.sentence), highlight=False, style=style)
    for line in answer_lines(report):
        console.print()
        console.print(escape(line), highlight=False, soft_wrap=True)
    if report.evidence is not None:
        console.print()
        print_table(evidence_table(report, report.evidence), console)
    rows = [report.recommended, *report.runners_up] if report.recommended else report.nearest
    if rows:
        console.print()
        print_table(candidates_table(rows, report), console)
    console.print()
    console.print(_search_line(report.search), highlight=False)
    for refused in report.refused:
        line = f"refused: {refused.alternative}: proven {epsilon(refused.eps_proven)}: {refused.why}"
        console.print(escape(line), highlight=False)
    failures = {row.alternative: row.why for row in report.candidates if row.outcome == "failed"}
    for name, why in [*failures.items(), *((row.defense, row.why) for row in report.failed)]:
        console.print(escape(f"failed: {name}: {why}"), style="red", highlight=False)


def data_line(report: RecommendReport) -> str:
    """The data, learner and seed, as Rich markup."""
    train = report.config.experiment.train
    found = report.evidence
    trained = (found.setting.learner, found.setting.pdgd) if found else (train.learner, "none")
    return dataset_line(report.dataset, report.config.spec, [trained])


def answer_lines(report: RecommendReport) -> list[str]:
    """What follows the answer: the options, the runner-up, and whether the sample is too small."""
    options = "" if report.recommended is None else report.recommended.options
    return [line for line in (options, report.runner_up, report.sample) if line]


def limits_line(report: RecommendReport) -> str:
    """The setting of the search, and its limits."""
    limits = report.config.limits
    auc = "" if limits.max_auc is None else f", AUC of attacks at most {short(limits.max_auc)}"
    most = f"epsilon at most {limits.max_eps:g} (delta {limits.delta:g}) for one interaction"
    most = "any epsilon" if math.isinf(limits.max_eps) else most
    if limits.max_proven_auc is not None:
        most += f", proven AUC at most {short(limits.max_proven_auc)}"
    spec = report.config.experiment
    return (
        f"{spec.train.click_model} clicks, scenario {spec.population.scenario}, "
        f"the server sees {with_article(sees(limits.view))}: {most}{auc}"
    )


def evidence_table(report: RecommendReport, row: CompareRow) -> Table:
    """What the recommended defense does on the test split, next to no defense."""
    without = report.without
    others = [without] if without is not None and without.setting.name != row.setting.name else []
    effort = report.config.effort
    return make_table(
        f"on the test split, {counted(effort.runs, 'fresh repetition')}: nothing here was used to choose",
        [
            name_column("defense", lambda row: row.setting.name),
            estimate_column("nDCG@10", lambda row: row.ndcg),
            difference_column(),
            attack_column(),
            estimate_column("AUC", lambda row: row.auc),
            WITHOUT,
            audited_column("claimed", report, lambda audit: eps_text(audit.eps_claimed)),
            audited_column("proven", report, lambda audit: eps_text(audit.eps_proven)),
            audited_column("run", report, lambda audit: eps_text(audit.run.eps) + audit.run.of_clicks),
            audited_column("measured", report, lambda audit: eps_text(audit.eps_measured)),
            BYTES,
        ],
        [row, *others],
        caption="below each value: its 95 % interval over queries; difference: to no defense; without: "
        "highest AUC of a guess that reads no message; proven: an upper bound by accounting; "
        f"{_of_runs(report, [row, *others])}measured: what "
        f"{effort.trials} trials show at least; bytes: of a client in a round",
        spare=("bytes", "claimed", "without", "attack", "measured", "run"),
    )


def audited_column(
    header: str, report: RecommendReport, text: Callable[[AuditedView], str]
) -> Column[CompareRow]:
    """An epsilon of the view of the limits."""

    def cell(row: CompareRow) -> Cell:
        audit = row.audits.get(report.config.limits.view)
        return NONE if audit is None else Cell(text(audit))

    return Column(header, cell)


_ATTACKED = "a candidate keeps to --max-attack-auc if the interval of every attack ends below it"
_PROMISED = "AUC promised: the most that any attack on a click can reach, by the proof of one interaction"


def candidates_table(rows: Sequence[CandidateRow], report: RecommendReport) -> Table:
    """The best candidates on the validation split."""
    limited = report.config.limits.max_auc is not None
    title = "the best candidate of each defense" if report.recommended else "the nearest candidates"
    columns: list[Column[CandidateRow]] = [
        name_column("defense", lambda row: row.name),
        Column("clip", lambda row: "-" if row.norm is None else f"{row.norm:g}"),
        Column("proven", lambda row: NONE if row.eps_proven is None else Cell(eps_text(row.eps_proven))),
        Column(
            "run", lambda row: NONE if row.run is None else Cell(eps_text(row.run.eps) + row.run.of_clicks)
        ),
        short_column("nDCG@10", lambda row: row.ndcg),
    ]
    promised = report.config.limits.max_proven_auc is not None
    if promised:
        columns.insert(3, short_column("AUC\npromised", lambda row: row.auc_proven))
    if limited:
        columns += [
            Column("attack", lambda row: row.attack or "-", "name", narrow=short_method),
            estimate_column("AUC", lambda row: row.auc),
        ]
    return make_table(
        f"{title}, on the validation split, which chose",
        columns,
        rows,
        caption="; ".join([*_of_candidates(rows), *[_PROMISED] * promised, *[_ATTACKED] * limited]),
        spare=("attack", "clip", "run"),
    )


def _of_runs(report: RecommendReport, rows: Sequence[CompareRow]) -> str:
    """What the column `run` of audited rows assumes."""
    audits = [row.audits.get(report.config.limits.view) for row in rows]
    runs = [audit.run for audit in audits if audit is not None]
    return f"{run_caption(runs)}; " if runs else ""


def _of_candidates(rows: Sequence[CandidateRow]) -> list[str]:
    """What the column `run` of candidates assumes."""
    runs = [row.run for row in rows if row.run is not None]
    return [run_caption(runs)] if runs else []


def _search_line(search: SearchCounts) -> str:
    parts = [f"{search.kept} kept to the limits", f"{search.above_auc} above --max-attack-auc"]
    parts += [f"{search.refused} refused by accounting", f"{search.failed} failed"]
    repeated = search.candidates - search.different
    again = f" ({repeated} of them again)" if repeated else ""
    count = search.defenses_refused
    before = f"; {counted(count, 'defense')} refused before any was run:" if count else ""
    return f"{counted(search.candidates, 'candidate')}{again}: {', '.join(parts)}{before}"
