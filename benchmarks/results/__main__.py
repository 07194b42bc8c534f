"""Runs what `results/` does not hold yet, then writes docs/results.md: `python -m benchmarks.results`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results.data_folders import SHARED
from benchmarks.results.declarations import read_declarations
from benchmarks.results.files import ResultFolder, write_atomically
from benchmarks.results.page import PROSE, ResultsPage
from benchmarks.results.running import ROOT, ResultRunner
from foltr_audit.errors import UsageError

RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "results.md"
WORK = ROOT / "build" / "results"
INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, metavar="DIR", help="Folder of the real data.")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="Folder of results.")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="The written page.")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="Run this run, or the runs of this table; repeatable.",
    )
    parser.add_argument("--again", action="store_true", help="Run again what other code made.")
    parser.add_argument("--render", action="store_true", help="Run nothing; only write the page.")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 if a command failed, 2 for a wrong option or declaration, 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    try:
        return _make(given)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; finished results are stored, and the next call goes on", file=sys.stderr)
        return INTERRUPTED


def _make(given: argparse.Namespace) -> int:
    declared, results = read_declarations(), ResultFolder(given.results.resolve())
    runner = ResultRunner(declared, results, given.shared.resolve(), WORK, again=given.again)
    failed = False
    for run in [] if given.render else declared.only(given.only):
        print(f"{run.name} ...", file=sys.stderr, flush=True)
        report = runner.run(run)
        print(f"{report.name}: {' '.join(report[1:]).strip()}", file=sys.stderr, flush=True)
        failed |= report.state == "failed"
    text = ResultsPage(declared, results).text(PROSE.read_text(encoding="utf-8"))
    write_atomically(given.page, text.encode())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
