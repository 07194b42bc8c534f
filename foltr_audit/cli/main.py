"""`foltr-audit`: the commands, and the exit codes of their errors.

Results go to stdout, everything else to stderr. Exit codes: see `foltr_audit.errors`; 1 if the
machine fails (full disk, no memory), 130 after Ctrl-C. A reader that closes stdout early, as `head`
does, changes no exit code.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, TextIO

import typer
from typer.main import get_command

from foltr_audit.cli.options import option
from foltr_audit.cli.output import drop, note, print_line
from foltr_audit.cli.pages import entries_of, lazy_group, refusal
from foltr_audit.cli.user_code import import_plugin
from foltr_audit.errors import FoltrAuditError, as_message
from foltr_audit.utils.plugin_failures import names_plugins

# Exit codes: 128 plus the number of SIGINT, of Ctrl-C, and of SIGPIPE, where the reader of stdout has gone.
INTERRUPTED, READER_GONE = 130, 141

COMMANDS = entries_of("")

app = typer.Typer(
    name="foltr-audit",
    cls=lazy_group(COMMANDS),
    help="Simulate federated online learning to rank, attack its messages, and check its privacy claims.",
    epilog="foltr-audit COMMAND -h shows the options of a command, and examples. In a checkout, docs/tour.md "
    "is a first audit in five minutes.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help pages: rich takes longer to import than a page to print
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print_line(f"foltr-audit {version('foltr-audit')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
    plugin: list[str] | None = option(
        "Import an attack, defense, click model ... of your own that files name, e.g. a Spec or a "
        "comparison. MODULE may be FILE.py. May be repeated.",
        metavar="MODULE:CLASS",
    ),
) -> None:
    for reference in plugin or ():
        import_plugin(reference, "--plugin")


@cache
def command_line() -> Any:
    """The command line with its commands and their parameters, made once a process."""
    return get_command(app)


@cache
def _search_less_for_garbage() -> None:
    """Let Python search for unreachable objects when there are many new ones, and not at the end.

    Imports and compilers make many objects that live on. By default Python searches after each 700, which is
    an eighth of the time to compile the kernels, and twice before it ends, a tenth of the time of `attack`.
    """
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)


def _let_idle_threads_sleep() -> None:
    """Let threads of OpenBLAS wait half a millisecond for more work, and then sleep.

    By default they spin for tens of milliseconds, also once NumPy and SciPy have started them: a tenth of the
    processor time of `attack`. OpenBLAS reads the number, 2^n processor cycles, when it is loaded.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")


def _replace_unknown_letters(*streams: TextIO) -> None:
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII terminal shows ? for other characters


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process
        return 1
    _search_less_for_garbage()
    _let_idle_threads_sleep()
    # Polars only warns where its binary cannot be loaded, and fails for lack of a name when it is used.
    warnings.filterwarnings("error", "Polars binary is missing", UserWarning)
    try:
        _replace_unknown_letters(sys.stdout, sys.stderr)
        return _run(arguments)
    except FoltrAuditError as error:
        _report_error(str(error), error.exit_code)
        for frames in getattr(error, "__notes__", ()):  # of a plug-in
            note(frames)
        return error.exit_code
    except typer.TyperException as error:
        return _report_error(refusal(error), error.exit_code)
    except BrokenPipeError:  # while a command was still working, so its exit code is not known
        drop(sys.stdout)
        return READER_GONE
    except MemoryError:
        return _report_error("not enough memory; take fewer queries or clients", 1)
    except (ImportError, UserWarning) as error:
        return _report_error(f"a library cannot be loaded, perhaps for lack of memory: {error}", 1)
    except OSError as error:
        return _report_error(f"{error.filename or 'output'}: {error.strerror or error}", 1)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        main_of = names_plugins(command_line().main)
        result = main_of(args=arguments, prog_name="foltr-audit", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except SystemExit as error:  # help whose reader has gone; `output` handles what commands print
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        result = 0
    except SystemError as error:  # Ctrl-C during the call of a compiled kernel arrives as this error
        if not _was_ctrl_c(error):
            raise
        result = INTERRUPTED
    if result == INTERRUPTED:  # typer turns a KeyboardInterrupt into this result
        return _report_error("interrupted; a run with --out can be resumed with --resume", INTERRUPTED)
    return result if isinstance(result, int) else 0


def _was_ctrl_c(error: BaseException | None) -> bool:
    # The KeyboardInterrupt is a cause or context of the SystemError, perhaps a distant one.
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _report_error(message: str, code: int) -> int:
    if message.strip():
        note(f"error: {as_message(' '.join(message.split()))}")
    return code


if __name__ == "__main__":
    sys.exit(main())
