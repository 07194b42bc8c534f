"""Measures a lower bound on the epsilon of any Python function, for `foltr-audit audit FILE.py:FUNCTION`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.options import flags, words
from foltr_audit.cli.output import show, warn
from foltr_audit.cli.user_code import named_function
from foltr_audit.errors import UsageError, message_of, shorten_value
from foltr_audit.utils.progress import on_terminal
from foltr_audit.utils.reading import file_text, json_table, json_value, toml_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# --- the two inputs --------------------------------------------------------------------------------

_SUFFIXES = (".npz", ".json", ".toml")
_NAMES = ("zero", "one")


def input_pair(inputs: str | None, zero: str | None, one: str | None, function: str) -> tuple[object, object]:
    """The two neighbouring inputs of --inputs, or of --zero and --one.

    Args:
        inputs: a file with arrays `zero` and `one`, or the name of a function, of the same module unless it
            names another, that returns both inputs.
        zero: one input as numbers.
        one: the other.
        function: the text that names the audited function.

    Raises:
        UsageError: neither or both are given, something cannot be read, or both inputs are the same.
    """
    import numpy as np

    first, second = _given_pair(inputs, zero, one, function)
    numbers = isinstance(first, np.ndarray | np.generic) and isinstance(second, np.ndarray | np.generic)
    if numbers and np.array_equal(np.asarray(first), np.asarray(second)):
        raise UsageError("both inputs are the same; expected neighbours that differ")
    return first, second


def _given_pair(
    inputs: str | None, zero: str | None, one: str | None, function: str
) -> tuple[object, object]:
    if inputs is not None:
        if zero is not None or one is not None:
            raise UsageError("--inputs: expected no --zero and --one beside it")
        if inputs.endswith(_SUFFIXES):
            return _pair_of_file(Path(inputs))
        return _pair_of_function(inputs, function)
    if zero is None or one is None:
        raise UsageError("--zero and --one, or --inputs: expected two neighbouring inputs")
    return _literal(zero, "--zero"), _literal(one, "--one")


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


# --- the audit -------------------------------------------------------------------------------------

FUNCTION = "Functions"
"""The part of the help with the options of a function's audit."""

_FIELDS = words(
    "function.eps function.delta function.trials function.confidence function.estimator function.seed"
)


def run_function_audit(
    function: str, common: CommonOptions, *, zero: str | None, one: str | None, inputs: str | None
) -> None:
    """Check a claimed epsilon of a Python function by trials with two neighbouring inputs, and print it.

    The function is run. Without a claim only the lower bound is shown.

    Raises:
        UsageError: there is no such function, or inputs or an option are wrong.
        typer.Exit: with code 1 if the trials refute the claim, or if noise repeats.
    """
    from foltr_audit.auditing.function_audit import audit_function as audit
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
        audited = audit(mechanism, pair, spec, on_terminal(), reload=copy, name=function)
    report = FunctionAuditReport.of(audited, spec)
    show(report.json, report.show, json=common.json)
    warn(report.coded_warnings)
    if not report.holds:
        raise typer.Exit(1)
