"""Packed results: how they are made again to be compared, and what a check of them prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.folder import INDEX, ComparisonFolder
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runs.folder import RESULTS
from foltr_audit.report.attack import AttackReport
from foltr_audit.report.audit import AuditReport
from foltr_audit.report.compare import CompareReport
from foltr_audit.report.membership import MembershipReport, UnlearningReport
from foltr_audit.report.table import Column, make_table
from foltr_audit.report.terminal import print_table
from foltr_audit.report.train import TrainReport
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_bytes, json_table

if TYPE_CHECKING:
    from rich.console import Console

_KINDS = (AttackReport, AuditReport, MembershipReport, TrainReport, UnlearningReport)
_REPORTS: dict[object, Any] = {kind.SCHEMA: kind for kind in _KINDS}


def remake_results(root: Path, runs: Sequence[Run], into: Path, progress: Progress = SILENT) -> None:
    """Write the results of a comparison's folder, or of Runs that were run again, as their command did."""
    stored = json_table(file_bytes(root / RESULTS, TraceError), RESULTS, TraceError)
    if (root / INDEX).is_file():
        folder = ComparisonFolder(root)
        report = CompareReport.of(folder, folder.failures(), progress)
    else:
        report = _REPORTS[stored["schema"]].of(Plan(tuple(run.spec for run in runs)), runs)
    # Figures of a preset come from no report.
    text = report.json({name: stored[name] for name in ("published",) if name in stored})
    (into / RESULTS).write_text(text + "\n", encoding="utf-8")
    if isinstance(report, TrainReport):
        report.save_rounds(into)


def print_verification(outcome: dict[str, Any], console: Console) -> None:
    """Print the checks, the versions that differ, and the verdict."""
    unfinished = ", partial: it was packed unfinished" if outcome["partial"] else ""
    head = f"{outcome['bundle']}: a {outcome['kind']}{unfinished}\nSHA-256 {outcome['sha256']}\n"
    console.print(escape(head), highlight=False, soft_wrap=True)
    columns = [
        Column("check", "check", "line"),
        Column("result", "state", "line"),
        Column("found", lambda row: "\n".join(row["found"]), "fold"),
    ]
    print_table(make_table("Checks", columns, outcome["checks"]), console)
    lines = [""]
    if outcome["versions_differ"]:
        near = "relative {relative:g}, absolute {absolute:g}".format(**outcome["tolerance"])
        lines.append(f"Versions differ: numbers had to agree within {near}.")
    for name, pair in outcome["versions_differ"].items():
        there, here = ("none" if text is None else ascii(text)[1:-1][:40] for text in pair.values())
        lines.append(f"  {name}: packed with {there}, here {here}")
    if 0 < len(outcome["rerun"]) < outcome["of"]:
        lines.append(
            f"Re-run: {len(outcome['rerun'])} of {outcome['of']}, drawn with --seed {outcome['seed']}."
        )
    console.print(escape("\n".join(lines)), highlight=False)
    bare = ", nothing re-run" if outcome["verdict"] == "verified" and not outcome["rerun"] else ""
    console.print(f"Verdict: {outcome['verdict']}{bare}", style="bold", highlight=False)
