"""The report of `compare`: one row per defense and world, and the rows behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.spec.experiment import Spec, flat
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.expansion import CellPlan
from foltr_audit.experiments.comparison.facts import AuditFacts
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import CellFailure
from foltr_audit.experiments.runner import DataFacts
from foltr_audit.privacy.observer_views import sees
from foltr_audit.report.results.base import DatasetFacts, PlainReport, Row
from foltr_audit.report.results.compare_rows import (
    CellGroup,
    attack_rows_of,
    curve_row,
    group_attack_rows,
    known,
    refused_rows_of,
    served_rows,
    setting_row,
)
from foltr_audit.report.results.pareto import ByQuery, ParetoChoice, beaten_by, front_of
from foltr_audit.report.results.wording import verdicts_on
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import SILENT, Progress

WORLD = ("data", "scenario", "click_model")
"""Columns that rows must share to be compared with each other."""


@dataclass(frozen=True, kw_only=True)
class CompareReport(PlainReport):
    """The result of `compare`, as plain rows.

    Attributes:
        config: the grid as a plain table.
        dataset: source, fingerprints and sizes of the data.
        cells: how many cells of each kind were asked for.
        sensitivities: values of Delta that were tried on the validation part, see `--sensitivity-grid`.
        unfinished: settings with cells that are not done yet, one row per kind; see `partial` of `of`.
        left_out: combinations that are impossible, and why.
        failed: cells that could not be run, and why; with `partial` those of the last run too.
        warnings: incompatible defenses in the chains, one row per defense and warning.
        claims: one row per audited view, unit and canary of every defense; `sees` is the view in words.
        attacks: one row per guesser and setting, baselines first.
        refused: one row per attack and setting in which it could not run, and why.
        groups: attack success by group of clients; empty where clients do not differ.
        served: online nDCG@10 by group of clients; empty where clients do not differ.
        curves: nDCG@10 by round, one row per setting.
        results: one row per world, learner and defense.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/compare/1"

    config: Row
    dataset: Row
    cells: Row
    sensitivities: list[Row] = field(default_factory=list)
    unfinished: list[Row] = field(default_factory=list)
    left_out: list[Row]
    failed: list[Row]
    warnings: list[Row]
    claims: list[Row]
    attacks: list[Row]
    refused: list[Row] = field(default_factory=list)
    groups: list[Row]
    served: list[Row] = field(default_factory=list)
    curves: list[Row]
    results: list[Row]

    @classmethod
    def of(
        cls,
        folder: ComparisonFolder,
        failed: Sequence[CellFailure] = (),
        progress: Progress = SILENT,
        *,
        partial: bool = False,
    ) -> CompareReport:
        """The report on the cells of a folder; pooled over repetitions.

        Args:
            folder: the comparison.
            failed: cells that could not be run; they are left out.
            progress: shows how far this is.
            partial: whether cells that are not done yet are left out too, and counted.

        Raises:
            TraceError: a cell is missing or damaged.
        """
        lost = {one.spec for one in failed}
        cells = [cell for cell in folder.cells() if cell.spec not in lost]
        done = [cell for cell in cells if not partial or folder.done(cell.spec)]
        builder = _CompareReportBuilder(folder, done, progress, Counter(map(_pool, folder.cells())))
        _refuse_mixed_data(folder, builder.data)
        return cls(
            config=folder.grid.table(),
            dataset=DatasetFacts.of(builder.data).plain() if builder.data else {},
            cells={kind: sum(one.kind == kind for one in cells) for kind in ("attack", "audit")},
            sensitivities=[one.plain() for one in folder.sensitivities()],
            unfinished=_unfinished(cells, set(done)),
            left_out=[one.plain() for one in folder.left_out()],
            failed=[failed_row(one.spec, one.why) for one in failed]
            + _failed_before(folder, cells, set(done)),
            **builder.rows,
            results=with_front(builder.results, builder.ndcg),
        )


