"""What a check found, as one plain table and as JSON."""

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
    """Every limit held against every subject.

    Attributes:
        limits: what was asked for.
        outcomes: subject by subject.
        config: what was run or read, as a plain table.
        warnings: what a reader of the outcomes should know.
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
        """The report on some subjects."""
        refused = [
            f"{subject.name}: {name} could not run and is not judged: {why}"
            for subject in subjects
            if limits.max_attack_auc is not None and not subject.all_attacks
            for name, why in subject.refused.items()
        ]
        told = dict.fromkeys(printable(text) for text in (*warnings, *refused))
        return cls(limits=limits, outcomes=outcomes(limits, subjects), config=config, warnings=list(told))

    @property
    def holds(self) -> bool:
        """Whether every limit holds."""
        return all(one.status == "holds" for one in self.outcomes)

    def of_status(self, status: Status) -> list[LimitOutcome]:
        """The outcomes of one kind."""
        return [one for one in self.outcomes if one.status == status]

    @property
    def summary(self) -> str:
        """All outcomes in one short line."""
        counts = [
            f"{number} {name}"
            for name, number in (
                ("broken", len(self.of_status("broken"))),
                ("not judged", len(self.of_status("not judged"))),
            )
            if number
        ]
        whole = (
            f"{len(self.outcomes)} limits held against" if len(self.outcomes) != 1 else "1 limit held against"
        )
        subjects = len({one.subject for one in self.outcomes})
        rows = "1 row" if subjects == 1 else f"{subjects} rows"
        return f"{whole} {rows}: {', '.join(counts) or 'all hold'}"

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
    """What the chains of some rows get wrong, and what a comparison left out.

    Args:
        report: the comparison.
        subjects: names of the rows that are judged, as in the column `name`.
    """
    for row in report.warnings:
        if row["name"] in subjects:
            yield f"{row['name']}: {row['warning']}"
    for row in report.left_out:
        yield f"left out of the comparison: {row['learner']}, {row['defense']}: {row['why']}"
