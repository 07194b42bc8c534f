"""`foltr-audit audit`: check a claimed epsilon, of a chain of defenses or of any Python function.

Proofs come from above (accounting), measured bounds from below (canary games). With --no-trials nothing is
run, and what is declared is compared with what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.audit_function import FUNCTION, run_function_audit
from foltr_audit.cli.common import (
    ANSWER,
    AUDIT,
    SHARED,
    CommonOptions,
    OtherHelp,
    stored_report,
    takes,
)
from foltr_audit.cli.options import option, refuse_others, switch, words
from foltr_audit.cli.output import show, warn
from foltr_audit.cli.pages import new_app, page
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.lint_subjects import LintSubject

OF_FUNCTION = words("what zero one inputs eps delta trials confidence estimator seed json")
"""Options of the audit of a function."""

DECLARED = words(
    "no_trials eps sensitivity defense data fold clients cohort separation cohorts scenario learner "
    "interactions rounds rank_with clip_without_pairs ranker message message_dtype seed config json"
)
"""Options that say what a system is."""

_AUDIT: tuple[str | OtherHelp, ...] = (
    *(name for name in AUDIT if name not in ("audit.delta", "audit.trials", "audit.estimator")),
    OtherHelp(
        "audit.delta",
        "Delta of the claim. Default: the one that the chain claims, or 1e-5 without a claim; of a function "
        "0.",
    ),
    OtherHelp(
        "audit.trials", "Evaluated trials per hypothesis of an audit. Default: 2000; of a function 10000."
    ),
    OtherHelp(
        "audit.estimator",
        "one-run, clopper-pearson, gaussian-dp, one-run-fdp or betting. Default: gaussian-dp for a delta "
        "above 0 and noise that is normal or nearly so, else one-run; of a function one-run.",
    ),
)

app = new_app()
FIRST = words(
    "eps defense claim delta trials view unit zero one no_trials require_proof data clients rounds out "
    "json full"
)
EXAMPLES = {
    "Check the published defense at epsilon 1.2": "foltr-audit audit --eps 1.2 --trials 1000",
    "Check what it declares, without a run": "foltr-audit audit --eps 1.2 --no-trials",
    "Check a function of your own": "foltr-audit audit mechanism.py:noisy --zero 0 --one 1 --eps 1",
}


@app.command(cls=page(FIRST, examples=EXAMPLES))
@takes(*_AUDIT, *SHARED, *ANSWER)
def audit(
    ctx: typer.Context,
    common: CommonOptions,
    what: str | None = typer.Argument(
        None,
        metavar="TARGET",
        help="A Python function to audit instead of a chain of defenses, as FILE.py:FUNCTION or "
        "MODULE:FUNCTION, with --eps, --delta, --trials, --confidence, --estimator and --seed. It is called "
        "as function(input, rng), rng being a numpy.random.Generator, and returns a number, an array, text "
        "or bytes. With --no-trials: a Spec in TOML, a Run folder or a trace.",
    ),
    zero: str | None = option("One input, as numbers: 0,0,1, or a JSON list of lists.", panel=FUNCTION),
    one: str | None = option("The neighbouring input.", panel=FUNCTION),
    inputs: str | None = option(
        "Both inputs: a file .npz, .json or .toml that holds zero and one, or a function of the same module "
        "(or MODULE:FUNCTION) that returns both.",
        panel=FUNCTION,
    ),
    no_trials: bool = switch(
        "--no-trials",
        "Run nothing: only compare what the system declares with what follows from it.",
    ),
    require_proof: bool = switch(
        "--require-proof", "Exit with 1 unless each claim has a proven bound at or below it."
    ),
) -> None:
    """Check what a chain of defenses claims: proven bounds from above, measured ones from below.

    Given a function, run it in trials with two neighbouring inputs, and check what --eps claims of it.
    Without --eps only the lower bound is shown.

    Exit code 1 if trials refute a claim, if the exact loss of a pair exceeds it, if it relies on a declared
    noise law that a link breaks, if noise repeats, or if a claim does not follow from what is declared; 70 if
    a proof and a finding contradict each other.
    """
    if no_trials:
        _compare_declared(ctx, common, what)
        return
    if what is not None:
        if Path(what).exists():
            raise UsageError(
                f"audit: {what} is no function; expected FILE.py:FUNCTION, --config FILE, or --no-trials"
            )
        refuse_others(ctx, OF_FUNCTION, "not with a function")
        run_function_audit(what, common, zero=zero, one=one, inputs=inputs)
        return
    for name, value in {"zero": zero, "one": one, "inputs": inputs}.items():
        if value is not None:
            raise UsageError(f"--{name}: only with a function, as FILE.py:FUNCTION")
    from foltr_audit.report.results.audit import AuditReport, print_audit, print_brief_audit

    report = stored_report(common, "audit", AuditReport.of)
    brief = partial(print_brief_audit, report, quiet=common.quiet)
    show(report.json, partial(print_audit, report) if common.full else brief, json=common.json)
    warn((row.coded for row in report.warnings), full=common.full, quiet=common.quiet)
    if not report.holds(require_proof=require_proof):
        raise typer.Exit(1)


def _compare_declared(ctx: typer.Context, common: CommonOptions, path: str | None) -> None:
    """Compare what a system declares with what follows from it; exit code 1 if a claim does not follow."""
    from foltr_audit.experiments.lint_subjects import subjects_of
    from foltr_audit.report.results.system_lint import SystemLintReport, print_lint

    if path is not None and ":" in path and not Path(path).exists():
        raise UsageError("--no-trials: not with a function, which only trials can audit")
    if path is None:
        refuse_others(ctx, DECLARED, "not with --no-trials, which runs nothing")
        systems = tuple(subjects_of(common.plan().specs))
    else:
        refuse_others(ctx, {"what", "no_trials", "json"}, "not with a path, which says what the system is")
        systems = tuple(_stored(Path(path)))
    report = SystemLintReport.of(systems)
    show(report.json, partial(print_lint, report), json=common.json)
    if report.errors:
        raise typer.Exit(1)


def _stored(path: Path) -> Iterator[LintSubject]:
    """The systems of a Spec, a Run folder or a trace.

    Raises:
        UsageError: it is none of these; the message names it.
    """
    from foltr_audit.experiments.lint_subjects import subjects_at

    try:
        yield from subjects_at(path)
    except UsageError as error:
        raise UsageError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
