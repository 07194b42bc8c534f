"""Reads names and files that options give, and refuses options that exclude each other."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import file_text

if TYPE_CHECKING:
    from foltr_audit.core.plugins import Learner


def refuse_others(ctx: typer.Context, allowed: Collection[str], why: str) -> None:
    """Refuse every given option except some, and --verbose.

    Args:
        ctx: the context of the command.
        allowed: names of the parameters that may be given.
        why: what follows the option in the message.

    Raises:
        UsageError: another option was given.
    """
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source = ctx.get_parameter_source(name)
        if name not in (*allowed, "verbose") and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]}: {why}")


def published_chain(learner: Learner, eps: float, sensitivity: float | None) -> list[str]:
    """The chain that --eps and --sensitivity mean for a learner.

    Raises:
        UsageError: it has no published defense, or a value is out of range.
    """
    from foltr_audit.core.plugins.answers import published_of

    try:
        return list(published_of(learner, eps, sensitivity))
    except UsageError as error:
        named = str(error).partition(":")[0] in ("eps", "sensitivity")
        raise UsageError(f"--{error}" if named else str(error)) from error


def split_methods(given: list[str] | None) -> list[str] | None:
    """The attacks of --method; one value may name several without parameters, separated by commas."""
    pieces = ([text] if ":" in text else text.split(",") for text in given or ())
    return [name.strip() for names in pieces for name in names] or None


def split_names(given: str | list[str]) -> list[str]:
    """The names in the value or values of an option, each of which may hold several separated by commas."""
    texts = [given] if isinstance(given, str) else given
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def parse_numbers(text: str, option: str) -> list[float]:
    """Parse numbers separated by commas.

    Raises:
        UsageError: the value of the option is something else.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{option}: {text!r}; expected numbers separated by commas") from error


def methods_of(given: list[str] | None) -> list[str] | None:
    """As `split_methods`, with every attack that can be loaded in the place of `all`."""
    given = split_methods(given)
    if not given:
        return None
    if "all" not in given:
        return given
    from foltr_audit.core.plugins import Attack
    from foltr_audit.core.plugins.registry import loadable

    return list(
        dict.fromkeys(name for text in given for name in (loadable(Attack) if text == "all" else [text]))
    )


def named_or_all(given: list[str]) -> list[str] | None:
    """The names of an option, several of which may be separated by commas; None if `all` is among them."""
    names = split_names(given)
    return None if "all" in names else names


def read_text(path: Path, option: str) -> str:
    """The UTF-8 text of a file that an option names.

    Raises:
        UsageError: it cannot be read, or is not UTF-8 text.
    """
    try:
        return file_text(path, UsageError)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error


def refuse_alternatives(chains: Sequence[str]) -> None:
    """Refuse chains of --defense that only `compare` understands.

    Raises:
        UsageError: a part that stands for another chain at each epsilon.
    """
    from foltr_audit.experiments.comparison.alternatives import PROVEN, PUBLISHED

    for name in (part.strip().partition(":")[0] for text in chains for part in text.split("+")):
        if name == PUBLISHED or name.startswith(PROVEN):
            instead = "--eps E" if name == PUBLISHED else "what calibrate --target-eps E prints"
            raise UsageError(
                f"--defense: {name} stands for a chain that compare makes for each epsilon; "
                f"expected {instead}"
            )


def query_ids(text: str) -> list[str]:
    """The query ids of --queries: one on each line of a file of that name, else separated by commas.

    Raises:
        UsageError: a file without text or without ids, or no id at all.
    """
    path = Path(text)
    lines = read_text(path, "--queries").splitlines() if os.path.isfile(text) else text.split(",")
    ids = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not ids:
        raise UsageError(f"--queries: {text!r}: no query id in it; expected ID,... or a file of ids")
    return ids
