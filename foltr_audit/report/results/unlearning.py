"""What a trained model keeps of clients that left: one row per setting, run and method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.unlearning import UnlearningSpec
from foltr_audit.core.warning_codes import warning_code
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.experiments.unlearning.experiment import UnlearningFinding
from foltr_audit.report.results.attack_rows import scored
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    RunGroup,
    Setting,
    WarningRow,
    groups,
    utility_rows,
    warning_rows,
)
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import Estimate, ResultRow, column

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
    """The result of `unlearn`.

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
        from foltr_audit.report.tables.unlearning import print_unlearning

        print_unlearning(self, console)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[RunResult]) -> UnlearningReport:
        """The report on the cells of a plan."""
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
            for method, baseline, found in scored(evidence, Streams(cell.spec.seed)):
                yield HistoryRow(
                    setting=group.setting,
                    run=cell.spec.repetition,
                    stored=stored,
                    method=method,
                    baseline=baseline,
                    lists=found.lists,
                    exact=found.exact,
                    auc=found.auc,
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
