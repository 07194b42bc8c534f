"""`foltr-audit report`: write the findings of a stored comparison, or pack results into one file."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.options import argument, option, refuse_others, switch, words
from foltr_audit.cli.output import note, print_line, write_file
from foltr_audit.cli.pages import new_app, page
from foltr_audit.errors import UsageError
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import on_terminal

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.report.compare import CompareReport


class ReportFormat(StrEnum):
    html = "html"
    md = "md"
    json = "json"
    csv = "csv"


app = new_app()
EXAMPLES = {
    "Write the report of a comparison": "foltr-audit report study --out study.html",
    "Read it in the terminal": "foltr-audit report study --to md",
    "Pack results, so that others can check them": "foltr-audit report study --zip study.zip",
}
_ENDINGS = {"htm": "html", "markdown": "md"}
ZIP = "Packed results"
OF_ZIP = words("folder zip_file with_trace without_lists partial overwrite json")


@app.command(cls=page(examples=EXAMPLES))
def report(
    ctx: typer.Context,
    folder: Path = argument(
        "The folder of compare --out; with --zip also of attack, train or audit --out.", "DIR"
    ),
    to: ReportFormat | None = option(
        "html: one file with pictures, which needs no network; md: tables for a README; json: what compare "
        "--json prints; csv: the results, one line for each row. Default: the ending of --out, or html."
    ),
    out: Path | None = option("Write the report to a file instead of stdout.", metavar="FILE"),
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
    """Describe the findings of a comparison in words, pictures and tables; it may be unfinished.

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
    refuse_others(ctx, {"folder", "to", "out", "overwrite"}, "only with --zip")
    _write_report(folder, to, out, overwrite=overwrite)


def _write_report(folder: Path, to: ReportFormat | None, out: Path | None, *, overwrite: bool) -> None:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.report.compare import CompareReport

    _refuse_file(out, overwrite=overwrite)
    form = _format(to, out)
    if out is None and form is ReportFormat.html and sys.stdout.isatty():
        raise UsageError(
            "--out: expected the name of a file, such as report.html; or --to md, to read it here"
        )
    stored = ComparisonFolder.open(folder)
    compared = CompareReport.of(stored, progress=on_terminal(), partial=True)
    if compared.done < compared.asked:
        note(
            f"unfinished: {compared.done} of {compared.asked} cells are done; compare --resume runs the rest"
        )
    text = _text(compared, stored, form)
    if out is None:
        print_line(text.removesuffix("\n"))
        return
    from foltr_audit.recorder import atomic_files

    write_file("--out", out, lambda file: atomic_files.write_text(file, text))
    note(f"wrote {out}")


def _format(to: ReportFormat | None, out: Path | None) -> ReportFormat:
    """The format of --to, or that of the ending of --out."""
    if out is None or not out.suffix:
        return to or ReportFormat.html
    ending = out.suffix.lower().removeprefix(".")
    named = next((form for form in ReportFormat if form.value == _ENDINGS.get(ending, ending)), to)
    if named is None:
        raise UsageError(f"--out: {out}: expected a name that ends in .html, .md, .json or .csv, or --to")
    if to is not None and named is not to:
        raise UsageError(f"--out: {out} has the ending of {named.value}; expected that of --to {to.value}")
    return named


def _refuse_file(out: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before the report is computed."""
    if out is None:
        if overwrite:
            raise UsageError("--overwrite: only with --out")
        return
    if out.is_dir():
        raise UsageError(f"--out: {out} is a folder; expected the name of a file")
    if not out.parent.is_dir():
        raise UsageError(f"--out: {out}: no such folder {out.parent}")
    if out.exists() and not overwrite:
        raise UsageError(f"--out: {out} exists; give --overwrite to replace it")


def _text(found: CompareReport, stored: ComparisonFolder, to: ReportFormat) -> str:
    if to is ReportFormat.json:
        return found.json_with_decision() + "\n"
    if to is ReportFormat.csv:
        from foltr_audit.report.notebook import csv_text

        return csv_text(found.rows())
    from foltr_audit.report.page import html_page, markdown, page_of

    cells = {stored.cell(cell.spec).name: cell for cell in stored.cells()}
    page = page_of(found, stored.grid.public.toml, cells)
    return markdown(page) if to is ReportFormat.md else html_page(page)
