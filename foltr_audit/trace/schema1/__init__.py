"""Traces of schema 1, whose tables are Parquet files: read as tables of the present schema, never written.

May import: as `trace`; the rest of `trace` imports only what this module names.
Begin with: `first_tables.py`.
"""

FIRST_PART_SCHEMA = "foltr-audit/trace-part/1"
"""Schema of a marker of such a trace."""


def first_file_name(table: str, index: int) -> str:
    """Path of a table of part `index` inside the folder of such a trace."""
    return f"{table}-{index:05d}.parquet"
