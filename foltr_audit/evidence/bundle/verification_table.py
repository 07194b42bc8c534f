"""Prints a verification on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.evidence.bundle.integrity import BundleCheck
from foltr_audit.evidence.bundle.verify import Verification
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.tables.table import Column, make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_verification(found: Verification, console: Console) -> None:
    """Print the checks, the versions that differ, and the verdict."""
    partial = ", partial: it was packed unfinished" if found.manifest.partial else ""
    console.print(
        f"{escape(str(found.path))}: a {found.manifest.kind}{partial}", highlight=False, soft_wrap=True
    )
    console.print(f"SHA-256 {found.sha256}", highlight=False, soft_wrap=True)
    console.print()
    columns: list[Column[BundleCheck]] = [
        Column("check", lambda check: check.name, "line"),
        Column("result", lambda check: check.state, "line"),
        Column("found", lambda check: "\n".join(check.found), "fold"),
    ]
    print_table(make_table("Checks", columns, found.checks), console)
    console.print()
    if found.differs:
        console.print(f"Versions differ: numbers had to agree within {found.tolerance}.", highlight=False)
        for name, (there, here) in found.differs.items():
            console.print(
                escape(f"  {name}: packed with {_short(there)}, here {_short(here)}"), highlight=False
            )
    if found.rerun and len(found.rerun) < found.of:
        console.print(
            f"Re-run: {len(found.rerun)} of {found.of}, drawn with --seed {found.seed}.", highlight=False
        )
    bare = ", nothing re-run" if found.verdict == "verified" and not found.rerun else ""
    console.print(f"Verdict: {found.verdict}{bare}", style="bold", highlight=False)


def _short(version: str | None) -> str:
    if version is None:
        return "none"
    text = version if version.isprintable() else ascii(version)
    return text if len(text) <= 40 else text[:12]
