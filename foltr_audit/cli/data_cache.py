"""`foltr-audit data cache`: list and clear the cache of parsed data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.options import Json
from foltr_audit.cli.output import print_json, print_line, stdout_console

if TYPE_CHECKING:
    from pathlib import Path

    from foltr_audit.data.cache import CacheEntry

app = typer.Typer(help="List or clear the cache of parsed data.", no_args_is_help=True)


@app.command("list")
def listing(json: Json = False) -> None:
    """Show the cached data and their size."""
    from dataclasses import asdict

    from foltr_audit.data.cache import cache_folder, list_entries

    folder, rows = cache_folder(), list_entries()
    if json:
        place = None if folder is None else str(folder)
        entries = [asdict(row) for row in rows]
        print_json("data-cache-list/2", folder=place, bytes=_total_size(rows), entries=entries)
    elif rows:
        _print(folder, rows)
    else:
        print_line(f"{_place(folder)}: empty")


def _total_size(rows: list[CacheEntry]) -> int:
    return sum(row.bytes for row in rows)


def _print(folder: Path | None, rows: list[CacheEntry]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(f"{_place(folder)}: {_size(_total_size(rows))}"),
        title_justify="left",
    )
    table.add_column("source", overflow="fold", min_width=16)
    for heading in ("fold", "normalised", "numbers", "fingerprint", "size", "last used"):
        table.add_column(heading, justify="right" if heading in ("fold", "size") else "left", no_wrap=True)
    for row in rows:
        fold = str(row.fold) if row.fold else "-"
        facts = (fold, row.normalised, row.dtype, row.fingerprint[:12], _size(row.bytes), row.last_used[:10])
        table.add_row(escape(row.source), *facts)
    stdout_console().print(table)


@app.command("clear")
def clear() -> None:
    """Remove everything from the cache; the data themselves stay where they are."""
    from foltr_audit.data.cache import cache_folder
    from foltr_audit.data.cache import clear as empty

    sources, size = empty()
    removed = f"{sources} {'entry' if sources == 1 else 'entries'}, {_size(size)}"
    print_line(f"{_place(cache_folder())}: removed {removed}")


def _place(folder: Path | None) -> str:
    return "data cache (switched off)" if folder is None else f"data cache {folder}"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
