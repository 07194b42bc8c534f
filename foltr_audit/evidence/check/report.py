"""The report of a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.evidence.check.limit_check import LimitOutcome, Status, outcomes
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.subjects import CheckSubject, printable
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.results.wording import counted
from foltr_audit.utils.rows import JsonValue

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.report.render.terminal import BriefAnswer


@dataclass(frozen=True, kw_only=True)
class CheckReport(PlainReport):
    """The outcomes of all limits on all subjects.

    Attributes:
        holds: whether every limit holds.
        limits: the limits.
        outcomes: the outcomes, subject by subject.
        warnings: the warnings for readers of the outcomes.
        config: what was run or read, as a plain table.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/check/2"

    holds: bool
    limits: Mapping[str, JsonValue]
    outcomes: Sequence[LimitOutcome]
    warnings: Sequence[WarningRow]
    config: Mapping[str, JsonValue]

    @classmethod
    def of(
        cls,
        limits: SystemLimits,
        subjects: Sequence[CheckSubject],
        config: Mapping[str, JsonValue],
        warnings: Sequence[CodedWarning] = (),
    ) -> CheckReport:
        """Check the limits on some subjects."""
        refused = [
            coded("refused attack", f"{subject.name}: {name} could not run and is not judged: {why}")
            for subject in subjects
            if limits.max_attack_auc is not None and not subject.all_attacks
            for name, why in subject.refused.items()
        ]
        found = outcomes(limits, subjects)
        return cls(
            holds=all(one.status == "holds" for one in found),
            limits=limits.table(),
            outcomes=found,
            warnings=[
                WarningRow.of(one._replace(text=printable(one.text)))
                for one in dict.fromkeys((*warnings, *refused))
            ],
            config=config,
        )

    def rows(self) -> list[dict[str, JsonValue]]:
        """The outcomes with the columns that they have in JSON."""
        return [one.plain() for one in self.outcomes]

    def of_status(self, status: Status) -> list[LimitOutcome]:
        return [one for one in self.outcomes if one.status == status]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        from foltr_audit.evidence.check.outcome_table import print_check

        print_check(self, console)

    def short_answer(self) -> BriefAnswer:
        """How many limits hold, and each limit that is broken or cannot be judged."""
        from foltr_audit.evidence.check.outcome_table import brief_check

        return brief_check(self)

    @property
    def counts(self) -> str:
        """All outcomes in one short line."""
        statuses: tuple[Status, ...] = ("broken", "not judged")
        found_of = [f"{len(found)} {status}" for status in statuses if (found := self.of_status(status))]
        rows = counted(len({one.subject for one in self.outcomes}), "row")
        limits = counted(len(self.outcomes), "limit")
        return f"{limits} checked on {rows}: {', '.join(found_of) or 'all hold'}"


def warnings_of(report: CompareReport, subjects: Sequence[str]) -> Iterator[CodedWarning]:
    """The warnings of a comparison about some rows, and what it left out.

    Args:
        report: the report of the comparison.
        subjects: names of the rows that are judged, as in the column `name`.
    """
    for row in report.warnings:
        if row.name in subjects:
            yield row.coded.about(row.name)
    for left in report.left_out:
        yield coded("left out", f"left out of the comparison: {left.learner}, {left.defense}: {left.why}")
