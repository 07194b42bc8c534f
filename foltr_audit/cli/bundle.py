"""`foltr-audit bundle` and `foltr-audit verify`: results as one file of evidence, and the check of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr_audit.cli import options as o
from foltr_audit.cli.common import use_threads
from foltr_audit.cli.output import note, print_line, stdout_console
from foltr_audit.errors import UsageError


def bundle(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A comparison, or the folder of attack, train or audit --out.",
            show_default=False,
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FILE.zip", help="Where the bundle goes.")],
    with_trace: Annotated[
        bool,
        typer.Option("--with-trace", help="Pack the observed traces of Runs as well, never their truth."),
    ] = False,
    without_lists: Annotated[
        bool,
        typer.Option(
            "--without-lists",
            help="Leave the judged lists of a comparison out, with the clicks of its simulated users; "
            "verify needs --all then to recompute the results.",
        ),
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Pack what is there of an unfinished folder.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE.zip.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Pack Specs, results, what cells found, hashes and versions into one file that verify checks."""
    from foltr_audit.evidence.bundle.pack import pack
    from foltr_audit.utils.formatting import json_text
    from foltr_audit.utils.progress import on_terminal

    packed = pack(
        folder,
        to,
        with_trace=with_trace,
        without_lists=without_lists,
        partial=partial,
        overwrite=overwrite,
        progress=on_terminal(),
    )
    for line in packed.unfinished:
        note(f"partial: {line}")
    if json:
        print_line(json_text(packed.table()))
        return
    manifest = packed.manifest
    print_line(f"{to}: a {manifest.kind}, {len(manifest.files)} files, {packed.size:,} bytes")
    print_line(f"SHA-256 {packed.sha256}")


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="What bundle has packed.")],
    sample: Annotated[
        int | None,
        typer.Option("--sample", help="Cells or Runs to re-run, drawn at random; 0 for none. Default: 3."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Re-run every cell or Run.")] = False,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Which ones are drawn. Default: a new number, which is printed."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", help="Processes that re-run cells of a comparison. Default: one per core."),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Where the data set is, if not where the Specs say.")
    ] = None,
    json: o.Json = False,
    threads: o.Threads = None,
) -> None:
    """Check a bundle: every hash, that the results follow from the cells, and some cells by a new run.

    Exit code 0: verified. 1: it does not hold, or a check was not possible. 3: a damaged bundle.
    """
    import secrets

    from foltr_audit.evidence.bundle.verification_table import print_verification
    from foltr_audit.evidence.bundle.verify import SAMPLE, RerunOptions
    from foltr_audit.evidence.bundle.verify import verify as check
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.utils.progress import on_terminal

    if every and sample is not None:
        raise UsageError("--all and --sample: give one or the other")
    use_threads(threads)
    asked = RerunOptions(
        sample=None if every else SAMPLE if sample is None else sample,
        seed=secrets.randbelow(2**32) if seed is None else seed,
        data=data,
        workers=Workers(jobs=jobs),
    )
    found = check(file, asked, on_terminal())
    if json:
        print_line(found.json())
    else:
        print_verification(found, stdout_console())
    if found.verdict != "verified":
        raise typer.Exit(1)
