"""`foltr-audit data cache`: what is kept of data that were read before, and how to get rid of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli.output import print_line, stdout_console

if TYPE_CHECKING:
    from pathlib import Path

    from foltr_audit.data.cache.store import CacheEntry

app = typer.Typer(help="Look at the cache of parsed data, or empty it.", no_args_is_help=True)


@app.command("list")
def listing(json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show which data are kept, and how much room they take."""
    from dataclasses import asdict

    from foltr_audit.data.cache.store import cache_folder, kept

    folder, rows = cache_folder(), kept()
    if json:
        from foltr_audit.utils.formatting import json_text

        facts = {"folder": None if folder is None else str(folder), "bytes": _room(rows)}
        entries = [asdict(row) for row in rows]
        print_line(json_text({"schema": "foltr-audit/data-cache-list/1", **facts, "entries": entries}))
    elif rows:
        _print(folder, rows)
    else:
        print_line(f"{_place(folder)}: empty")


def _room(rows: list[CacheEntry]) -> int:
    """Bytes of all contents, each counted once."""
    return sum({row.content: row.bytes for row in rows}.values())


def _print(folder: Path | None, rows: list[CacheEntry]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(f"{_place(folder)}: {_size(_room(rows))}"),
        title_justify="left",
        caption="Rows of the same fingerprint, normalisation and numbers share their room.",
        caption_justify="left",
    )
    table.add_column("source", overflow="fold", min_width=16)
    table.add_column("fold", justify="right", no_wrap=True)
    table.add_column("normalised", no_wrap=True)
    table.add_column("numbers", no_wrap=True)
    table.add_column("fingerprint", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("last used", no_wrap=True)
    for row in rows:
        fold = str(row.fold) if row.fold else "-"
        facts = (fold, row.normalised, row.dtype, row.fingerprint[:12], _size(row.bytes), row.last_used[:10])
        table.add_row(escape(row.source), *facts)
    stdout_console().print(table)


@app.command("clear")
def clear() -> None:
    """Remove everything that is kept; the data themselves stay where they are."""
    from foltr_audit.data.cache.store import cache_folder
    from foltr_audit.data.cache.store import clear as empty

    sources, size = empty()
    removed = f"{sources} {'entry' if sources == 1 else 'entries'}, {_size(size)}"
    print_line(f"{_place(cache_folder())}: removed {removed}")


def _place(folder: Path | None) -> str:
    return "data cache (switched off)" if folder is None else f"data cache {folder}"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
