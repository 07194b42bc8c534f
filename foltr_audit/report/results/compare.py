"""The report of `compare`, and how its rows are made of cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.plugins import Server
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds
from foltr_audit.core.results import UNKNOWN, AuditRecord, DataRecord, Estimate, GapRecord
from foltr_audit.core.settings.data import path_name
from foltr_audit.core.settings.defaults import NO_DEFENSE, SERVER
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan, DefenseLabel, GridExclusion, SensitivityTrial
from foltr_audit.experiments.store import StoredRun
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.significance import mean_interval, paired_t_test
from foltr_audit.privacy.observer_views import VIEWS, sees, sees_lists
from foltr_audit.report.pictures.compare_panels import comparison_figure
from foltr_audit.report.results.attack_rows import scored
from foltr_audit.report.results.base import DatasetFacts
from foltr_audit.report.results.compare_rows import (
    CHANCE,
    AuditedView,
    ByQuery,
    CellCounts,
    ClaimRow,
    ComparedAttackRow,
    ComparedGroupRow,
    ComparedRefusal,
    ComparedSetting,
    ComparedWarningRow,
    CompareRow,
    CurveRow,
    FailedCellRow,
    ParetoChoice,
    ServedRow,
    UnfinishedRow,
    ViewCeiling,
    WorldKey,
    beaten_by,
    front_of,
)
from foltr_audit.report.results.groups import scored_groups
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.report.tables.compare import brief_compare, print_compare
from foltr_audit.rng import Streams
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import JsonValue, json_text
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.render.terminal import BriefAnswer

# --- rows of a group of cells ----------------------------------------------------------------------

NOISE_SHARES = "FA102"
"""The warning of a message, or a sum, that holds only a part of the noise."""


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """The cells of one defense in one world: they differ in repetition and fold only.

    Attributes:
        label: the defense's name.
        cells: the attacked cells.
        findings: what the audit of its claim found; empty without one.
    """

    label: DefenseLabel
    cells: list[StoredRun]
    findings: Sequence[AuditRecord] = ()

    @cached_property
    def setting(self) -> ComparedSetting:
        """The columns that name its rows."""
        spec, record, label = self.cells[0].spec, self.cells[0].record, self.label
        # The epsilon that the chain is proven for if its name promises a proof, else what its parts claim
        promised = DefenseAlternative(label.alternative).proven(label.eps, 0.0)
        return ComparedSetting(
            data=path_name(spec.data.source),
            scenario=spec.population.scenario,
            click_model=spec.train.click_model,
            learner=record.learner,
            pdgd=record.pdgd,
            name=label.text,
            alternative=label.alternative,
            eps=label.eps,
            sensitivity=label.sensitivity,
            defense="+".join(spec.defense),
            eps_claimed=float(promised["claim"])
            if promised
            else math.inf
            if record.claim is None
            else record.claim,
            runs=len(self.cells),
        )

    @property
    def streams(self) -> Streams:
        return Streams(self.cells[0].spec.seed)

    @cached_property
    def evidence(self) -> ClickEvidence | None:
        """The judged lists of all repetitions."""
        pieces = [cell.evidence for cell in self.cells if cell.evidence is not None]
        return ClickEvidence.combined(pieces) if pieces else None

    def paired(self, other: CellGroup) -> tuple[CellGroup, CellGroup]:
        """This group and another one with the repetitions that both have, in the same order."""
        mine, theirs = self._by_run(), other._by_run()
        if list(mine) == list(theirs):
            return self, other
        both = [run for run in mine if run in theirs]
        return (
            replace(self, cells=[mine[run] for run in both]),
            replace(other, cells=[theirs[run] for run in both]),
        )

    def _by_run(self) -> dict[tuple[int, int], StoredRun]:
        return {(cell.spec.repetition, cell.spec.data.fold): cell for cell in self.cells}

    @cached_property
    def query_ndcg(self) -> ByQuery:
        """Names of the evaluated queries that count, by fold, and their nDCG, a mean over repetitions."""
        values: dict[str, list[float]] = {}
        for cell in self.cells:
            for number, value in enumerate(cell.query_ndcg.tolist()):
                if not np.isnan(value):
                    values.setdefault(f"{cell.spec.data.fold}:{number:07d}", []).append(value)
        names = sorted(values)
        return np.array(names, dtype=np.str_), np.array([float(np.mean(values[name])) for name in names])

    def online_mean(self) -> Floats:
        """Mean online nDCG@10 of each repetition."""
        return np.array([cell.utility.online_mean for cell in self.cells], dtype=np.float64)


def attack_rows_of(group: CellGroup) -> list[ComparedAttackRow]:
    """One row per guesser, baselines first."""
    if group.evidence is None:
        return []
    return [
        ComparedAttackRow(method=method, baseline=baseline, setting=group.setting, found=metrics)
        for method, baseline, metrics in scored(group.evidence, group.streams)
    ]


def group_rows_of(group: CellGroup) -> list[ComparedGroupRow]:
    """Attack success by group of clients, hit hardest first; none where clients do not differ."""
    if group.evidence is None:
        return []
    return [
        ComparedGroupRow(method=method, baseline=baseline, setting=group.setting, found=success)
        for method, baseline, success in scored_groups(group.evidence, group.streams)
    ]


def refused_rows_of(group: CellGroup) -> list[ComparedRefusal]:
    """One row per attack that could not run, with the reason."""
    refused = {} if group.evidence is None else group.evidence.refused
    return [
        ComparedRefusal(method=method, setting=group.setting, reason=reason)
        for method, reason in refused.items()
    ]


def compare_row(
    group: CellGroup,
    attacks: Sequence[ComparedAttackRow],
    hit: Sequence[ComparedGroupRow],
    base: CellGroup | None,
    runs_asked: int,
) -> CompareRow:
    """The row of a group of cells.

    Args:
        group: the cells.
        attacks: its rows of `attack_rows_of`.
        hit: its rows of `group_rows_of`.
        base: the cells without a defense to compare it with; None if there are none.
        runs_asked: repetitions of the grid.
    """
    best, guess = (_highest(attacks, baseline=baseline) for baseline in (False, True))
    names, values = group.query_ndcg
    served = served_rows(group)
    worst = served[0] if served else None
    hardest = next((row for row in hit if best and row.method == best.method and row.found.place == 1), None)
    if base is None or base.cells[0].spec == group.cells[0].spec:
        offline = online = _NOT_TESTED
    else:
        offline, online = _differences(*group.paired(base))
    return CompareRow(
        setting=group.setting,
        audits=_audits(group.findings),
        attack=best.method if best else None,
        attacks=sum(not row.baseline for row in attacks),
        accuracy=best.found.accuracy if best else UNKNOWN,
        precision=best.found.precision if best else UNKNOWN,
        recall=best.found.recall if best else UNKNOWN,
        f1=best.found.f1 if best else UNKNOWN,
        auc=best.found.auc if best else UNKNOWN,
        tpr_at_1=best.found.tpr_at_1 if best else UNKNOWN,
        lists=best.found.lists if best else None,
        runs_without_sum=sum(bool(cell.gaps) for cell in group.cells),
        ceiling_auc=_ceiling(group.cells),
        ceilings=tuple(
            ViewCeiling(view=proof.view, auc=1.0 if proof.auc is None else proof.auc, how=proof.upper.how)
            for proof in group.cells[0].proofs
            if proof.of == "all rounds"
        ),
        baseline=guess.method if guess else None,
        baseline_auc=guess.found.auc.value if guess else None,
        ndcg=QueryBootstrap(names, group.streams).share(values) if names.size else UNKNOWN,
        evaluated_on=evaluated_on([cell.rounds for cell in group.cells]),
        ceiling=_mean([cell.utility.ceiling for cell in group.cells]),
        untrained=_mean([cell.utility.untrained for cell in group.cells]),
        validation=_mean([cell.utility.validation for cell in group.cells]),
        online_mean=_over_runs(group.online_mean()),
        online_sum=_mean([cell.utility.online_sum for cell in group.cells]),
        clipped=_mean([cell.utility.clipped for cell in group.cells]),
        ndcg_difference=offline[0],
        ndcg_p=offline[1],
        online_difference=online[0],
        online_p=online[1],
        bytes_per_client=_mean([cell.utility.bytes_per_client for cell in group.cells]),
        worst_served_group=worst.group if worst else None,
        worst_served_online=worst.online_mean if worst else None,
        groups=len(served) or None,
        runs_asked=runs_asked,
        worst_attacked_group=hardest.found.group if hardest else None,
        worst_attacked_auc=hardest.found.auc.own.value if hardest else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean over repetitions; None where it is not known of all."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _ceiling(cells: Sequence[StoredRun]) -> float | None:
    """The largest proven AUC of the attacked messages of all repetitions; None where nothing is proven."""
    known = [next((proof.auc for proof in cell.proofs if proof.of == "attacked"), None) for cell in cells]
    most = max(1.0 if auc is None else auc for auc in known)
    return most if most < 1 else None


def _highest(attacks: Sequence[ComparedAttackRow], *, baseline: bool) -> ComparedAttackRow | None:
    """The attack, or the guess without a message, with the highest AUC."""
    same_kind = [row for row in attacks if row.baseline == baseline]
    return max(same_kind, key=lambda row: row.found.auc.value if row.found.auc.known else -1.0, default=None)


def _audits(findings: Sequence[AuditRecord]) -> dict[str, AuditedView]:
    """What was found of each audited view; of several units the worst one."""
    audits = {}
    for view in VIEWS:
        of_view = [finding for finding in findings if finding.view == view]
        if of_view:
            worst = max(of_view, key=_badness)
            audits[view] = AuditedView(
                eps_claimed=worst.eps_claimed,
                eps_proven=worst.upper.epsilon,
                eps_exact=worst.exact,
                eps_measured=worst.lower.epsilon,
                eps_ceiling=worst.lower.ceiling,
                delta=worst.delta,
                verdict=worst.verdict,
                unit=worst.unit,
                run=RunBoundRow.of(worst.whole_run),
            )
    return audits


def _badness(finding: AuditRecord) -> tuple[int, float, float]:
    """How bad a finding is: false claims before open ones before proven ones, then by their bounds."""
    place = 2 if finding.verdict in (*FALSE, CONTRADICTION) else 0 if finding.verdict == "proven" else 1
    return place, finding.upper.epsilon, finding.lower.epsilon


_Test = tuple[Estimate, float | None]
"""A mean difference with its interval, and its p-value."""

_NOT_TESTED: _Test = (UNKNOWN, None)


def _differences(group: CellGroup, base: CellGroup) -> tuple[_Test, _Test]:
    """How much better a group is than no defense, offline and online, over the repetitions that both have.

    Offline over queries that both have.
    """
    if not group.cells:
        return _NOT_TESTED, _NOT_TESTED
    names, values = group.query_ndcg
    base_names, base_values = base.query_ndcg
    both = np.intersect1d(names, base_names)
    mine, theirs = values[np.isin(names, both)], base_values[np.isin(base_names, both)]
    return _tested(mine, theirs), _tested(group.online_mean(), base.online_mean())


def _tested(mine: Floats, theirs: Floats) -> _Test:
    """Mean difference, its interval and p-value (paired t-test, not corrected), of two or more pairs.

    The interval is one within -1 and 1, of `FEWEST` or more pairs.
    """
    known = np.isfinite(mine) & np.isfinite(theirs)
    mine, theirs = mine[known], theirs[known]
    if mine.size < 2:
        return Estimate(float(mine.mean() - theirs.mean()) if mine.size else math.nan), None
    test = paired_t_test(mine, theirs)
    ends = None if test.ends is None else (max(test.ends[0], -1.0), min(test.ends[1], 1.0))
    return Estimate(test.difference, ends), test.p


def _over_runs(values: Floats) -> Estimate:
    """Mean nDCG, with Student's interval within 0 and 1 over `FEWEST` or more runs in which it is defined."""
    values = values[np.isfinite(values)]
    return Estimate(float(values.mean()) if values.size else math.nan, mean_interval(values))


