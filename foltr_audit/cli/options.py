"""How commands declare their own options, and the options that only some of them share."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.models import OptionInfo

Table = dict[str, Any]

GRID, DATA, FEDERATION, DEFENSE = "Grid", "Data", "Federation", "Defense"
"""Parts of the help of a command."""


def option(
    text: str,
    default: Any = None,
    *,
    panel: str | None = None,
    name: str | tuple[str, ...] | None = None,
    metavar: str | None = None,
    least: int | None = None,
) -> Any:
    """Declare an option as the default of a parameter.

    Args:
        text: its help.
        default: the value if it is not given; an ellipsis if it has to be given.
        panel: the part of the help that shows it.
        name: its name, or names; None for the name of the parameter. A flag without a `--no-` form needs one.
        metavar: the word for its value in the help.
        least: its smallest value.
    """
    return OptionInfo(
        default=default,
        param_decls=() if name is None else (name,) if isinstance(name, str) else name,
        help=text,
        rich_help_panel=panel,
        metavar=metavar,
        min=least,
    )


def switch(name: str, text: str, panel: str | None = None) -> Any:
    """Declare an option without a value and without a `--no-` form; its parameter is False by default."""
    return option(text, default=False, name=name, panel=panel)


def argument(text: str, metavar: str | None = None) -> Any:
    """Declare an argument that has to be given as the default of a parameter."""
    return typer.Argument(..., help=text, metavar=metavar)


def shared(
    text: str,
    panel: str | None = None,
    *,
    default: Any = None,
    name: str | tuple[str, ...] | None = None,
) -> Any:
    """Declare an option as a field of the record of options that several commands share."""
    return field(default=default, metadata={"option": option(text, ..., panel=panel, name=name)})


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
KNOW_HELP = "A fact over those of the trace, as NAME=VALUE, e.g. learning_rate=0.1. May be repeated."
Know = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help=KNOW_HELP)]
Threads = Annotated[int | None, typer.Option(help="Number of threads. Results do not depend on it.")]
Jobs = Annotated[
    int | None, typer.Option(help="Processes that run cells in parallel. Default: one per core.")
]
Backend = Annotated[
    Literal["local", "dask"],
    typer.Option(help="Where cells run: on the cores of this machine, or on a cluster."),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of the cluster's scheduler. Default: start one on this machine.")
]
Plot = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE.svg|png|pdf", help="Draw the learning curves into a file. May be repeated."),
]
