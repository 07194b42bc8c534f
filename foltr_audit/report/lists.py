"""Lists: plug-ins and their parameters, cells that will run, and what the messages of a trace leak."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import GROUPS, loadable, parameters, plugin_class
from foltr_audit.core.records.view import KNOWLEDGE as PIECES
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan
from foltr_audit.report.notebook import NotebookReport
from foltr_audit.report.table import Cell, Column, columns_of, counted, make_table, percent
from foltr_audit.report.terminal import BriefAnswer, print_table
from foltr_audit.trace.lint import LintFinding, LintOutcome, LintResult, number
from foltr_audit.utils.formatting import JsonValue, json_text

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

# --- plug-ins --------------------------------------------------------------------------------------

KNOWLEDGE = "knowledge"
"""What is listed that is no plug-in: the pieces of what a server may know."""


class NameList(list[str], NotebookReport):
    """The names of plug-ins of a kind that can be loaded, or of pieces of knowledge, as Specs call them.

    Attributes:
        kind: `attacks`, `defenses`, `click-models`, ..., or `knowledge`.
        found: one table for each: `name`, `status`, `summary`, `parameters`, of defenses `stage`, of click
            models `probabilities`; of knowledge `name` and `what`.
    """

    def __init__(self, kind: str, found: Sequence[dict[str, Any]]) -> None:
        super().__init__(row["name"] for row in found)
        self.kind, self.found = kind, tuple(found)

    def rows(self) -> list[dict[str, JsonValue]]:
        return [*self.found]

    def to_frame(self) -> pl.DataFrame:
        """One row for each as a polars data frame; parameters by their names."""
        import polars as pl

        rows = [dict(row) for row in self.found]
        for row in rows:
            if "parameters" in row:
                row["parameters"] = ", ".join(parameter["name"] for parameter in row["parameters"])
        return pl.DataFrame(rows)

    def json(self) -> str:
        key = KNOWLEDGE if self.kind == KNOWLEDGE else "plugins"
        return json_text({"schema": "foltr-audit/list/1", "kind": self.kind, key: self.found})

    def show(self, console: Console) -> None:
        """Print names, what each does, and its parameters."""
        spare = ["parameters"] if self.kind == "click-models" else []
        if self.kind == KNOWLEDGE:
            title, columns = "what a server may know; attack --hide NAME,... withholds it", [*_NAME, *_WHAT]
        else:
            title, more = self.kind, _OF_KIND.get(self.kind, [])
            columns = [*_NAME, *more, *_SUMMARY, Column("parameters", _parameters, "words")]
        print_table(make_table(title, columns, self.found, spare=spare), console)

    def short_answer(self) -> BriefAnswer:
        """The names, and what each does."""
        known = self.kind == KNOWLEDGE
        return BriefAnswer(
            conclusion=(f"{self.kind}: {', '.join(self)}",),
            about="",
            table=make_table("", [*_NAME, *(_WHAT if known else _SUMMARY)], self.found),
            left_out=() if known else ("parameters",),
        )


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['name']} (experimental)" if row.get("status") == "experimental" else row["name"]


def _parameters(row: Mapping[str, Any]) -> str:
    described = []
    for parameter in row["parameters"]:
        value = "required" if parameter["required"] else f"default {parameter['default']}"
        described.append(f"{parameter['name']} ({value}): {parameter['description']}")
    return "\n".join(described) or "-"


def _probabilities(name: str) -> Column:
    """Probabilities of each label from 0 on; a line for each scale of labels."""

    def cell(row: Mapping[str, Any]) -> str:
        scales = [scale[name] for scale in row.get("probabilities", ())]
        return "\n".join(", ".join(f"{value:g}" for value in values) for values in scales) or "-"

    return Column(_HEADERS[name], cell, "line")


_HEADERS = {"click": "click on labels 0, 1, ...", "stop": "stop after it"}
_OF_KIND = {
    "defenses": columns_of("stage:name"),
    "click-models": [_probabilities(name) for name in _HEADERS],
}
"""Columns that only plug-ins of a kind have."""

_NAME = [Column("name", _name, "name")]
_WHAT, _SUMMARY = columns_of("what it is=what:words"), columns_of("what it does=summary:words")


def list_names(kind: str) -> NameList:
    """What there is of a kind.

    Args:
        kind: `attacks`, `defenses`, `scenarios`, `poisonings`, `click-models`, `learners`, `client-steps`,
            `servers` or `knowledge`.

    Raises:
        UsageError: another kind.

    Example:
        >>> import foltr_audit as fa
        >>> "olsr" in fa.list_names("attacks"), "clip" in fa.list_defenses()
        (True, True)
    """
    bases = {group.partition(".")[2].replace("_", "-"): base for base, group in GROUPS.items()}
    if kind == KNOWLEDGE:
        return NameList(kind, [{"name": name, "what": what} for name, what in PIECES.items()])
    if kind not in bases:
        raise UsageError(f"list: unknown kind {kind!r}; {suggest_name(kind, (*bases, KNOWLEDGE))}")
    rows = []
    for name in loadable(bases[kind]):
        cls = plugin_class(bases[kind], name)
        row: dict[str, Any] = {"name": name, "status": cls.status}
        if issubclass(cls, Defense):
            row["stage"] = ", ".join(cls.possible_stages())
        if issubclass(cls, CascadeClickModel):
            scales = zip(cls.click_given_grade, cls.stop_given_grade, strict=True)
            row["probabilities"] = [{"click": [*click], "stop": [*stop]} for click, stop in scales]
        row["summary"] = (inspect.getdoc(cls) or "").split("\n")[0]
        rows.append(row | {"parameters": parameters(cls)})
    return NameList(kind, rows)


def list_attacks() -> NameList:
    """The attacks, with what each does and its parameters."""
    return list_names("attacks")


def list_defenses() -> NameList:
    """The defenses, with the stage in which each acts and its parameters."""
    return list_names("defenses")


def list_click_models() -> NameList:
    """The click models: how users click."""
    return list_names("click-models")


# --- the cells of a comparison ---------------------------------------------------------------------

Rows = list[dict[str, Any]]


def cell_rows(cells: Sequence[CellPlan], folder: ComparisonFolder | None) -> Rows:
    """The cells that a grid will run, some of which a folder may hold."""
    return [
        {
            "name": cell.name,
            "kind": cell.kind,
            "spec_hash": cell.spec.hash,
            "done": folder is not None and folder.done(cell.spec),
        }
        for cell in cells
    ]


def kind_rows(cells: Rows) -> Rows:
    """How many cells of each kind there are."""
    done = Counter(row["kind"] for row in cells if row["done"])
    return [
        {"kind": kind, "cells": count, "done": done[kind], "to_run": count - done[kind]}
        for kind, count in Counter(row["kind"] for row in cells).items()
    ]


def print_cells(cells: Rows, console: Console) -> None:
    """Print every cell, and the number of each kind."""
    columns = [
        Column("cell", lambda row: row["spec_hash"][:12], "name"),
        *columns_of("kind:words; defense, clicks and run=name:words; done:words"),
    ]
    numbers = columns_of("kind:words; cells; done; to run=to_run")
    print_table(make_table("cells", columns, cells), console)
    console.print()
    print_table(make_table("number of cells", numbers, kind_rows(cells)), console)
    to_run = sum(not row["done"] for row in cells)
    console.print(f"\n{counted(to_run, 'cell')} to run", style="bold", highlight=False)


# --- what messages leak ----------------------------------------------------------------------------


def print_lint(results: Mapping[str, LintResult], console: Console) -> None:
    """Print what each trace leaks, leaks first, and the checks that found nothing."""
    columns = [
        Column("check", lambda finding: finding.check, "name"),
        Column("", lambda finding: finding.severity, "name"),
        Column("share", _share),
        Column("what it reveals", _text, "fold"),
    ]
    for folder, result in results.items():
        title = f"{folder}: {number(result.messages, 'message')} in {number(result.rounds, 'round')}"
        found = result.findings
        table = make_table(title, columns, found, space=2, dim=lambda finding: finding.severity == "note")
        print_table(table, console)
        for line in _lint_lines(result):
            console.print(escape(line))
        console.print()


def _share(finding: LintFinding) -> Cell:
    """The share, and of what, on two lines."""
    if finding.share is None:
        return Cell("")
    amount = "all" if finding.share == 1.0 else "< .1 %" if finding.share < 0.001 else percent(finding.share)
    return Cell(f"{amount} of", finding.of or "")


def _text(finding: LintFinding) -> str:
    return finding.text if finding.example is None else f"{finding.text} First: {finding.example}."


def _lint_lines(linted: LintResult) -> Iterator[str]:
    """The checks that found nothing or could not look, and a summary."""
    if not linted.rounds:
        yield "no round with messages is recorded: there is nothing to look at"
        return
    for outcome in linted.checks:
        if outcome.state == "clean":
            yield f"{outcome.name}: ok, {_nothing(outcome)}"
    for outcome in linted.checks:
        if outcome.looked_in_part:
            parts: dict[str, list[str]] = {}
            for gap in outcome.not_looked_at:
                parts.setdefault(gap.why, []).append(gap.part)
            left = "; ".join(f"not at {', nor at '.join(each)}: {why}" for why, each in parts.items())
            seen = "" if outcome.state == "found" else f"{_nothing(outcome)}; "
            yield f"{outcome.name}: looked in part, {seen}{left}"
    for outcome in sorted(linted.checks, key=lambda outcome: not outcome.applies):
        if outcome.reason is not None:
            begin = "could not look" if outcome.applies else "not applicable"
            yield f"{outcome.name}: {begin}, {outcome.reason}"
    if linted.rounds_without_messages:
        rounds = number(linted.rounds_without_messages, "round")
        yield f"{rounds} without recorded messages could not be looked at"
    yield _summary(linted)


def _nothing(outcome: LintOutcome) -> str:
    power = f" ({outcome.power})" if outcome.power else ""
    return f"nothing found of {outcome.tells}{power}"


def _summary(linted: LintResult) -> str:
    """The closing line, e.g. `no leak found; 2 checks could not look, 1 looked in part`."""
    found = f"{number(linted.leaks, 'leak') if linted.leaks else 'no leak'} found"
    missing = sum(outcome.is_missing for outcome in linted.checks)
    in_part = sum(outcome.looked_in_part for outcome in linted.checks)
    left = [f"{number(missing, 'check')} could not look"] if missing else []
    if in_part:
        left.append(f"{in_part if missing else number(in_part, 'check')} looked in part")
    return f"{found}; {', '.join(left)}" if left else found
