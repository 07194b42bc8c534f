"""Runs what is not stored yet, then writes pages of docs/: `python -m benchmarks.results`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results.data_folders import SHARED
from benchmarks.results.declarations import read_declarations
from benchmarks.results.page import ResultsPage, read_pages
from benchmarks.results.running import ROOT, ResultRunner
from benchmarks.results.stored import ResultStore, write_atomically
from foltr_audit.errors import UsageError

DOCS = ROOT / "docs"
STORE = ROOT / "build" / "results"
INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, metavar="DIR", help="Folder of the real data.")
    parser.add_argument("--store", type=Path, default=STORE, metavar="DIR", help="Folder of stored results.")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help="Folder of the written pages.")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="Run this run, or the runs of this table; repeatable.",
    )
    parser.add_argument("--render", action="store_true", help="Run nothing; only write the pages.")
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
    declared = read_declarations()
    pages = read_pages(declared)
    runner = ResultRunner(ResultStore(given.store.resolve()), given.shared.resolve())
    failed = False
    for run in [] if given.render else declared.only(given.only):
        print(f"{run.name} ...", file=sys.stderr, flush=True)
        report = runner.run(run)
        print(f"{report.name}: {' '.join(report[1:]).strip()}", file=sys.stderr, flush=True)
        failed |= report.state == "failed"
    for name, prose in pages.items():
        path = given.docs / name
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        write_atomically(path, ResultsPage(declared, runner.current, before).text(prose).encode())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
