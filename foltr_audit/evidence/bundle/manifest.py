"""`manifest.json`: what a bundle holds, file by file, and what it was packed with."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from foltr_audit.core.plugins.registry import first_problem
from foltr_audit.core.spec.base import SpecTable
from foltr_audit.errors import TraceError
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.utils.reading import json_table

NAME = "manifest.json"
MOST_BYTES = 64 * 2**20
"""A longer manifest is not read."""

Kind = Literal["comparison", "run", "plan"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class BundleEntry(SpecTable):
    """One file of a bundle: its size in bytes, and its SHA-256 (hex)."""

    size: Annotated[int, Field(strict=True, ge=0, lt=2**63)]
    sha256: Digest


class BundleManifest(SpecTable):
    """What a bundle holds.

    Attributes:
        kind: the folder that was packed: a comparison, one Run, or the folder of a plan's Runs.
        partial: something of it was not finished.
        lists: the judged lists, with the clicks of simulated users, are in it (comparisons).
        trace: the observed traces are in it (Runs); the truth of a trace never is.
        versions: what it was packed with, see `versions`.
        specs: hash of each Spec, by the name of its file.
        files: every file but this one.
    """

    schema_: Literal["foltr-audit/bundle/1"] = Field("foltr-audit/bundle/1", alias="schema")
    kind: Kind
    partial: bool = False
    lists: bool = False
    trace: bool = False
    versions: dict[str, str]
    specs: dict[str, Digest]
    files: dict[str, BundleEntry]

    @property
    def text(self) -> str:
        """The one JSON form that it is stored in."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True) + "\n"

    @property
    def runs(self) -> dict[str, str]:
        """Hash of each Spec, by the folder of its cell or Run; `` for the bundle itself."""
        return {name.removesuffix(SPEC).rstrip("/"): digest for name, digest in self.specs.items()}

    @classmethod
    def parse(cls, content: bytes, where: str) -> BundleManifest:
        """The manifest of a file's content.

        Raises:
            TraceError: it is none, of another schema, or not in its one form.
        """
        table = json_table(content, f"{where}: {NAME}", TraceError)
        try:
            manifest = cls.model_validate(table)
        except ValidationError as error:
            raise TraceError(f"{where}: {NAME}: {first_problem(error, None)}") from error
        if manifest.text.encode() != content:
            raise TraceError(f"{where}: {NAME}: not written as foltr-audit writes it")
        return manifest
