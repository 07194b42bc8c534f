"""What a training run showed: one row per run and round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from foltr_audit.plan import Plan
from foltr_audit.report.base import Report, Row, dataset_facts, utility_rows
from foltr_audit.study import Cell


@dataclass(frozen=True)
class TrainReport(Report):
    """The result of `train`.

    Attributes:
        rounds: one row per run and round.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/train/1"

    rounds: list[Row]

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Cell]) -> TrainReport:
        """The report on the cells of a plan."""
        return cls(
            config=plan.table(),
            dataset=dataset_facts([cell.setup.collection for cell in cells]),
            utility=utility_rows(cells),
            rounds=[row for cell in cells for row in _rounds(cell)],
        )


def _rounds(cell: Cell) -> list[Row]:
    spec = cell.setup.spec
    facts = {"run": spec.repetition, "eps_claimed": cell.setup.claim(), "click_model": spec.train.click_model}
    return [{**facts, **row, "round": int(row["round"])} for row in cell.trained.rounds]
