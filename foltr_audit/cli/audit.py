"""`foltr-audit audit`: check a claimed epsilon, of a chain of defenses or of any Python function.

Proofs come from above (accounting), measured bounds from below (canary games). With --no-trials nothing is
run, and what is declared is compared with what follows from it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.common import ANSWER, AUDIT, SHARED, CommonOptions, OtherHelp, takes
from foltr_audit.cli.options import flags, option, refuse_given, refuse_others, switch, words
from foltr_audit.cli.output import show, warn
from foltr_audit.cli.pages import new_app, page
from foltr_audit.cli.runs import store
from foltr_audit.cli.user_code import named_function
from foltr_audit.errors import UsageError, message_of, shorten_value
from foltr_audit.utils.progress import on_terminal
from foltr_audit.utils.reading import file_text, json_table, json_value, toml_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FUNCTION = "Functions"  # the part of the help
OF_FUNCTION = words("what zero one inputs eps delta trials confidence estimator seed json")
DECLARED = words(
    "no_trials eps sensitivity defense data fold clients cohort separation cohorts scenario learner "
    "interactions rounds rank_with clip_without_pairs ranker message message_dtype seed config json"
)

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


@app.command(cls=page("audit"))
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
        "--no-trials", "Run nothing: only compare what the system declares with what follows from it."
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
    own = {"zero": zero, "one": one, "inputs": inputs}
    refuse_given(own, "only with a function, as FILE.py:FUNCTION")
    from foltr_audit.report.audit import AuditReport

    report, _, _ = store(common.plan(protocol="audit"), common, AuditReport.of)
    common.show(report)
    if not report.holds(require_proof=require_proof):
        raise typer.Exit(1)


def _compare_declared(ctx: typer.Context, common: CommonOptions, path: str | None) -> None:
    from foltr_audit.experiments.lint_subjects import subjects_at, subjects_of
    from foltr_audit.report.audit import SystemLintReport

    if path is not None and ":" in path and not Path(path).exists():
        raise UsageError("--no-trials: not with a function, which only trials can audit")
    if path is None:
        refuse_others(ctx, DECLARED, "not with --no-trials, which runs nothing")
        systems = tuple(subjects_of(common.plan().specs))
    else:
        refuse_others(ctx, {"what", "no_trials", "json"}, "not with a path, which says what the system is")
        try:
            systems = tuple(subjects_at(Path(path)))
        except UsageError as error:
            raise UsageError(str(error) if path in str(error) else f"{path}: {error}") from error
    report = SystemLintReport.of(systems)
    show(report.json, report.show, json=common.json)
    if report.errors:
        raise typer.Exit(1)


_SUFFIXES = (".npz", ".json", ".toml")
_NAMES = ("zero", "one")


def input_pair(inputs: str | None, zero: str | None, one: str | None, function: str) -> tuple[object, object]:
    """The two neighbouring inputs of --inputs, for the audit of `function`, or of --zero and --one."""
    import numpy as np

    if inputs is not None:
        if zero is not None or one is not None:
            raise UsageError("--inputs: expected no --zero and --one beside it")
        of_file = inputs.endswith(_SUFFIXES)
        pair = _pair_of_file(Path(inputs)) if of_file else _pair_of_function(inputs, function)
    elif zero is None or one is None:
        raise UsageError("--zero and --one, or --inputs: expected two neighbouring inputs")
    else:
        pair = _literal(zero, "--zero"), _literal(one, "--one")
    first, second = pair
    numbers = isinstance(first, np.ndarray | np.generic) and isinstance(second, np.ndarray | np.generic)
    if numbers and np.array_equal(np.asarray(first), np.asarray(second)):
        raise UsageError("both inputs are the same; expected neighbours that differ")
    return pair


def _literal(text: str, option: str) -> object:
    """Numbers separated by commas, a JSON list of lists of numbers, or one number."""
    whole = text.lstrip().startswith("[")
    try:
        array = _numbers(json_value(text if whole else f"[{text}]", option, UsageError), option)
    except UsageError as error:
        raise UsageError(
            f"{option}: {shorten_value(text)!r}; expected numbers separated by commas, or a JSON list"
        ) from error
    return array if whole or array.size != 1 else array[0]


def _pair_of_file(path: Path) -> tuple[object, object]:
    table: Mapping[str, object]
    if path.suffix == ".npz":
        from foltr_audit.utils.reading.arrays import read_archive

        if not path.is_file():
            raise UsageError(f"--inputs: {path}: no such file")
        table = read_archive(path, f"--inputs: {path}", UsageError)
    else:
        read = json_table if path.suffix == ".json" else toml_table
        table = read(file_text(path, UsageError), f"--inputs: {path}", UsageError)
    missing = [name for name in _NAMES if name not in table]
    if missing or len(table) > len(_NAMES):
        held = ", ".join(sorted(table)) or "nothing"
        raise UsageError(
            f"--inputs: {path}: it holds {shorten_value(held)}; expected zero and one, two inputs"
        )
    zero, one = (_numbers(table[name], f"--inputs: {path}: {name}") for name in _NAMES)
    return zero, one


def _numbers(value: object, where: str) -> NDArray[np.generic]:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{where}: {shorten_value(value)}; expected numbers, in lists of equal length")
    return array


def _pair_of_function(name: str, function: str) -> tuple[object, object]:
    """Both inputs, as a function without parameters returns them."""
    text = name if ":" in name else f"{function.rpartition(':')[0]}:{name}"
    maker = named_function(text, "--inputs")
    try:
        pair = maker()
    except (Exception, SystemExit) as error:  # whatever the function raises is for its author
        raise UsageError(f"--inputs: {text} raised {type(error).__name__}: {message_of(error)}") from error
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise UsageError(f"--inputs: {text} returned a {type(pair).__name__}; expected a pair of inputs")
    return pair[0], pair[1]


_FIELDS = words(
    "function.eps function.delta function.trials function.confidence function.estimator function.seed"
)


def run_function_audit(
    function: str, common: CommonOptions, *, zero: str | None, one: str | None, inputs: str | None
) -> None:
    """Check a claimed epsilon of a Python function, which is run with two neighbouring inputs."""
    from foltr_audit.auditing.function_audit import audit_function
    from foltr_audit.core.settings.audit import FunctionAuditSpec
    from foltr_audit.report.audit import FunctionAuditReport

    claims = common.eps or ()
    if len(claims) > 1:
        raise UsageError("--eps: a function has one claim; expected one value")
    values = {**common.of_table("audit"), "eps": claims[0] if claims else None}
    if "seed" in common.fields:
        values["seed"] = common.fields["seed"]
    spec = FunctionAuditSpec.parse(values, "", flags(_FIELDS))
    with contextlib.redirect_stdout(sys.stderr):  # whatever the user's code prints is no result
        mechanism = named_function(function, "audit")
        pair = input_pair(inputs, zero, one, function)
        copy = partial(named_function, function, "audit", anew=True)
        audited = audit_function(mechanism, pair, spec, on_terminal(), reload=copy, name=function)
    report = FunctionAuditReport.of(audited, spec)
    show(report.json, report.show, json=common.json)
    warn(report.coded_warnings, quiet=common.quiet)
    if not report.holds:
        raise typer.Exit(1)