def served_rows(group: CellGroup) -> list[ServedRow]:
    """Mean online nDCG@10 of each group of clients, served worst first; none where clients do not differ."""
    served = [
        ServedRow(
            setting=group.setting,
            group=name,
            online_mean=float(
                np.mean([mean_of_rounds(cell.rounds[f"{ONLINE_NDCG}/{name}"]) for cell in group.cells])
            ),
        )
        for name in group.cells[0].record.groups
        if all(f"{ONLINE_NDCG}/{name}" in cell.rounds for cell in group.cells)
    ]
    return sorted(served, key=lambda row: row.online_mean)


def curve_row(group: CellGroup) -> CurveRow:
    """Means over runs of online and offline nDCG@10 by round."""
    online, offline = (
        np.mean([cell.rounds[name] for cell in group.cells], axis=0).tolist()
        for name in (ONLINE_NDCG, OFFLINE_NDCG)
    )
    rounds = group.cells[0].rounds["round"].astype(int).tolist()
    return CurveRow(setting=group.setting, round=tuple(rounds), online=tuple(online), offline=tuple(offline))


def warning_rows(group: CellGroup) -> list[ComparedWarningRow]:
    """The warnings about a group, each once, but for missing noise that the proof of its claim counts in."""
    setting = group.setting
    return [
        ComparedWarningRow(
            name=setting.name,
            alternative=setting.alternative,
            eps=setting.eps,
            learner=setting.learner,
            code=warning.code,
            warning=warning.text,
        )
        for warning in dict.fromkeys(group.cells[0].record.warnings)
        if warning.code != NOISE_SHARES or not _is_proven(group)
    ]