def _refuse_mixed_data(folder: ComparisonFolder, facts: Sequence[DataFacts]) -> None:
    """Refuse cells of one fold that were made from different data: their results are not comparable."""
    found: dict[int, str] = {}
    for row in facts:
        first = found.setdefault(row.fold, row.fingerprint)
        if first != row.fingerprint:
            raise TraceError(
                f"{folder.path}: cells of different data: fingerprints {first[:12]} and "
                f"{row.fingerprint[:12]} of one fold; expected one, make it again with --overwrite"
            )


def with_front(rows: Sequence[Row], ndcg: Sequence[ByQuery]) -> list[Row]:
    """The rows with `pareto` and `dominated_by`, among those of the same world.

    Args:
        rows: of settings.
        ndcg: of the queries of each.
    """
    found: list[Row] = []
    queries = {id(row): values for row, values in zip(rows, ndcg, strict=True)}
    for rows_of_world in rows_by_world(rows).values():
        choices = [_choice(row, queries[id(row)]) for row in rows_of_world]
        several = len({row["learner"] for row in rows_of_world}) > 1
        for row, front, numbers in zip(rows_of_world, front_of(choices), beaten_by(choices), strict=True):
            names = [_named(rows_of_world[number], several=several) for number in numbers]
            found.append({**row, "pareto": front, "dominated_by": names})
    return found


def _choice(row: Row, ndcg: ByQuery) -> ParetoChoice:
    ends = row["auc_ci95"]
    return ParetoChoice(
        leak=known(row["auc"]),
        utility=known(row["ndcg@10"]),
        leak_ends=None if ends is None else (ends[0], ends[1]),
        queries=ndcg,
        refuted=bool({*FALSE, CONTRADICTION} & set(verdicts_on(row).values())),
    )


def _named(row: Row, *, several: bool) -> str:
    return f"{row['learner']}, {row['name']}" if several else str(row["name"])


