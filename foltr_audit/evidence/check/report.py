"""The report of a check, as a plain table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from foltr_audit.evidence.check.limit_check import LimitOutcome, Status, outcomes
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.subjects import CheckSubject, printable
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.utils.formatting import json_text


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """The outcomes of all limits on all subjects.

    Attributes:
        limits: the limits.
        outcomes: the outcomes, subject by subject.
        config: what was run or read, as a plain table.
        warnings: the warnings for readers of the outcomes.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/check/1"

    limits: SystemLimits
    outcomes: list[LimitOutcome]
    config: Row = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, limits: SystemLimits, subjects: Sequence[CheckSubject], config: Row, warnings: Sequence[str] = ()
    ) -> CheckReport:
        """Check the limits on some subjects."""
        refused = [
            f"{subject.name}: {name} could not run and is not judged: {why}"
            for subject in subjects
            if limits.max_attack_auc is not None and not subject.all_attacks
            for name, why in subject.refused.items()
        ]
        texts = dict.fromkeys(printable(text) for text in (*warnings, *refused))
        return cls(limits=limits, outcomes=outcomes(limits, subjects), config=config, warnings=list(texts))

    @property
    def holds(self) -> bool:
        """Whether every limit holds."""
        return all(one.status == "holds" for one in self.outcomes)

    def of_status(self, status: Status) -> list[LimitOutcome]:
        """The outcomes with a status."""
        return [one for one in self.outcomes if one.status == status]

    @property
    def summary(self) -> str:
        """All outcomes in one short line."""
        statuses: tuple[Status, ...] = ("broken", "not judged")
        counts = [f"{len(found)} {status}" for status in statuses if (found := self.of_status(status))]
        number, subjects = len(self.outcomes), len({one.subject for one in self.outcomes})
        limits = "1 limit" if number == 1 else f"{number} limits"
        rows = "1 row" if subjects == 1 else f"{subjects} rows"
        return f"{limits} checked on {rows}: {', '.join(counts) or 'all hold'}"

    def json(self) -> str:
        """As one JSON object."""
        return json_text(
            {
                "schema": self.SCHEMA,
                "holds": self.holds,
                "limits": self.limits.table(),
                "outcomes": [asdict(one) for one in self.outcomes],
                "warnings": self.warnings,
                "config": self.config,
            }
        )


def warnings_of(report: CompareReport, subjects: Sequence[str]) -> Iterator[str]:
    """The warnings of a comparison about some rows, and what it left out.

    Args:
        report: the report of the comparison.
        subjects: names of the rows that are judged, as in the column `name`.
    """
    for row in report.warnings:
        if row["name"] in subjects:
            yield f"{row['name']}: {row['warning']}"
    for row in report.left_out:
        yield f"left out of the comparison: {row['learner']}, {row['defense']}: {row['why']}"
