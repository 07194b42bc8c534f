"""What a training run showed, as plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foltr_audit.plan import Plan
from foltr_audit.report.attack import Row, dataset_facts, utility_rows
from foltr_audit.report.plain import json_text
from foltr_audit.study import Cell

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "foltr-audit/train/1"


@dataclass(frozen=True)
class TrainReport:
    """The result of `train`.

    Attributes:
        config: the plan as a plain table.
        dataset: source, fingerprints and sizes of the data.
        utility: one row per claimed epsilon, see `AttackReport`.
        rounds: one row per run and round.
    """

    config: Row
    dataset: Row
    utility: list[Row]
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

    def table(self) -> Row:
        """Everything as one plain table with its schema."""
        return {
            "schema": SCHEMA,
            "config": self.config,
            "dataset": self.dataset,
            "utility": self.utility,
            "rounds": self.rounds,
        }

    def json(self) -> str:
        """Everything as one JSON object."""
        return json_text(self.table())

    def to_frame(self) -> pl.DataFrame:
        """The rounds as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.rounds, infer_schema_length=None)


def _rounds(cell: Cell) -> list[Row]:
    spec = cell.setup.spec
    facts = {"run": spec.repetition, "eps_claimed": cell.setup.claim(), "click_model": spec.train.click_model}
    return [{**facts, **row, "round": int(row["round"])} for row in cell.trained.rounds]
