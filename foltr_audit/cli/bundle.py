"""`foltr-audit bundle` and `foltr-audit verify`: pack results into one file of evidence, and check it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from foltr_audit.cli.common import use_threads
from foltr_audit.cli.options import Json, Threads, argument, option, switch
from foltr_audit.cli.output import note, print_line, show
from foltr_audit.errors import UsageError


def bundle(
    folder: Path = argument("The folder of compare, attack, train or audit --out.", "DIR"),
    to: Path = option("Path of the bundle.", ..., metavar="FILE.zip"),
    with_trace: bool = switch("--with-trace", "Pack the observed traces of Runs too, never their truth."),
    without_lists: bool = switch(
        "--without-lists",
        "Leave out the judged lists of a comparison, which hold the clicks of its simulated users. Without "
        "them, verify needs --all to recompute the results.",
    ),
    partial: bool = switch("--partial", "Pack the finished part of an unfinished folder."),
    overwrite: bool = switch("--overwrite", "Replace FILE.zip."),
    json: Json = False,
) -> None:
    """Pack Specs, results, the findings of cells, hashes and versions into one file that verify checks."""
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
    file: Path = argument("A file that bundle has packed.", "FILE.zip"),
    sample: int | None = option(
        "Number of cells or Runs to re-run, drawn at random; 0 for none. Default: 3."
    ),
    every: bool = switch("--all", "Re-run every cell or Run."),
    seed: int | None = option("Seed of the draw. Default: a new number, which is printed."),
    jobs: int | None = option("Processes that re-run cells of a comparison. Default: one per core."),
    data: str | None = option("Path of the data set. Default: its name, in this folder."),
    intents: str | None = option("Path of the intents of the data set. Default: their name, in this folder."),
    json: Json = False,
    threads: Threads = None,
) -> None:
    """Check every hash of a bundle, that the results follow from the cells, and some cells by a re-run.

    Exit code 0 if the bundle is verified, 1 if it does not hold or a check was not possible, 3 if it is
    damaged.
    """
    import secrets

    from foltr_audit.evidence.bundle.place import DataPlaces
    from foltr_audit.evidence.bundle.verification_table import print_verification
    from foltr_audit.evidence.bundle.verify import SAMPLE, RerunOptions
    from foltr_audit.evidence.bundle.verify import verify as check
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.utils.progress import on_terminal

    if every and sample is not None:
        raise UsageError("--all and --sample: give one or the other")
    use_threads(threads)
    options = RerunOptions(
        sample=None if every else SAMPLE if sample is None else sample,
        seed=secrets.randbelow(2**32) if seed is None else seed,
        places=DataPlaces(data, intents),
        workers=Workers(jobs=jobs),
    )
    found = check(file, options, on_terminal())
    show(found.json, partial(print_verification, found), json=json)
    if found.verdict != "verified":
        raise typer.Exit(1)
