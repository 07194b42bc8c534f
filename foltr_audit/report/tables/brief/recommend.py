"""The short answer of `recommend`: which defense to use, and what it does on the test split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foltr_audit.report.results.recommend import RecommendReport
from foltr_audit.report.results.recommend_rows import CandidateRow
from foltr_audit.report.tables.brief.short_answer import BriefAnswer
from foltr_audit.report.tables.columns import eps_text, estimate_cell, short_column
from foltr_audit.report.tables.compare_columns import (
    BYTES,
    NONE,
    difference_cell,
    known_cell,
    name_column,
)
from foltr_audit.report.tables.recommend import answer_lines, audited_column, data_line, limits_line
from foltr_audit.report.tables.table import Cell, Column, Table, make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_brief_recommend(report: RecommendReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer."""
    brief_recommend(report).print(console, quiet=quiet)


def brief_recommend(report: RecommendReport) -> BriefAnswer:
    """The short answer: the evidence for the recommended defense, or the nearest candidates."""
    failed = [f"failed: {row.defense}: {row.why}" for row in report.failed]
    others = report.runners_up if report.recommended else report.nearest
    return BriefAnswer(
        conclusion=(report.sentence, *answer_lines(report)),
        about=data_line(report),
        table=_evidence(report) if report.evidence is not None else _nearest(others),
        notes=(limits_line(report), *failed),
        left_out=("the other candidates", "what accounting refused", "p-values and baselines"),
    )


def _evidence(report: RecommendReport) -> Table:
    found = [row for row in (report.evidence, report.without) if row is not None]
    rows = list({row.setting.name: row for row in found}.values())

    return make_table(
        "on the test split, in new repetitions",
        [
            name_column("defense", lambda row: row.setting.name),
            audited_column("proven", report, lambda audit: eps_text(audit.eps_proven)),
            Column("AUC", lambda row: known_cell(row.auc)),
            Column("nDCG@10", lambda row: estimate_cell(row.ndcg)._replace(below="")),
            Column("difference", lambda row: difference_cell(row.ndcg_difference, row.ndcg_p)),
            BYTES,
        ],
        rows,
        caption="proven: epsilon, for one interaction; AUC of the best attack; below a value: its 95 % "
        "interval; difference of nDCG@10 to no defense; bytes that a client sends in a round",
        spare=("bytes", "difference"),
    )


def _nearest(rows: Sequence[CandidateRow]) -> Table | None:
    if not rows:
        return None
    return make_table(
        "the nearest candidates, on the validation split",
        [
            name_column("defense", lambda row: row.name),
            Column("proven", lambda row: NONE if row.eps_proven is None else Cell(eps_text(row.eps_proven))),
            Column("AUC", lambda row: known_cell(row.auc)),
            short_column("nDCG@10", lambda row: row.ndcg),
        ],
        rows,
        caption="proven: epsilon, for one interaction; AUC of the best attack, and its 95 % interval",
    )
