"""`foltr-audit audit`: check a claimed epsilon from above (accounting) and from below (canary games)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from foltr_audit.cli.common import ANSWER, AUDIT, SHARED, CommonOptions, field_flags, use_threads
from foltr_audit.cli.given import refuse_others
from foltr_audit.cli.lazy import takes
from foltr_audit.cli.options import KNOW_HELP, option, switch
from foltr_audit.cli.output import save_config, show, warn
from foltr_audit.errors import UsageError

_WITH_TRACE = {
    *("trace", "know", "client_step", "target", "view", "eps", "claim", "delta", "confidence", "estimator"),
    *("data", "intents", "seed", "json", "threads"),
}


@takes(*AUDIT, *SHARED, *ANSWER)
def audit(
    ctx: typer.Context,
    common: CommonOptions,
    trace: Path | None = option(
        "Audit a recorded Run or trace whose clients tossed coins between two click patterns of a list, by "
        "guesses of the coins; --eps or --claim is the epsilon to check."
    ),
    know: list[str] | None = option(f"With --trace: {KNOW_HELP}", metavar="NAME=VALUE"),
    client_step: str | None = option(
        "With --trace: what the clients compute, if it is not PDGD; as for attack --trace."
    ),
    require_proof: bool = switch(
        "--require-proof", "Exit with 1 unless each claim has a proven bound at or below it."
    ),
) -> None:
    """Check what a chain of defenses claims: proven bounds from above, measured ones from below.

    Exit code 1 if trials refute a claim, if the exact loss of a pair exceeds it, or if it relies on a
    declared noise law that a link breaks; 70 if a proof and a finding contradict each other.
    """
    if trace is not None:
        refuse_others(ctx, _WITH_TRACE, "not with --trace, whose messages were sent already")
        _audit_trace(trace, common, know or [], client_step)
        return
    if know or client_step:
        raise UsageError(f"{'--know' if know else '--client-step'}: only with --trace")
    from foltr_audit.experiments.runner import Runner, run_plan
    from foltr_audit.report.results.audit import AuditReport, print_audit, print_brief_audit
    from foltr_audit.utils.progress import on_terminal

    plan, output = common.plan(protocol="audit"), common.output()
    save_config(common.save_config, plan)
    use_threads(common.threads)
    report = AuditReport.of(plan, run_plan(plan, output, Runner(on_terminal())))
    if output is not None:
        output.save_results(report.json())
    brief = partial(print_brief_audit, report, quiet=common.quiet)
    show(report.json, partial(print_audit, report) if common.full else brief, json=common.json)
    warn(row.coded for row in report.warnings)
    if not report.holds(require_proof=require_proof):
        raise typer.Exit(1)


def _audit_trace(path: Path, common: CommonOptions, know: list[str], client_step: str | None) -> None:
    from foltr_audit.cli.user_code import named_client_step, no_result_printed
    from foltr_audit.core.settings.audit import AuditSpec
    from foltr_audit.core.settings.plain_table import validated
    from foltr_audit.experiments.recorded_attack import TraceAttack
    from foltr_audit.report.results.coin_audit import CoinAuditReport
    from foltr_audit.report.tables.coin_audit import print_coin_audit
    from foltr_audit.trace.known_facts import parse_facts

    use_threads(common.threads)
    given = common.of_table("audit")
    recorded = TraceAttack.open(
        path,
        data=common.fields.get("data.source"),
        seed=common.fields.get("seed"),
        intents=common.fields.get("data.intents"),
        know=parse_facts(know),
        client_step=named_client_step(client_step),
    )
    claimed = _claimed(common)
    settings = given | ({} if claimed is None else {"claim": claimed})
    protocol = validated(AuditSpec, settings, "", _flags())
    with no_result_printed():
        report = CoinAuditReport.of(recorded, protocol)
    show(report.json, partial(print_coin_audit, report), json=common.json)
    warn(row.coded for row in report.warnings)
    if not report.holds:
        raise typer.Exit(1)


def _flags() -> dict[str, str]:
    """The options that set the fields of an audit protocol, for messages."""
    return {name.removeprefix("audit."): flag for name, flag in field_flags().items()}


def _claimed(common: CommonOptions) -> float | None:
    """The epsilon to check: --claim, or the only --eps."""
    claims = [
        *(common.eps or ()),
        *([common.fields["audit.claim"]] if "audit.claim" in common.fields else []),
    ]
    if len(claims) > 1:
        raise UsageError("--eps: with --trace it is the epsilon to check; expected one")
    return claims[0] if claims else None
