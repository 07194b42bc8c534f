"""What every report of a plan of trainings holds: configuration, data, utility and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.groups import SERVED_GROUP
from foltr_audit.report.settings import (
    DATASET,
    UTILITY,
    WARNING,
    dataset_line,
    dataset_row,
    utility_rows,
    warning_row,
)
from foltr_audit.utils.formatting import JsonValue


@dataclass(frozen=True, kw_only=True)
class PlanReport(Document):
    """The result of a plan of trainings; a subclass adds its own rows.

    Attributes:
        config: the plan as a plain table.
        utility_groups: how well each group of clients is served; left out where clients do not differ.
        warnings: one row per chain and warning.
    """

    SHARED = Section(
        "config:table",
        nested("dataset", DATASET, many=False),
        nested("utility", UTILITY),
        nested("utility_groups", SERVED_GROUP, optional=True),
        nested("warnings", WARNING),
    )

    config: Mapping[str, JsonValue]
    dataset: Row
    utility: tuple[Row, ...]
    utility_groups: tuple[Row, ...] = ()
    warnings: tuple[Row, ...] = ()

    @classmethod
    def shared(cls, plan: Plan, runs: Sequence[Run], warnings: Iterable[Row] = ()) -> dict[str, Any]:
        """Configuration, data, utility and warnings of some runs, the last with further ones."""
        told = dict.fromkeys(
            (each, "+".join(run.spec.defense)) for run in runs for each in run.record.warnings
        )
        return {
            "config": plan.public.table(),
            "dataset": dataset_row([run.data for run in runs]),
            "utility": utility_rows(runs),
            "warnings": (*(warning_row(*each) for each in told), *warnings),
        }

    @property
    def about(self) -> str:
        """The data and how they were prepared."""
        return dataset_line(self.dataset, self.config, self.utility)
