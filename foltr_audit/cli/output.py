"""Where a command's words go: results to stdout, the rest to stderr."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.comparing.grid import Grid
    from foltr_audit.plan import Plan
    from foltr_audit.plugins import Plugin


def stdout_console(label: str = "") -> Console:
    """A console on stdout; where that is no terminal and COLUMNS is not set, 100 columns wide.

    A label is added to the title of every table.
    """
    from rich.console import Console
    from rich.table import Table

    class Labelled(Console):
        """A console that says in every title what the numbers are of."""

        def print(self, *objects: Any, **options: Any) -> None:
            """Print; a table has the label in its title."""
            for table in (one for one in objects if isinstance(one, Table) and one.title and label):
                table.title = f"{table.title} ({label})"
            super().print(*objects, **options)

    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Labelled() if fits else Labelled(width=100)


def print_line(text: str) -> None:
    """One text on stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(text + "\n")


def warn_of_unloadable(kind: type[Plugin]) -> None:
    """One line on stderr for each plug-in of a kind that cannot be loaded, where nobody named it."""
    from foltr_audit.registry import unloadable

    for why in unloadable(kind).values():
        note(f"warning: {why}; left out")


def save_config(path: Path | None, plan: Plan | Grid) -> None:
    """Write a plan or grid where --save-config says.

    Raises:
        UsageError: it cannot be written there.
    """
    if path is None:
        return
    from foltr_audit import atomic

    try:
        atomic.write_text(path, plan.toml)
    except OSError as error:
        raise UsageError(f"--save-config: {path}: {error.strerror}") from error