def _is_proven(group: CellGroup) -> bool:
    """Whether the claim of a group is proven for who sees messages or sums, without lists."""
    verdicts = {finding.verdict for finding in group.findings if not sees_lists(finding.view)}
    return verdicts == {"proven"}


def claim_rows(group: CellGroup) -> list[ClaimRow]:
    """What the audit of a group's claim found."""
    setting = group.setting
    rows = [
        ClaimRow(
            learner=setting.learner,
            scenario=setting.scenario,
            name=setting.name,
            defense=setting.defense,
            view=finding.view,
            sees=sees(finding.view, finding.colluders),
            unit=finding.unit,
            canary=finding.canary,
            eps_claimed=finding.eps_claimed,
            delta=finding.delta,
            eps_upper=finding.upper.epsilon,
            run=RunBoundRow.of(finding.whole_run),
            eps_exact=finding.exact,
            eps_lower=finding.lower.epsilon,
            eps_ceiling=finding.lower.ceiling,
            confidence=finding.lower.confidence,
            trials=finding.lower.trials,
            verdict=finding.verdict,
            why=finding.why,
            declared=finding.declared,
            declared_why=finding.declared_why,
            upper_how=finding.upper.how,
        )
        for finding in group.findings
    ]
    return list(dict.fromkeys(rows))


