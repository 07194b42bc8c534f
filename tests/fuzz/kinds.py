"""Every kind of file that is read, and how many inputs of it are tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import compared, documents, folders, ranking
from tests.fuzz.watch import Feed


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        made: makes its reader in an empty folder.
        inputs: of the slow suite.
        gate: of the gate, the first of them.
    """

    made: Callable[[Path], Feed]
    inputs: int
    gate: int


KINDS: dict[str, Kind] = {
    "spec": Kind(documents.spec_toml, 12_000, 300),
    "plan": Kind(documents.plan_toml, 6_000, 100),
    "grid": Kind(documents.grid_toml, 8_000, 200),
    "limits": Kind(documents.limits_toml, 10_000, 200),
    "plug-ins": Kind(documents.plugin_texts, 12_000, 300),
    "inputs": Kind(documents.neighbours, 4_000, 150),
    "command lines": Kind(documents.command_lines, 4_000, 25),
    "models": Kind(folders.models, 14_000, 300),
    "traces": Kind(folders.traces, 8_000, 25),
    "attacked": Kind(folders.attacked, 1_000, 5),
    "runs": Kind(folders.runs, 3_000, 12),
    "cache": Kind(folders.cache_entries, 5_000, 80),
    "comparisons": Kind(compared.comparisons, 4_000, 20),
    "bundles": Kind(compared.bundles, 3_000, 30),
    "letor": Kind(ranking.letor, 6_000, 150),
    "qrels": Kind(ranking.qrels, 4_000, 150),
}
