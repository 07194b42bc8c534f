"""Stored results: one JSON file for each finished command."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foltr_audit.errors import UsageError

SCHEMA = "foltr-audit/stored-result/1"


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """What a command printed, and when.

    Attributes:
        name: name of the run.
        command: as declared.
        data: SHA-256 of its data; empty for synthetic data.
        version: of foltr-audit.
        date: day on which it ended, ISO 8601, UTC.
        seconds: from start to end.
        result: the JSON object that it printed.
    """

    name: str
    command: str
    data: str
    version: str
    date: str
    seconds: float
    result: Mapping[str, Any]

    def is_of(self, command: str, data: str) -> bool:
        """Whether it was made by this command from these data."""
        return (self.command, self.data) == (command, data)


@dataclass(frozen=True)
class ResultStore:
    """A folder of stored results.

    Attributes:
        folder: it is made with the first result.
    """

    folder: Path

    def path(self, name: str) -> Path:
        """The file of a run."""
        return self.folder / f"{name}.json"

    def read(self, name: str) -> StoredResult | None:
        """The result of a run; none where it is not stored.

        Raises:
            UsageError: a file that is no stored result.
        """
        path = self.path(name)
        if not path.exists():
            return None
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            if table.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            return StoredResult(**table)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}: expected a stored result of {SCHEMA} ({error}); delete it") from error

    def write(self, result: StoredResult) -> None:
        """Store a result; the file is whole or absent whenever the program ends."""
        text = json.dumps({"schema": SCHEMA, **asdict(result)}, indent=1)
        write_atomically(self.path(result.name), f"{text}\n".encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f"{path.name}.{os.getpid()}.begun")
    begun.write_bytes(content)
    begun.replace(path)
