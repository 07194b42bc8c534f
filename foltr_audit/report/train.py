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


@dataclass(frozen=True)
class Speed:
    """What the clock says of the rounds, start-up and reading excluded.

    No part of the report, which has the same bytes each time: it is printed beside it.

    Attributes:
        interactions: interactions played here.
        seconds: what they took.
    """

    interactions: int
    seconds: float

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> Speed:
        """The speed of all rounds of some Specs."""
        trained = [cell.trained for cell in cells]
        return cls(sum(run.interactions for run in trained), sum(run.seconds for run in trained))

    def row(self) -> Row:
        """The same for JSON; the rate is null where nothing was left to play."""
        rate = self.interactions / self.seconds if self.seconds else None
        return {"interactions": self.interactions, "seconds": self.seconds, "interactions_per_second": rate}

    def __str__(self) -> str:
        rate = f" ({self.interactions / self.seconds:,.0f} a second)" if self.seconds else ""
        return f"{self.interactions:,} interactions in {self.seconds:.1f} s{rate}"


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