# --- the report ------------------------------------------------------------------------------------


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
        print_compare(self, console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table."""
        return brief_compare(self)

    def figure(self) -> Figure:
        """Attack against utility, and both against epsilon."""
        return comparison_figure(self)

    @classmethod
    def of(
        cls,
        folder: ComparisonFolder,
        failed: Sequence[GapRecord] = (),
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
        specs = {cell.spec.hash: cell.spec for cell in folder.cells()}
        lost = {gap.run for gap in failed}
        cells = [cell for cell in folder.cells() if cell.spec.hash not in lost]
        done = [cell for cell in cells if not partial or folder.done(cell.spec)]
        before = [gap for gap in folder.failures() if gap.run not in lost] if partial else []
        read = _CellReader(folder, done, Counter(map(_pool, folder.cells()))).read(progress)
        _refuse_mixed_data(folder, read.data)
        return cls(
            config=folder.grid.public.table(),
            dataset=DatasetFacts.of(read.data) if read.data else None,
            cells=CellCounts(
                **{kind: sum(failure.kind == kind for failure in cells) for kind in ("attack", "audit")}
            ),
            sensitivities=folder.sensitivities(),
            unfinished=_unfinished(cells, set(done)),
            left_out=folder.left_out(),
            failed=[failed_row(specs[str(gap.run)], gap.why) for gap in [*failed, *before]],
            warnings=list(read.warnings),
            claims=list(read.claims),
            attacks=read.attacks,
            refused=read.refused,
            groups=read.groups,
            served=read.served,
            curves=read.curves,
            results=with_front(read.results, read.ndcg),
        )

    def plain(self) -> dict[str, JsonValue]:
        """As of every row; without data their table is empty, and folds have their columns by name."""
        plain = super().plain()
        if self.dataset is None:
            return plain | {"dataset": {}}
        folds: list[JsonValue] = [dict(sorted(fold.plain().items())) for fold in self.dataset.folds]
        return plain | {"dataset": {**self.dataset.plain(), "folds": folds}}


def _refuse_mixed_data(folder: ComparisonFolder, facts: Sequence[DataRecord]) -> None:
    """Refuse cells of one fold that were made from different data: their results are not comparable."""
    fingerprints: dict[int, str] = {}
    for row in facts:
        first = fingerprints.setdefault(row.fold, row.fingerprint)
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
    marked: list[CompareRow] = []
    for world in worlds.values():
        choices = [_choice(row, values) for row, values in world]
        learners = {row.setting.learner for row, _ in world}
        names = [", ".join(row.setting.key) if len(learners) > 1 else row.setting.name for row, _ in world]
        for (row, _), front, numbers in zip(world, front_of(choices), beaten_by(choices), strict=True):
            beaten = tuple(names[number] for number in numbers)
            marked.append(replace(row, pareto=front, dominated_by=beaten))
    return marked


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
    pools: dict[str, list[CellPlan]] = {}
    for cell in cells:
        pools.setdefault(_pool(cell), []).append(cell)
    return list(pools.values())


def _pool(cell: CellPlan) -> str:
    table = flat(cell.spec.table())
    return json_text({name: table[name] for name in table if name not in ("repetition", "data.fold")})


# --- reading cells ---------------------------------------------------------------------------------

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
    data: list[DataRecord] = field(default_factory=list)
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
            findings=() if audit is None else self.folder.read(audit).audits,
        )

    def _add(self, group: CellGroup, base: CellGroup | None, asked: int) -> None:
        attacks, hit = attack_rows_of(group), group_rows_of(group)
        self.data += [cell.data for cell in group.cells]
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
