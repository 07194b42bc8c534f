"""Where a command's words go: results to stdout, the rest to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.core.plugins import Plugin
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.plan import Plan


def stdout_console(label: str = "") -> Console:
    """A console on stdout; where that is no terminal and COLUMNS is not set, 100 columns wide.

    A label is added to the title of every table.
    """
    from rich.console import Console
    from rich.table import Table

    class TitleConsole(Console):
        """A console that says in every title what the numbers are of."""

        def print(self, *objects: Any, **options: Any) -> None:
            """Print; a table has the label in its title."""
            for table in (one for one in objects if isinstance(one, Table) and one.title and label):
                table.title = f"{table.title} ({label})"
            super().print(*objects, **options)

        def on_broken_pipe(self) -> None:
            """Go on without a reader."""
            drop(sys.stdout)

    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    return TitleConsole() if fits else TitleConsole(width=100)


def print_line(text: str) -> None:
    """One text on stdout; the command goes on if nobody reads it."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)


def drop(stream: TextIO) -> None:
    """Send all that a stream still gets to nowhere, its reader being gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def note(text: str) -> None:
    """One line on stderr; the command goes on if nobody reads it."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        drop(sys.stderr)


def warn(warnings: Iterable[str]) -> None:
    """Each warning once, on stderr, where it is one line whatever the width."""
    from rich.console import Console
    from rich.text import Text

    colours = Console(stderr=True)
    for warning in dict.fromkeys(" ".join(text.split()) for text in warnings):
        with colours.capture() as painted:
            colours.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True, end="")
        note(painted.get())


def warn_of_unloadable(kind: type[Plugin]) -> None:
    """A warning for each plug-in of a kind that cannot be loaded, where nobody named it."""
    from foltr_audit.core.plugins.registry import unloadable

    warn(f"{why}; left out" for why in unloadable(kind).values())


def save_config(path: Path | None, plan: Plan | ComparisonGrid) -> None:
    """Write a plan or grid where --save-config says; errors as of `write_file`."""
    from foltr_audit.utils import atomic_files

    write_file("--save-config", path, lambda place: atomic_files.write_text(place, plan.toml))


def refuse_place(option: str, path: Path | None) -> None:
    """Refuse a place where no file can be.

    Raises:
        UsageError: it is no plain file, or in no existing folder.
    """
    if path is not None and (path.exists() != path.is_file() or not path.parent.is_dir()):
        problem = "is no plain file" if path.exists() else "is in no existing folder"
        raise UsageError(f"{option}: {path} {problem}; expected the name of a file")


def write_file(option: str, path: Path | None, write: Callable[[Path], None]) -> None:
    """Write the file that an option names, if it does.

    Raises:
        UsageError: as `refuse_place`.
        FoltrAuditError: the disk is full or cannot be written.
    """
    if path is None:
        return
    from foltr_audit.experiments.runs.folder import writing

    refuse_place(option, path)
    with writing(path):
        write(path)
