"""Reading of what was given on the command line: names, files, and options that do not go together."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import file_text

if TYPE_CHECKING:
    from foltr_audit.core.plugins import Learner


def refuse_others(ctx: typer.Context, allowed: Collection[str], why: str) -> None:
    """Refuse every given option but some.

    Args:
        ctx: of the command.
        allowed: names of parameters.
        why: what follows the option in the message.

    Raises:
        UsageError: another option was given.
    """
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source = ctx.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]}: {why}")


def published_chain(learner: Learner, eps: float, sensitivity: float | None) -> list[str]:
    """What --eps and --sensitivity mean for a learner.

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
    """The attacks of --method; several without parameters may stand in one, with commas between them."""
    pieces = ([text] if ":" in text else text.split(",") for text in given or ())
    return [name.strip() for names in pieces for name in names] or None


def methods_of(given: list[str] | None) -> list[str] | None:
    """As `split_methods`, with `all` spelt out as those that can be loaded; None if it was not given."""
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


def read_text(path: Path, option: str) -> str:
    """The UTF-8 text of a file that an option names.

    Raises:
        UsageError: it cannot be read, or is something else.
    """
    try:
        return file_text(path, UsageError)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error


def one_chain(text: str) -> str:
    """The text of a chain in --defense, refused where only `compare` can make one of it.

    Raises:
        UsageError: a name that stands for another chain at each epsilon.
    """
    for name in (part.strip().partition(":")[0] for part in text.split("+")):
        if name == "published" or name.startswith("proven-"):
            instead = "--eps E" if name == "published" else "what calibrate --target-eps E prints"
            raise UsageError(
                f"--defense: {name} stands for a chain that compare makes for each epsilon; "
                f"expected {instead}"
            )
    return text
