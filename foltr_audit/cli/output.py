"""Prints results on stdout and everything else on stderr, and writes the files that options name."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from foltr_audit.core.warning_kinds import coded, warning_code, warning_lines
from foltr_audit.errors import UsageError
from foltr_audit.utils.formatting import json_text, visible

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.core.plugins import Plugin
    from foltr_audit.core.warning_kinds import CodedWarning
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.report.table import Table


def stdout_console(label: str = "") -> Console:
    """A console on stdout; where that is no terminal and COLUMNS is not set, it wraps no line."""
    from foltr_audit.report.terminal import UNLIMITED, ResultConsole

    class StdoutConsole(ResultConsole):
        def on_broken_pipe(self) -> None:
            drop(sys.stdout)

    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    return StdoutConsole(label) if fits else StdoutConsole(label, width=UNLIMITED)


def show_table(table: Table) -> None:
    from foltr_audit.report.terminal import print_table

    print_table(table, stdout_console())


def print_line(text: str) -> None:
    """Print a text on stdout; the command continues if nobody reads it."""
    _write(text, sys.stdout)


def _write(text: str, stream: TextIO) -> None:
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        drop(stream)


def print_json(schema: str, **facts: Any) -> None:
    """Print facts as one JSON object that names its schema."""
    print_line(json_text({"schema": f"foltr-audit/{schema}", **facts}))


def show(text: Callable[[], str], draw: Callable[[Console], object], *, json: bool) -> None:
    if json:
        print_line(text())
    else:
        draw(stdout_console())


def drop(stream: TextIO) -> None:
    """Discard everything that is written to a stream from now on, since its reader has gone.

    The file descriptor is replaced, not the Python object: the interpreter flushes the stream once more when
    it exits, and would fail on the closed pipe then.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def note(text: str) -> None:
    """Print a line on stderr; the command continues if nobody reads it."""
    _write(visible(text), sys.stderr)


class _NoteHandler(logging.Handler):
    """Prints each message as a note; what is being done with the seconds since the program started."""

    def emit(self, record: logging.LogRecord) -> None:
        since = f"{record.relativeCreated / 1000:6.1f} s  " if record.levelno < logging.WARNING else ""
        note(f"{since}{' '.join(record.getMessage().split())}")


def show_log(*, everything: bool) -> None:
    """Show on stderr what our logger says that users must know, or also what is being done."""
    logger = logging.getLogger("foltr_audit")
    if not any(isinstance(handler, _NoteHandler) for handler in logger.handlers):
        logger.addHandler(_NoteHandler())
    logger.setLevel(logging.INFO if everything else logging.WARNING)


def warn(
    warnings: Iterable[CodedWarning],
    *,
    full: bool = True,
    quiet: bool = False,
    how: str = "--full",
    always: Iterable[str] = (),
) -> None:
    """Print warnings on stderr, each with its code once, on one line whatever the width of the terminal.

    Without `full` one line has all of their codes, and says `how` one reads them; if `quiet` there is none.
    First come those of the kinds that are `always` shown in full.
    """
    from rich.console import Console
    from rich.text import Text

    codes = set(map(warning_code, always))
    told = dict.fromkeys(warnings)
    shown = [warning for warning in told if warning.code in codes]
    others = [] if quiet else [warning for warning in told if warning.code not in codes]
    whole = dict.fromkeys(" ".join(str(warning).split()) for warning in (*shown, *(others if full else ())))
    lines = [f"warning {text}" for text in whole] + ([] if full else warning_lines(others, how))
    colours = Console(stderr=True)
    for line in lines:
        # Captured, and written by `_write`: that survives a stderr whose reader has gone.
        with colours.capture() as painted:
            colours.print(Text(visible(line), style="yellow"), soft_wrap=True, end="")
        _write(painted.get(), sys.stderr)


def warn_of_unloadable(kind: type[Plugin]) -> None:
    """Warn of each plug-in of a kind that cannot be loaded."""
    from foltr_audit.core.plugins.registry import unloadable

    warn(coded("plug-in", f"{why}; left out") for why in unloadable(kind).values())


def save_config(path: Path | None, plan: Plan | ComparisonGrid) -> None:
    """Write a plan or grid to the file of --save-config."""
    from foltr_audit.recorder import atomic_files

    write_file("--save-config", path, lambda place: atomic_files.write_text(place, plan.toml))


def refuse_place(option: str, path: Path | None) -> None:
    """Refuse a path where no file can be written."""
    if path is not None and (path.exists() != path.is_file() or not path.parent.is_dir()):
        problem = "is not a plain file" if path.exists() else "is in a folder that does not exist"
        raise UsageError(f"{option}: {path} {problem}; expected the name of a file")


def write_file(option: str, path: Path | None, write: Callable[[Path], None]) -> None:
    if path is None:
        return
    from foltr_audit.experiments.runs.folder import report_write_errors
    from foltr_audit.recorder import atomic_files

    refuse_place(option, path)
    with report_write_errors(path):
        atomic_files.remove_left(path)
        write(path)
