"""`foltr-audit audit-function`: measure a lower bound on the epsilon of any Python function."""

from __future__ import annotations

import contextlib
import sys
from functools import partial

import typer

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.lazy import takes
from foltr_audit.cli.options import argument, option
from foltr_audit.cli.output import show, warn

_FIELDS = (
    *("function.eps", "function.delta", "function.trials", "function.confidence", "function.estimator"),
    "function.seed",
)


@takes(*_FIELDS, "json")
def audit_function(
    common: CommonOptions,
    function: str = argument(
        "The function, as MODULE:FUNCTION or FILE.py:FUNCTION. It is called as function(input, rng), rng "
        "being a numpy.random.Generator, and returns a number, an array, text or bytes.",
        "FUNCTION",
    ),
    zero: str | None = option("One input, as numbers: 0,0,1, or a JSON list of lists."),
    one: str | None = option("The neighbouring input."),
    inputs: str | None = option(
        "Both inputs: a file .npz, .json or .toml that holds zero and one, or a function of the same module "
        "(or MODULE:FUNCTION) that returns both."
    ),
) -> None:
    """Check a claimed epsilon of any Python function, by trials with two neighbouring inputs.

    The function that you name is run. Exit code 1 if the trials refute the claim, or if noise repeats.
    Without --eps only the lower bound is shown.
    """
    from foltr_audit.auditing.function_audit import audit_function as audit
    from foltr_audit.cli.field_options import flags
    from foltr_audit.cli.input_pair import input_pair
    from foltr_audit.cli.user_code import named_function
    from foltr_audit.core.settings.function_audit import FunctionAuditSpec
    from foltr_audit.report.results.function_audit import FunctionAuditReport, print_function_audit
    from foltr_audit.utils.progress import on_terminal

    point = {name.removeprefix("function."): value for name, value in common.fields.items()}
    spec = FunctionAuditSpec.parse(point, "", flags(_FIELDS))
    with contextlib.redirect_stdout(sys.stderr):  # whatever the user's code prints is no result
        mechanism = named_function(function, "FUNCTION")
        pair = input_pair(inputs, zero, one, function)
        copy = partial(named_function, function, "FUNCTION", anew=True)
        found = audit(mechanism, pair, spec, on_terminal(), reload=copy)
    report = FunctionAuditReport.of(found, function, spec)
    show(report.json, partial(print_function_audit, report), json=common.json)
    warn(row.coded for row in report.warnings)
    if not report.holds:
        raise typer.Exit(1)
