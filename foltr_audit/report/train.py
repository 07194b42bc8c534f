"""What a training run showed: one row per run and round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from foltr_audit.plan import Plan
from foltr_audit.report.base import Group, Report, Row, dataset_table, groups, utility_rows
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
            dataset=dataset_table([cell.data for cell in cells]),
            utility=utility_rows(cells),
            rounds=[row for group in groups(cells) for row in _rounds(group)],
        )


def speed(cells: Sequence[Cell]) -> str:
    """What the clock says of the rounds; no part of the report, which has the same bytes each time."""
    interactions = sum(cell.trained.interactions for cell in cells)
    seconds = sum(cell.trained.seconds for cell in cells)
    rate = f" ({interactions / seconds:,.0f} a second)" if seconds else ""
    return f"{interactions:,} interactions in {seconds:.1f} s{rate}"


def _rounds(group: Group) -> list[Row]:
    return [
        {
            "run": cell.spec.repetition,
            "click_model": cell.spec.train.click_model,
            **group.setting,
            **row,
            "round": int(row["round"]),
        }
        for cell in group.cells
        for row in cell.trained.rounds
    ]
