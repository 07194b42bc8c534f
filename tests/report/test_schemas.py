"""The published JSON Schemas are those of the reports, and real outputs agree with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.report.documents import Document
from tests.fixtures.bundles import content, write_comparison
from tests.fixtures.command import SMALL, answer, run
from tests.fixtures.printed_documents import PRINTED
from tests.fixtures.schemas import agrees_with_published
from tests.published_schemas import (
    FILES,
    SCHEMAS,
    documents,
    file_of_printed,
    text_of,
    text_of_file,
    text_of_printed,
)

DOCUMENTS = documents()
RELEASE = "tests.fixtures.audits:laplace_release"
OF_SMALL = {
    "train-1.json": "train --eps 1.2 --eps inf",
    "attack-1.json": "attack --eps 1.2 --click-model perfect --queries 1 --scenario quantity-skew",
    "audit-1.json": "audit --eps 1.2 --trials 100",
    "membership-1.json": "study membership --shadows 16 --references 1 --others 20",
    "unlearn-1.json": "study unlearning --trials 100 --method none",
}
COMMANDS: dict[str, tuple[object, ...]] = {
    **{name: (command, *SMALL) for name, command in OF_SMALL.items()},
    "audit-function-2.json": (f"audit {RELEASE} --zero 0 --one 1 --trials 100",),
    "calibrate-2.json": ("calibrate --target-eps 1.2",),
    "ceiling-1.json": ("ceiling --eps 1.2",),
    "lint-1.json": ("audit --no-trials --eps 1.2 --data synthetic:mq2007:60",),
}
"""Commands that print each document."""


def test_the_published_schemas_are_those_of_reports_printed_documents_and_files() -> None:
    made = {name: text_of(report) for name, report in DOCUMENTS.items()}
    made |= {file_of_printed(name): text_of_printed(name) for name in PRINTED}
    made |= {name: text_of_file(table) for name, table in FILES.items()}
    stored = {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.iterdir()}
    assert stored.keys() == made.keys()
    changed = [name for name in made if stored[name] != made[name]]
    assert changed == [], "python -m tests.published_schemas"
    for text in made.values():
        Draft202012Validator.check_schema(json.loads(text))


def test_the_page_on_files_lists_every_schema_with_its_name() -> None:
    page = (SCHEMAS.parent / "files.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^- \[([\w/-]+)\]\(schemas/([\w-]+\.json)\): ", page, re.MULTILINE))
    assert set(rows.values()) == {path.name for path in SCHEMAS.iterdir()}
    assert all(name.replace("/", "-") == file.removesuffix(".json") for name, file in rows.items())


@pytest.mark.parametrize(
    "command",
    [
        "list defenses",
        "list knowledge",
        "list warnings",
        "study list",
        "study show pham-2022",
        "study show non-iid-ltr-2024",
        "data info synthetic:mq2007:60",
        "compare --dry-run --eps 1.2 --data synthetic:mq2007:60",
    ],
)
def test_what_a_command_lists_agrees_with_its_schema(command: str) -> None:
    agrees_with_published(answer(command))


def test_a_comparison_its_check_and_its_bundle_agree_with_their_schemas(tmp_path: Path) -> None:
    study = tmp_path / "study"
    folder = write_comparison(study)
    agrees_with_published(json.loads((study / "results.json").read_text()))
    assert run("new", "limits", "limits", "--into", tmp_path).code == 0
    agrees_with_published(run("check", tmp_path / "limits.toml", "--comparison", study, "--json").json())
    agrees_with_published(run("report", study, "--zip", tmp_path / "b.zip", "--json").json())
    agrees_with_published(run("check", tmp_path / "b.zip", "--sample", 0, "--json").json())
    (spec, *_) = [cell.spec for cell in folder.cells()]
    manifest = json.loads(content(tmp_path / "b.zip")["manifest.json"])
    limits = SystemLimits.from_toml((tmp_path / "limits.toml").read_text(), "")
    for name, table in (
        ("spec-1.json", spec.table()),
        ("grid-1.json", folder.grid.table()),
        ("limits-1.json", limits.table()),
        ("bundle-1.json", manifest),
    ):
        validator = Draft202012Validator(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))
        assert [error.message for error in validator.iter_errors(json.loads(json.dumps(table)))] == [], name
        assert not validator.is_valid({**table, "no such field": 1}), name


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_agrees_with_its_schema(name: str) -> None:
    agrees(run(*COMMANDS[name], "--json").json(), DOCUMENTS[name])


def test_stored_runs_agree_with_their_schemas(tmp_path: Path) -> None:
    for name, eps in (("a", 1.2), ("b", "inf")):
        assert run("train", *SMALL, "--eps", eps, "--runs", 2, "--out", tmp_path / name).code == 0
    a = next(path for path in (tmp_path / "a").iterdir() if path.is_dir())
    agrees(answer("study significance", tmp_path / "a", tmp_path / "b"), DOCUMENTS["significance-1.json"])
    agrees_with_published(run("trace lint --json", a).json())
    agrees(run("trace check-facts --json", a).json(), DOCUMENTS["trace-check-facts-1.json"])
    agrees(json.loads((tmp_path / "a" / "results.json").read_text()), DOCUMENTS["train-1.json"])
    agrees_with_published(answer("trace info", a))
    agrees_with_published(answer("trace validate", a))


def test_a_wrong_document_is_told() -> None:
    told = answer("calibrate --target-eps 1.2")
    validator = Draft202012Validator(DOCUMENTS["calibrate-2.json"].schema())
    for name, wrong in (("schema", "foltr-audit/calibrate/9"), ("results", [{}]), ("target", 3)):
        assert not validator.is_valid({**told, name: wrong})


def agrees(document: Any, report: type[Document]) -> None:
    """Whether a document has the columns of its schema and no others, but at its top."""
    error = next(Draft202012Validator(report.schema()).iter_errors(document), None)
    assert error is None, f"{error.json_path}: {error.message[:300]}" if error else ""
