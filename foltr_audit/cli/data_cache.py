"""`foltr-audit data cache`: list and clear the cache of parsed data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.lazy import LazyGroup
from foltr_audit.cli.options import Json
from foltr_audit.cli.output import print_json, print_line, print_rows

if TYPE_CHECKING:
    from pathlib import Path

    from foltr_audit.data.cache import CacheEntry

app = typer.Typer(cls=LazyGroup, help="List or clear the cache of parsed data.", no_args_is_help=True)


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
    from foltr_audit.data.cache import CacheEntry
    from foltr_audit.report.tables.table import Column

    columns = (
        Column[CacheEntry]("source", lambda row: row.source, "fold"),
        Column[CacheEntry]("fold", lambda row: str(row.fold or "-")),
        Column[CacheEntry]("normalised", lambda row: row.normalised, "name"),
        Column[CacheEntry]("numbers", lambda row: row.dtype, "name"),
        Column[CacheEntry]("fingerprint", lambda row: row.fingerprint[:12], "name"),
        Column[CacheEntry]("size", lambda row: _size(row.bytes)),
        Column[CacheEntry]("last used", lambda row: row.last_used[:10], "name"),
    )
    print_rows(f"{_place(folder)}: {_size(_total_size(rows))}", columns, rows)


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
