"""`foltr-audit audit`: check a claimed epsilon from above (accounting) and from below (canary games)."""

from __future__ import annotations

from functools import partial

import typer

from foltr_audit.cli.common import ANSWER, AUDIT, SHARED, CommonOptions, stored_report
from foltr_audit.cli.lazy import takes
from foltr_audit.cli.options import switch
from foltr_audit.cli.output import show, warn


@takes(*AUDIT, *SHARED, *ANSWER)
def audit(
    common: CommonOptions,
    require_proof: bool = switch(
        "--require-proof", "Exit with 1 unless each claim has a proven bound at or below it."
    ),
) -> None:
    """Check what a chain of defenses claims: proven bounds from above, measured ones from below.

    Exit code 1 if trials refute a claim, if the exact loss of a pair exceeds it, or if it relies on a
    declared noise law that a link breaks; 70 if a proof and a finding contradict each other.
    """
    from foltr_audit.report.results.audit import AuditReport, print_audit, print_brief_audit

    report = stored_report(common, "audit", AuditReport.of)
    brief = partial(print_brief_audit, report, quiet=common.quiet)
    show(report.json, partial(print_audit, report) if common.full else brief, json=common.json)
    warn(row.coded for row in report.warnings)
    if not report.holds(require_proof=require_proof):
        raise typer.Exit(1)