def rows_by_world(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that may be compared with each other, in order."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in WORLD), []).append(row)
    return found


def failed_row(spec: Spec, why: str) -> Row:
    """The row of a cell that could not be run."""
    return {
        "defense": "+".join(spec.defense),
        "learner": spec.train.learner,
        "click_model": spec.train.click_model,
        "run": spec.repetition,
        "why": why,
    }


def _failed_before(folder: ComparisonFolder, cells: Sequence[CellPlan], done: set[CellPlan]) -> list[Row]:
    """Cells that are not done and that failed in the last run, by the results that it wrote."""
    missing = [cell for cell in cells if cell not in done]
    stored = folder.results().get("failed") if missing else None
    reasons = [row for row in stored if isinstance(row, dict)] if isinstance(stored, list) else []
    rows = []
    for cell in missing:
        blank = failed_row(cell.spec, "")
        why = next((row.get("why") for row in reasons if {**row, "why": ""} == blank), None)
        if why is not None:
            rows.append({**blank, "why": str(why)})
    return rows


def _unfinished(cells: Sequence[CellPlan], done: set[CellPlan]) -> list[Row]:
    return [
        {
            "kind": group[0].kind,
            "scenario": group[0].spec.population.scenario,
            "click_model": group[0].spec.train.click_model,
            "learner": group[0].spec.train.learner,
            "name": group[0].label.text,
            "cells": len(group),
            "done": finished,
        }
        for group in _pooled(cells)
        if (finished := sum(cell in done for cell in group)) < len(group)
    ]


def _pooled(cells: Sequence[CellPlan]) -> list[list[CellPlan]]:
    """The cells by everything but repetition and fold."""
    found: dict[str, list[CellPlan]] = {}
    for cell in cells:
        found.setdefault(_pool(cell), []).append(cell)
    return list(found.values())


def _pool(cell: CellPlan) -> str:
    table = flat(cell.spec.table())
    return json_text({name: table[name] for name in table if name not in ("repetition", "data.fold")})


class _CompareReportBuilder:
    """Reads the cells of a folder setting by setting, so that only one is in memory."""

    def __init__(
        self,
        folder: ComparisonFolder,
        cells: Sequence[CellPlan],
        progress: Progress,
        asked: Mapping[str, int],
    ) -> None:
        self.folder = folder
        self.asked = asked
        self.data: list[DataFacts] = []
        self.rows: dict[str, list[Row]] = {kind: [] for kind in _KINDS}
        self.results: list[Row] = []
        self.ndcg: list[ByQuery] = []
        self._audits = {self._claimed(cell): cell for cell in cells if cell.kind == "audit"}
        self._bases: dict[str, CellGroup] = {}
        pooled = _pooled([cell for cell in cells if cell.kind == "attack"])
        for cell in (one for one in pooled if one[0].spec.defense == ("none",)):
            self._bases[self._world(cell[0])] = self._read(cell)
        with progress.task("report", len(pooled)) as tick:
            for group in pooled:
                self._add(group)
                tick()

    @staticmethod
    def _world(cell: CellPlan) -> str:
        return json_text({name: v for name, v in flat(cell.spec.table()).items() if name in _SAME_WORLD})

    @staticmethod
    def _claimed(cell: CellPlan) -> tuple[str, str, tuple[str, ...]]:
        spec = cell.spec
        return spec.train.learner, spec.population.scenario, spec.defense

    def _read(self, group: Sequence[CellPlan]) -> CellGroup:
        audit = self._audits.get(self._claimed(group[0]))
        return CellGroup(
            label=group[0].label,
            cells=[self.folder.read(cell.spec) for cell in group],
            findings=[] if audit is None else self.folder.read(audit.spec).facts.findings,
        )

    def _add(self, group: Sequence[CellPlan]) -> None:
        setting = self._read(group)
        rows = attack_rows_of(setting)
        groups = group_attack_rows(setting)
        row = setting_row(setting, rows, self._bases.get(self._world(group[0])))
        row |= {"runs_asked": self.asked[_pool(group[0])], **_hit_hardest(groups, row["attack"])}
        self.data += [cell.facts.data.row() for cell in setting.cells]
        self.rows["attacks"] += rows
        self.rows["refused"] += refused_rows_of(setting)
        self.rows["groups"] += groups
        self.rows["served"] += served_rows(setting)
        self.rows["curves"].append(curve_row(setting))
        self.results.append(row)
        self.ndcg.append(setting.query_ndcg())
        # Cells of several click models share an audit and a chain, so the same row comes again
        for kind, found in (("claims", _claim_rows(setting)), ("warnings", _warning_rows(setting))):
            self.rows[kind] += [row for row in found if row not in self.rows[kind]]


_KINDS = ("warnings", "claims", "attacks", "refused", "groups", "served", "curves")
_SAME_WORLD = ("train.learner", "population.scenario", "train.click_model")


def _hit_hardest(groups: Sequence[Row], attack: str | None) -> Row:
    first = next((row for row in groups if row["method"] == attack and row["place"] == 1), {})
    return {"worst_attacked_group": first.get("group"), "worst_attacked_auc": first.get("auc")}


def _warning_rows(setting: CellGroup) -> list[Row]:
    label, facts = setting.label, setting.cells[0].facts
    named = {"name": label.text, "alternative": label.alternative, "eps": label.eps}
    return [{**named, "learner": facts.learner, "warning": text} for text in dict.fromkeys(facts.warnings)]


def _claim_rows(setting: CellGroup) -> list[Row]:
    named = {name: setting.where[name] for name in ("learner", "scenario", "name", "defense")}
    rows: list[Row] = []
    for finding in setting.findings:
        row = {**named, **_claim_row(finding)}
        rows += [row] if row not in rows else []
    return rows


def _claim_row(finding: AuditFacts) -> Row:
    return {
        "view": finding.view,
        "sees": sees(finding.view, finding.colluders),
        "unit": finding.unit,
        "canary": finding.canary,
        "eps_claimed": finding.eps_claimed,
        "delta": finding.delta,
        "eps_upper": finding.upper.epsilon,
        "eps_upper_run": finding.upper_run.epsilon,
        "eps_exact": finding.exact,
        "eps_lower": finding.lower.epsilon,
        "eps_ceiling": finding.lower.ceiling,
        "confidence": finding.lower.confidence,
        "trials": finding.lower.trials,
        "verdict": finding.verdict,
        "why": finding.why,
        "declared": finding.declared,
        "declared_why": finding.declared_why,
        "upper_how": finding.upper.how,
    }
