"""`foltr-audit audit`: check a claimed epsilon from above (accounting) and from below (canary games)."""

from __future__ import annotations

from typing import Annotated

import typer

from foltr_audit.cli.common import CommonOptions, listed, takes_common, use_threads
from foltr_audit.cli.output import print_line, save_config, stdout_console, warn


@takes_common
def audit(
    common: CommonOptions,
    view: Annotated[
        list[str] | None,
        typer.Option(
            "--view",
            help="individual (the server sees each message), aggregate (their sum), colluding (other clients "
            "tell the server what they sent), each also +lists (it sees the shown lists too); several. "
            "Default: individual and aggregate, with and without lists.",
        ),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            "--unit",
            help="What neighbours differ in: click, interaction (default), query, client; several.",
        ),
    ] = None,
    canary: Annotated[
        list[str] | None,
        typer.Option(
            "--canary",
            help="data:worst (default, searched), data:typical (no evidence for a claim), data:no-click, "
            "data:lists (whose later lists differ most), or message (two extreme models; unit client); "
            "several.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="Global models that messages start from: first (of the run), trained. Default: both, each "
            "in a game of its own; of several --messages those of rounds along the run.",
        ),
    ] = None,
    claim: Annotated[
        float | None, typer.Option("--claim", help="Epsilon to check. Default: the chain's own.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="Delta of the claim. Default: the chain's own, else 1e-5.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", help="Evaluated trials per hypothesis. Default: 2000.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", help="Of each lower bound. Default: 0.95.")
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            "--estimator",
            help="clopper-pearson, gaussian-dp, one-run, bayesian or betting. Default: gaussian-dp for a "
            "delta above 0 and noise that is normal or nearly so, else clopper-pearson.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            "--score",
            help="What tells the inputs apart: likelihood, projection, discriminant, equality, lists, "
            "last-bits, or an attack such as lad. Default: auto, the best on a separate part.",
        ),
    ] = None,
    messages: Annotated[
        int | None,
        typer.Option("--messages", help="Rounds in which the client sends; all are pooled. Default: 1."),
    ] = None,
    drop_out: Annotated[
        float | None,
        typer.Option("--drop-out", help="Share of the cohort whose messages do not arrive. Default: 0."),
    ] = None,
    colluders: Annotated[
        int | None,
        typer.Option(
            "--colluders",
            help="With --view colluding: how many other clients tell what they sent. Default: all.",
        ),
    ] = None,
    canary_interactions: Annotated[
        int | None,
        typer.Option(
            "--canary-interactions", help="Interactions behind each message. Default: the learner's."
        ),
    ] = None,
    lists: Annotated[
        str | None,
        typer.Option(
            "--lists",
            help="How lists after the first of a message are made: deterministic (default), or sampled.",
        ),
    ] = None,
    canary_on: Annotated[
        str | None, typer.Option("--canary-on", help="Parts that are searched. Default: train,vali,test.")
    ] = None,
    min_documents: Annotated[
        int | None, typer.Option("--min-documents", help="Leave shorter queries out. Default: 10.")
    ] = None,
    require_proof: Annotated[
        bool,
        typer.Option("--require-proof", help="Exit with 1 unless a bound at or below each claim is proven."),
    ] = False,
) -> None:
    """Check what a chain of defenses claims: proven from above, measured from below.

    Exit code 1 if a claim is refuted by trials, false by the exact loss of a pair, or built on a declared law
    that a link breaks; 70 if a proof and what was found contradict each other.
    """
    from foltr_audit.experiments.runner import Runner, run_plan
    from foltr_audit.report.audit_tables import print_audit
    from foltr_audit.report.results.audit import AuditReport
    from foltr_audit.utils.progress import on_terminal

    given = {
        "audit.views": listed(view),
        "audit.units": listed(unit),
        "audit.canaries": listed(canary),
        "audit.models": listed(model),
        "audit.claim": claim,
        "audit.delta": delta,
        "audit.trials": trials,
        "audit.confidence": confidence,
        "audit.estimator": estimator,
        "audit.score": score,
        "audit.messages": messages,
        "audit.drop_out": drop_out,
        "audit.colluders": colluders,
        "audit.lists": lists,
        "audit.interactions": canary_interactions,
        "audit.on": listed(None if canary_on is None else [canary_on]),
        "audit.min_documents": min_documents,
    }
    point = {name: value for name, value in given.items() if value is not None}
    plan, output = common.plan(point, protocol="audit"), common.output()
    save_config(common.save_config, plan)
    use_threads(common.threads)
    report = AuditReport.of(plan, run_plan(plan, output, Runner(on_terminal())))
    if output is not None:
        output.save_results(report.json())
    if common.json:
        print_line(report.json())
    else:
        print_audit(report, stdout_console())
    warn(row["warning"] for row in report.warnings)
    if not report.holds(require_proof=require_proof):
        raise typer.Exit(1)
