"""`foltr-audit report`: write the page of a stored comparison, or pack results into one file."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from foltr_audit.cli.options import argument, option, refuse_others, switch, words
from foltr_audit.cli.output import note, print_line, refuse_place, write_file
from foltr_audit.cli.pages import new_app, page
from foltr_audit.errors import UsageError
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import on_terminal

app = new_app()
STDOUT = Path("-")
ZIP = "Packed results"
OF_ZIP = words("folder zip_file with_trace without_lists partial overwrite json")


@app.command(cls=page("report"))
def report(
    ctx: typer.Context,
    folder: Path = argument(
        "The folder of compare --out; with --zip also of attack, train or audit --out.", "DIR"
    ),
    out: Path | None = option(
        "Write the page to another file; - is stdout. Default: report.html in DIR.", metavar="FILE"
    ),
    overwrite: bool = switch("--overwrite", "Replace the file in --out or --zip."),
    zip_file: Path | None = option(
        "Pack Specs, results, the findings of cells, hashes and versions into a file instead, which "
        "foltr-audit check FILE.zip checks.",
        name="--zip",
        metavar="FILE.zip",
        panel=ZIP,
    ),
    with_trace: bool = switch(
        "--with-trace", "Pack the observed traces of Runs too, never their truth.", ZIP
    ),
    without_lists: bool = switch(
        "--without-lists",
        "Leave out the judged lists of a comparison, which hold the clicks of its simulated users. Without "
        "them, check FILE.zip needs --all to recompute the results.",
        ZIP,
    ),
    partial: bool = switch("--partial", "Pack the finished part of an unfinished folder.", ZIP),
    json: bool = switch("--json", "Print what was packed as one JSON object.", ZIP),
) -> None:
    """Write the page of a comparison, which may be unfinished: one HTML file that needs no network.

    With --zip, pack the results of a folder into one file that others can check.
    """
    if zip_file is not None:
        from foltr_audit.evidence.bundle import pack

        refuse_others(ctx, OF_ZIP, "not with --zip, which packs the results")
        packed = pack(
            folder,
            zip_file,
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
        print_line(f"{zip_file}: a {packed['kind']}, {packed['files']} files, {packed['bytes']:,} bytes")
        print_line(f"SHA-256 {packed['sha256']}")
        return
    refuse_others(ctx, {"folder", "out", "overwrite"}, "only with --zip")
    _write_page(folder, out, overwrite=overwrite)


def _write_page(folder: Path, out: Path | None, *, overwrite: bool) -> None:
    from foltr_audit.experiments.comparison.folder import PAGE, ComparisonFolder
    from foltr_audit.recorder import atomic_files
    from foltr_audit.report.compare import CompareReport

    named = None if out == STDOUT else out
    refuse_place("--out", named)  # before the page is made
    if named is None and overwrite:
        raise UsageError("--overwrite: only with the name of a file in --out or --zip")
    if named is not None and named.exists() and not overwrite:
        raise UsageError(f"--out: {named} exists; give --overwrite to replace it")
    stored = ComparisonFolder.open(folder)
    if out is None and not os.access(folder, os.W_OK):
        raise UsageError(f"{folder}: cannot be written; --out FILE writes the page elsewhere")
    found = CompareReport.of(stored, progress=on_terminal(), partial=True)
    if found.done < found.asked:
        note(f"unfinished: {found.done} of {found.asked} cells are done; compare --resume runs the rest")
    text = found.html()
    if out == STDOUT:
        print_line(text.removesuffix("\n"))
        return
    file = named or folder / PAGE
    write_file("--out", file, lambda place: atomic_files.write_text(place, text))
    note(f"wrote {file}")
