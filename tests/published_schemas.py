"""Writes the JSON Schemas of reports and files to docs/schemas: `python -m tests.published_schemas`."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import foltr_audit.studies

import foltr_audit.evidence
import foltr_audit.report
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.evidence.bundle import BundleManifest
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.report.documents import Document
from foltr_audit.utils.formatting import JsonValue
from tests.fixtures.import_graph import ROOT
from tests.fixtures.printed_documents import PRINTED, schema_of_printed

SCHEMAS = ROOT / "docs" / "schemas"


def documents() -> dict[str, type[Document]]:
    """Every kind of report, by the name of its file."""
    for room in (foltr_audit.report, foltr_audit.evidence, foltr_audit.studies):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            import_module(module.name)
    found = sorted(_with_schema(Document), key=lambda report: report.SCHEMA)
    return {
        f"{report.SCHEMA.removeprefix('foltr-audit/').replace('/', '-')}.json": report for report in found
    }


def _with_schema(report: type[Document]) -> Iterator[type[Document]]:
    for each in report.__subclasses__():
        if "SCHEMA" in vars(each):
            yield each
        yield from _with_schema(each)


def open_to_more(schema: JsonValue) -> JsonValue:
    """A schema that lets later releases add columns."""
    if isinstance(schema, list):
        return [open_to_more(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: open_to_more(value)
        for name, value in schema.items()
        if name != "additionalProperties" or not isinstance(value, bool)
    }


def text_of(report: type[Document]) -> str:
    """The published schema of a report."""
    return json.dumps(open_to_more(report.schema()), indent=1) + "\n"


FILES: dict[str, type[SpecTable]] = {
    "spec-1.json": Spec,
    "grid-1.json": ComparisonGrid,
    "limits-1.json": SystemLimits,
    "bundle-1.json": BundleManifest,
}
"""The tables of files, by the name of the file of their schema."""


def text_of_file(table: type[SpecTable]) -> str:
    """The published schema of a file."""
    return json.dumps(without_docstrings(table.model_json_schema()), indent=1) + "\n"


def without_docstrings(schema: JsonValue) -> JsonValue:
    """A schema whose fields are described, and whose tables are not by what their classes say of Python."""
    if isinstance(schema, list):
        return [without_docstrings(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    table = schema.get("type") == "object" and "properties" in schema
    return {
        name: without_docstrings(value)
        for name, value in schema.items()
        if not (table and name == "description" and isinstance(value, str))
    }


def file_of_printed(name: str) -> str:
    """The file with the schema of a printed document."""
    return f"{name.replace('/', '-')}.json"


def text_of_printed(name: str) -> str:
    """The published schema of a printed document."""
    return json.dumps(schema_of_printed(name), indent=1) + "\n"


if __name__ == "__main__":
    SCHEMAS.mkdir(exist_ok=True)
    for name, report in documents().items():
        (SCHEMAS / name).write_text(text_of(report), encoding="utf-8")
    for name, table in FILES.items():
        (SCHEMAS / name).write_text(text_of_file(table), encoding="utf-8")
    for name in PRINTED:
        (SCHEMAS / file_of_printed(name)).write_text(text_of_printed(name), encoding="utf-8")
