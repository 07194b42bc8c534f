"""The report of `study unlearning`: its rows and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.unlearning import UnlearningSpec
from foltr_audit.core.warning_kinds import warning_code
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.unlearning.experiment import UnlearningFinding
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.attack_rows import scored
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    RunGroup,
    Setting,
    WarningRow,
    groups,
    setting_label,
    utility_rows,
    warning_rows,
)
from foltr_audit.report.tables.columns import (
    dataset_line,
    estimate_column,
    no_relevant,
    percent,
    systems_of,
    utility_table,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class UnlearningRow(ResultRow):
    """What one method reaches in a run, and what it takes: means over trainings.

    Attributes:
        setting: what was run.
        run: its repetition.
        method: see `UnlearningSpec`.
        clients: ids of the clients that leave.
        members: number of clients before.
        trainings: number of trainings that the clients left; as many were played without them.
        rounds: number of rounds of each.
        ndcg: offline nDCG@10 of the model.
        distance: L2 distance from the model to the retrained one.
        relative: the same as a share of that of the trained model; 1 for `none`.
        floor: mean distance between retrained models with different random numbers, as the same share.
        client_rounds: how often a client computes a message for it.
        interactions: interactions behind these messages.
        stored_bytes: what the server must have stored of the training.
        eps_lower: lower bound on epsilon between models that clients left and models they were never in.
        at_most: the lower bound that a perfect attack would show with so many trainings.
        delta, confidence: of the lower bound.
        evaluated: trainings of each kind that the bound is of.
        score: the score that told them apart best on trainings of its own.
    """

    setting: Setting = column(embedded=True)
    run: int
    method: str
    clients: tuple[int, ...]
    members: int
    trainings: int
    rounds: int
    ndcg: Estimate = column("ndcg@10")
    distance: Estimate
    relative: Estimate
    floor: float
    client_rounds: float
    interactions: float
    stored_bytes: float
    eps_lower: float
    at_most: float
    delta: float
    confidence: float
    evaluated: int
    score: str

    @classmethod
    def of_finding(cls, finding: UnlearningFinding, setting: Setting, spec: Spec) -> UnlearningRow:
        """The columns of a finding of a run."""
        lower = finding.game.lower
        return cls(
            setting=setting,
            run=spec.repetition,
            method=finding.method,
            clients=(spec.unlearning or UnlearningSpec()).clients,
            members=spec.population.clients,
            trainings=finding.trainings,
            rounds=spec.train.rounds,
            ndcg=finding.ndcg,
            distance=finding.distance,
            relative=finding.relative,
            floor=finding.floor,
            client_rounds=finding.client_rounds,
            interactions=finding.interactions,
            stored_bytes=finding.stored_bytes,
            eps_lower=lower.epsilon,
            at_most=lower.ceiling,
            delta=lower.delta,
            confidence=lower.confidence,
            evaluated=lower.trials,
            score=finding.game.score,
        )


@dataclass(frozen=True, kw_only=True)
class HistoryRow(ResultRow):
    """What one attack or baseline reads in the stored history of a training.

    Attributes:
        setting: what was run.
        run: its repetition.
        stored: `individual`, every message; or `aggregate`, the sum of each round alone.
        method: the attack or baseline.
        baseline: whether it reads no message.
        lists: lists with a click.
        exact: share of the lists of which it gets every document right.
        auc: area under the ROC curve of its scores.
    """

    setting: Setting = column(embedded=True)
    run: int
    stored: str
    method: str
    baseline: bool
    lists: int
    exact: Estimate
    auc: Estimate


@dataclass(frozen=True, kw_only=True)
class UnlearningReport(Report):
    """The result of `study unlearning`.

    Attributes:
        history: one row per setting, run, kind of history, and attack on it; left out where none can be
            attacked.
        results: one row per setting, run and method.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/unlearn/1"

    history: tuple[HistoryRow, ...] = column(optional=True, default=())
    results: tuple[UnlearningRow, ...] = ()

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_unlearning(self, console)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Run]) -> UnlearningReport:
        rows = tuple(
            UnlearningRow.of_finding(finding, group.setting, cell.spec)
            for group in groups(cells)
            for cell in group.cells
            if cell.unlearning is not None
            for finding in cell.unlearning.findings
        )
        return cls(
            config=plan.public.table(),
            dataset=DatasetFacts.of([cell.data for cell in cells]),
            utility=utility_rows(cells),
            warnings=(*warning_rows(cells), *_contradictions(rows)),
            history=tuple(row for group in groups(cells) for row in _history_rows(group)),
            results=rows,
        )


def _history_rows(group: RunGroup) -> Iterator[HistoryRow]:
    for cell in group.cells:
        leaks = {} if cell.unlearning is None else cell.unlearning.leaks
        for stored, evidence in leaks.items():
            for method, baseline, metrics in scored(evidence, Streams(cell.spec.seed)):
                yield HistoryRow(
                    setting=group.setting,
                    run=cell.spec.repetition,
                    stored=stored,
                    method=method,
                    baseline=baseline,
                    lists=metrics.lists,
                    exact=metrics.exact,
                    auc=metrics.auc,
                )


def _contradictions(rows: Sequence[UnlearningRow]) -> Iterator[WarningRow]:
    """A warning where exact unlearning seems to leave something."""
    for row in rows:
        if row.method == "retrain" and row.eps_lower > 0:
            yield WarningRow(
                defense=row.setting.defense,
                code=warning_code("exact unlearning"),
                warning=f"retrain: eps >= {row.eps_lower:.2g}, where 0 is true: one run in "
                f"{round(1 / (1 - row.confidence))} shows this by chance; repeat it with another --seed",
            )


