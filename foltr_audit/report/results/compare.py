"""The report of `compare`: one row per defense and world, and the rows behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.plugins import Server
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.settings.defaults import NO_DEFENSE, SERVER
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.expansion import CellPlan, GridExclusion, SensitivityTrial
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import CellFailure
from foltr_audit.experiments.data_facts import DataFacts
from foltr_audit.report.results.base import DatasetFacts
from foltr_audit.report.results.compare_rows import (
    CellCounts,
    ClaimRow,
    ComparedAttackRow,
    ComparedGroupRow,
    ComparedRefusal,
    ComparedWarningRow,
    CompareRow,
    CurveRow,
    FailedCellRow,
    ServedRow,
    UnfinishedRow,
    WorldKey,
)
from foltr_audit.report.results.compared_cells import (
    CellGroup,
    attack_rows_of,
    claim_rows,
    compare_row,
    curve_row,
    group_rows_of,
    refused_rows_of,
    served_rows,
    warning_rows,
)
from foltr_audit.report.results.pareto import CHANCE, ByQuery, ParetoChoice, beaten_by, front_of
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.rows import Estimate, JsonValue

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.tables.brief.short_answer import BriefAnswer


@dataclass(frozen=True, kw_only=True)
class CompareReport(PlainReport):
    """The result of `compare`.

    Attributes:
        config: the grid as a plain table.
        dataset: source, fingerprints and sizes of the data; None where no cell is done.
        cells: how many cells of each kind were asked for.
        sensitivities: values of Delta that were tried on the validation split, see `--sensitivity-grid`.
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

    config: Mapping[str, JsonValue]
    dataset: DatasetFacts | None
    cells: CellCounts
    sensitivities: Sequence[SensitivityTrial] = ()
    unfinished: Sequence[UnfinishedRow] = ()
    left_out: Sequence[GridExclusion] = ()
    failed: Sequence[FailedCellRow] = ()
    warnings: Sequence[ComparedWarningRow] = ()
    claims: Sequence[ClaimRow] = ()
    attacks: Sequence[ComparedAttackRow] = ()
    refused: Sequence[ComparedRefusal] = ()
    groups: Sequence[ComparedGroupRow] = ()
    served: Sequence[ServedRow] = ()
    curves: Sequence[CurveRow] = ()
    results: Sequence[CompareRow] = ()

    @property
    def server(self) -> str:
        """The server of all cells; empty where it is an honest one."""
        spec = self.config.get("spec")
        train = spec.get("train") if isinstance(spec, dict) else None
        named = train.get("server") if isinstance(train, dict) else None
        server = make_if_known(Server, named) if isinstance(named, str) else None
        return "" if server is None or server.name == SERVER else server.label

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        from foltr_audit.report.tables.compare import print_compare

        print_compare(self, console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table."""
        from foltr_audit.report.tables.brief.compare import brief_compare

        return brief_compare(self)

    def figure(self) -> Figure:
        """Attack against utility, and both against epsilon."""
        from foltr_audit.report.pictures.compare_panels import comparison_figure

        return comparison_figure(self)

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
        found = _CellReader(folder, done, Counter(map(_pool, folder.cells()))).read(progress)
        _refuse_mixed_data(folder, found.data)
        return cls(
            config=folder.grid.public.table(),
            dataset=DatasetFacts.of(found.data) if found.data else None,
            cells=CellCounts(
                **{kind: sum(one.kind == kind for one in cells) for kind in ("attack", "audit")}
            ),
            sensitivities=folder.sensitivities(),
            unfinished=_unfinished(cells, set(done)),
            left_out=folder.left_out(),
            failed=[failed_row(one.spec, one.why) for one in failed]
            + _failed_before(folder, cells, set(done)),
            warnings=list(found.warnings),
            claims=list(found.claims),
            attacks=found.attacks,
            refused=found.refused,
            groups=found.groups,
            served=found.served,
            curves=found.curves,
            results=with_front(found.results, found.ndcg),
        )

    def plain(self) -> dict[str, JsonValue]:
        """As of every row; without data their table is empty, and folds have their columns by name."""
        found = super().plain()
        if self.dataset is None:
            return found | {"dataset": {}}
        folds: list[JsonValue] = [dict(sorted(fold.plain().items())) for fold in self.dataset.folds]
        return found | {"dataset": {**self.dataset.plain(), "folds": folds}}


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


def with_front(rows: Sequence[CompareRow], ndcg: Sequence[ByQuery]) -> list[CompareRow]:
    """The rows with `pareto` and `dominated_by`, among those of the same world.

    Args:
        rows: of settings.
        ndcg: of the queries of each.
    """
    worlds: dict[WorldKey, list[tuple[CompareRow, ByQuery]]] = {}
    for row, values in zip(rows, ndcg, strict=True):
        worlds.setdefault(row.setting.world, []).append((row, values))
    found: list[CompareRow] = []
    for several in worlds.values():
        choices = [_choice(row, values) for row, values in several]
        learners = {row.setting.learner for row, _ in several}
        names = [", ".join(row.setting.key) if len(learners) > 1 else row.setting.name for row, _ in several]
        for (row, _), front, numbers in zip(several, front_of(choices), beaten_by(choices), strict=True):
            beaten = tuple(names[number] for number in numbers)
            found.append(replace(row, pareto=front, dominated_by=beaten))
    return found


def _choice(row: CompareRow, ndcg: ByQuery) -> ParetoChoice:
    auc = Estimate(CHANCE, (CHANCE, CHANCE)) if row.unread else row.auc
    return ParetoChoice(
        leak=auc.value if auc.known else None,
        utility=row.ndcg.value if row.ndcg.known else None,
        leak_ends=auc.ci95,
        queries=ndcg,
        refuted=bool({*FALSE, CONTRADICTION} & set(row.verdicts.values())),
    )


def failed_row(spec: Spec, why: str) -> FailedCellRow:
    """The row of a cell that could not be run."""
    return FailedCellRow(
        defense="+".join(spec.defense),
        learner=spec.train.learner,
        click_model=spec.train.click_model,
        run=spec.repetition,
        why=why,
    )


def _failed_before(
    folder: ComparisonFolder, cells: Sequence[CellPlan], done: set[CellPlan]
) -> list[FailedCellRow]:
    """Cells that are not done and that failed in the last run, by the results that it wrote."""
    missing = [cell for cell in cells if cell not in done]
    stored = folder.results().get("failed") if missing else None
    reasons = [row for row in stored if isinstance(row, dict)] if isinstance(stored, list) else []
    rows = []
    for cell in missing:
        blank = failed_row(cell.spec, "").plain()
        why = next((row.get("why") for row in reasons if {**row, "why": ""} == blank), None)
        if why is not None:
            rows.append(failed_row(cell.spec, str(why)))
    return rows


def _unfinished(cells: Sequence[CellPlan], done: set[CellPlan]) -> list[UnfinishedRow]:
    return [
        UnfinishedRow(
            kind=group[0].kind,
            scenario=group[0].spec.population.scenario,
            click_model=group[0].spec.train.click_model,
            learner=group[0].spec.train.learner,
            name=group[0].label.text,
            cells=len(group),
            done=finished,
        )
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


_World = tuple[str, str, str]
"""Learner, scenario and click model."""

_Chain = tuple[str, str, tuple[str, ...]]
"""Learner, scenario and defenses."""


@dataclass
class _CellReader:
    """Reads the cells of a folder setting by setting, so that only one is in memory, and collects their rows.

    Cells of several click models share an audit and a chain, so the same claim or warning comes again: each
    is kept once, in order.
    """

    folder: ComparisonFolder
    cells: Sequence[CellPlan]
    asked: Mapping[str, int]
    data: list[DataFacts] = field(default_factory=list)
    warnings: dict[ComparedWarningRow, None] = field(default_factory=dict)
    claims: dict[ClaimRow, None] = field(default_factory=dict)
    attacks: list[ComparedAttackRow] = field(default_factory=list)
    refused: list[ComparedRefusal] = field(default_factory=list)
    groups: list[ComparedGroupRow] = field(default_factory=list)
    served: list[ServedRow] = field(default_factory=list)
    curves: list[CurveRow] = field(default_factory=list)
    results: list[CompareRow] = field(default_factory=list)
    ndcg: list[ByQuery] = field(default_factory=list)

    def read(self, progress: Progress) -> _CellReader:
        """Read everything."""
        audits = {_audited(cell): cell.spec for cell in self.cells if cell.kind == "audit"}
        pooled = _pooled([cell for cell in self.cells if cell.kind == "attack"])
        bases = {
            _world(cells[0]): self._group(cells, audits)
            for cells in pooled
            if cells[0].spec.defense == (NO_DEFENSE,)
        }
        with progress.task("report", len(pooled)) as tick:
            for cells in pooled:
                self._add(
                    self._group(cells, audits), bases.get(_world(cells[0])), self.asked[_pool(cells[0])]
                )
                tick()
        return self

    def _group(self, cells: Sequence[CellPlan], audits: Mapping[_Chain, Spec]) -> CellGroup:
        audit = audits.get(_audited(cells[0]))
        return CellGroup(
            label=cells[0].label,
            cells=[self.folder.read(cell.spec) for cell in cells],
            findings=() if audit is None else self.folder.read(audit).facts.findings,
        )

    def _add(self, group: CellGroup, base: CellGroup | None, asked: int) -> None:
        attacks, hit = attack_rows_of(group), group_rows_of(group)
        self.data += [facts.data.row() for facts in group.facts]
        self.warnings |= dict.fromkeys(warning_rows(group))
        self.claims |= dict.fromkeys(claim_rows(group))
        self.attacks += attacks
        self.refused += refused_rows_of(group)
        self.groups += hit
        self.served += served_rows(group)
        self.curves.append(curve_row(group))
        self.results.append(compare_row(group, attacks, hit, base, asked))
        self.ndcg.append(group.query_ndcg)


def _world(cell: CellPlan) -> _World:
    return cell.spec.train.learner, cell.spec.population.scenario, cell.spec.train.click_model


def _audited(cell: CellPlan) -> _Chain:
    return cell.spec.train.learner, cell.spec.population.scenario, cell.spec.defense
