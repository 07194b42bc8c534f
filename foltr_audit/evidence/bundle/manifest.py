"""`manifest.json`: the files of a bundle, and the versions that it was packed with."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.settings.base import SpecTable
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
    """The manifest of a bundle.

    Attributes:
        kind: what was packed: a comparison, one Run, or the folder of a plan's Runs.
        partial: whether the folder was unfinished.
        lists: whether it contains the judged lists, with the clicks of simulated users (comparisons).
        trace: whether it contains the observed traces (Runs); it never contains their truth.
        versions: the versions that it was packed with, see `versions`.
        specs: the hash of each Spec, by the name of its file.
        files: every file except the manifest.
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
        """The canonical JSON form, in which it is stored."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True) + "\n"

    @property
    def runs(self) -> dict[str, str]:
        """The hash of each Spec, by the folder of its cell or Run; the empty name is the bundle itself."""
        return {name.removesuffix(SPEC).rstrip("/"): digest for name, digest in self.specs.items()}

    @classmethod
    def parse(cls, content: bytes, where: str) -> BundleManifest:
        """Parse the content of a manifest.

        Raises:
            TraceError: it is not a manifest, has another schema, or is not in canonical form.
        """
        table = json_table(content, f"{where}: {NAME}", TraceError)
        try:
            manifest = cls.model_validate(table)
        except ValidationError as error:
            raise TraceError(f"{where}: {NAME}: {first_problem(error, None)}") from error
        if manifest.text.encode() != content:
            raise TraceError(f"{where}: {NAME}: not in the form that foltr-audit writes")
        return manifest