_STORED = {"individual": "every message", "aggregate": "the sum of each round"}


def print_unlearning(report: UnlearningReport, console: Console) -> None:
    """The whole report: data, a table per setting, utility, and what it all means."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.results)))
    settings = list(dict.fromkeys(str(row.setting) for row in report.results))
    for setting in settings:
        rows = [row for row in report.results if str(row.setting) == setting]
        print_table(unlearning_table(rows, report.results), console)
        console.print()
        leaks = [row for row in report.history if str(row.setting) == setting]
        if leaks:
            print_table(history_table(leaks), console)
            console.print()
    print_table(utility_table(report.utility, no_relevant(report.config)), console)
    console.print()
    for line in (*conclusions(report.results), *_read(report.history)):
        console.print(escape(line), style="bold", highlight=False)


def _read(rows: Sequence[HistoryRow]) -> Iterator[str]:
    """How much the attacks on the first history find."""
    strongest = {row.stored: row for row in rows[::-1] if not row.baseline}
    if len(strongest) == len(_STORED):
        every, total = (strongest[name] for name in _STORED)
        yield (
            f"Whoever reads the stored messages finds {percent(every.exact.value)} of the lists exactly; of "
            f"the sums alone, {percent(total.exact.value)}."
        )


def unlearning_table(rows: Sequence[UnlearningRow], every: Sequence[UnlearningRow]) -> Table:
    """A line for each method and run of a setting."""
    first, runs = rows[0], len({row.run for row in rows}) > 1
    columns: list[Column[UnlearningRow]] = [
        *([Column[UnlearningRow]("run", lambda row: str(row.run))] if runs else []),
        Column("method", lambda row: row.method, "name"),
        estimate_column("nDCG@10", lambda row: row.ndcg),
        estimate_column("distance", lambda row: row.relative),
        Column("eps at least", _bound),
        Column("client rounds", lambda row: f"{row.client_rounds:,.0f}"),
        Column("interactions", lambda row: f"{row.interactions:,.0f}"),
        Column("stored", lambda row: _bytes(row.stored_bytes)),
    ]
    return make_table(
        f"{_label(first, every)}\n{_who_leaves(first)}",
        columns,
        rows,
        caption=f"Means over {first.trainings} trainings. Distance: to the retrained model, as a share of "
        f"that of the trained one; between two retrainings it is {first.floor:.2f}. Eps at least: lower "
        f"bound at delta {first.delta:g} with confidence {first.confidence:g}, from {first.evaluated} models "
        f"of federations that they left and as many of others; at most {first.at_most:.2f} can show. Client "
        "rounds: how often a client computes a message. Stored: what the server must keep of the training.",
        section=lambda row: row.run,
    )


def _who_leaves(row: UnlearningRow) -> str:
    single = len(row.clients) == 1
    who = f"client{'s' * (not single)} {', '.join(map(str, row.clients))} of {row.members}"
    return f"{who} leave{'s' * single} after {row.rounds} round{'s' * (row.rounds > 1)}"


def history_table(rows: Sequence[HistoryRow]) -> Table:
    """What the stored history of a setting reveals; baselines, which are the same for both kinds, once."""
    columns: list[Column[HistoryRow]] = [
        Column("stored", lambda row: "-" if row.baseline else _STORED[row.stored], "words"),
        Column("method", lambda row: row.method, "name"),
        estimate_column("exact lists", lambda row: row.exact),
        estimate_column("AUC", lambda row: row.auc),
    ]
    first = rows[0]
    shown = [row for row in rows if row.run == first.run]
    return make_table(
        "clicks that a reader of the stored history finds",
        columns,
        [row for row in shown if not row.baseline or row.stored == first.stored],
        caption=f"{first.lists} lists of one training. Exact lists: of which every document is right.",
        dim=lambda row: row.baseline,
    )


def _label(row: UnlearningRow, every: Sequence[UnlearningRow]) -> str:
    settings = [other.setting for other in every]
    vary = len({str(other) for other in settings}) > 1
    label = setting_label(row.setting, settings) if vary else row.setting.defense
    return label if row.setting.defense in label else f"{label}\n{row.setting.defense}"


def _bound(row: UnlearningRow) -> Cell:
    return Cell(f"{row.eps_lower:.2f}", mark="bad" if row.eps_lower > 0 else "")


def _bytes(size: float) -> str:
    if size < 1:
        return "-"
    return f"{size / 1000:,.1f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"


def conclusions(rows: Sequence[UnlearningRow]) -> Iterator[str]:
    """What the games show: a sentence for each setting and run."""
    settings = [row.setting for row in rows]
    vary = len({str(setting) for setting in settings}) > 1
    for key in dict.fromkeys((str(row.setting), row.run) for row in rows):
        of_run = [row for row in rows if (str(row.setting), row.run) == key]
        where = f"{setting_label(of_run[0].setting, settings)}: " if vary else ""
        apart = [f"{row.method} (eps >= {row.eps_lower:.2f})" for row in of_run if row.eps_lower > 0]
        conclusion = (
            f"the model tells that they were there after {', '.join(apart)}"
            if apart
            else "no game tells whether they were there"
        )
        yield f"{where}{conclusion}."
