"""Packs results into one zip for `foltr-audit report --zip`, and checks it for `check FILE.zip`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from foltr_audit.cli.output import note, print_line, show
from foltr_audit.errors import UsageError
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import on_terminal


def pack_results(
    folder: Path,
    to: Path,
    *,
    with_trace: bool,
    without_lists: bool,
    partial: bool,
    overwrite: bool,
    json: bool,
) -> None:
    """Pack Specs, results, the findings of cells, hashes and versions into one file, and print what it holds.

    Raises:
        FoltrAuditError: the folder holds no results, or the file cannot be written.
    """
    from foltr_audit.evidence.bundle import pack

    packed = pack(
        folder,
        to,
        with_trace=with_trace,
        without_lists=without_lists,
        partial=partial,
        overwrite=overwrite,
        progress=on_terminal(),
    )
    for line in packed["unfinished"]:
        note(f"partial: {line}")
    if json:
        print_line(json_text(packed))
        return
    print_line(f"{to}: a {packed['kind']}, {packed['files']} files, {packed['bytes']:,} bytes")
    print_line(f"SHA-256 {packed['sha256']}")


def verify_results(
    file: Path,
    *,
    sample: int | None,
    every: bool,
    seed: int | None,
    jobs: int | None,
    data: str | None,
    intents: str | None,
    json: bool,
) -> None:
    """Check every hash of a file of results, that they follow from the cells, and some cells by a re-run.

    Args:
        file: what `pack_results` has packed.
        sample: number of cells or Runs to re-run; None for the default.
        every: whether to re-run all.
        seed: seed of the draw of cells; None for a new number.
        jobs: processes that re-run cells.
        data: path of the data set.
        intents: path of the intents of the data set.
        json: whether to print JSON.

    Raises:
        UsageError: a number is out of range.
        FoltrAuditError: the file is damaged; exit code 3.
        typer.Exit: with code 1 if the file does not hold or a check was not possible.
    """
    import secrets

    from foltr_audit.evidence.verification import SAMPLE, DataPlaces, verify
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.report.bundle import print_verification, remake_results

    if every and sample is not None:
        raise UsageError("--all and --sample: give one or the other")
    if sample is not None and sample < 0:
        raise UsageError(f"--sample: {sample}; expected 0 or more")
    if seed is not None and not 0 <= seed < 2**63:
        raise UsageError(f"--seed: {seed}; expected 0 to 2^63 - 1")
    outcome = verify(
        file,
        sample=None if every else SAMPLE if sample is None else sample,
        seed=secrets.randbelow(2**32) if seed is None else seed,
        remake=remake_results,
        places=DataPlaces(data, intents),
        workers=Workers(jobs=jobs),
        progress=on_terminal(),
    )
    show(lambda: json_text(outcome), partial(print_verification, outcome), json=json)
    if outcome["verdict"] != "verified":
        raise typer.Exit(1)
