"""The report of a check, and its forms: tables, Markdown, JUnit XML and annotations of GitHub.

Source of the annotations: GitHub, "Workflow commands for GitHub Actions", `error` and `warning`.

In JUnit XML each limit and row is a test case. GitLab distinguishes cases by class and name and shows only
the text of a failure; other readers show its `message`, so both contain the same line. Some readers fail if
`time` is missing: it is 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rich.markup import escape

from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.evidence.check.limits import NAMES, LimitOutcome, Status, SystemLimits, outcomes
from foltr_audit.evidence.check.subjects import CheckSubject, printable
from foltr_audit.recorder import atomic_files
from foltr_audit.report.render.document import escape_markdown, table_lines
from foltr_audit.report.render.terminal import BriefAnswer, first_rows, print_table
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.results.wording import counted
from foltr_audit.report.tables.table import Cell, Column, Mark, make_table
from foltr_audit.utils.formatting import JsonValue

if TYPE_CHECKING:
    from rich.console import Console


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
        print_check(self, console)

    def short_answer(self) -> BriefAnswer:
        """How many limits hold, and each limit that is broken or cannot be judged."""
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


# --- tables ---------------------------------------------------------------------------------------

_MARKS: dict[str, Mark] = {"holds": "good", "broken": "bad", "not judged": "warn"}


def _by(text: str) -> str:
    return text.replace("by ", "by\n")


_COLUMNS = (
    Column[LimitOutcome]("limit", lambda one: one.limit, "name"),
    Column[LimitOutcome]("row", lambda one: one.subject, "name", only="page"),
    Column[LimitOutcome]("", lambda one: Cell(one.status, mark=_MARKS[one.status]), "name"),
    Column[LimitOutcome]("value", lambda one: one.value_text, narrow=_by),
    Column[LimitOutcome]("interval", lambda one: one.interval_text()),
    Column[LimitOutcome]("allowed", lambda one: one.allowed_text, "name"),
    Column[LimitOutcome]("of", lambda one: one.details, "name", only="page"),
)


def print_check(report: CheckReport, console: Console) -> None:
    """Print a table for each subject with the details of its rows, and a summary line."""
    for subject in dict.fromkeys(one.subject for one in report.outcomes):
        mine = [one for one in report.outcomes if one.subject == subject]
        console.print(escape(subject), style="italic", highlight=False)
        print_table(make_table("", _COLUMNS, mine, space=2, spare=("interval",)), console)
        for one in mine:
            console.print(f"  {escape(f'{one.limit}: {one.details}')}", style="dim", highlight=False)
        console.print()
    console.print(report.counts, style="bold", highlight=False)


def brief_check(report: CheckReport) -> BriefAnswer:
    """The short answer: broken limits first, then those that cannot be judged, then the others."""
    ranked = [one for status in ("broken", "not judged", "holds") for one in report.of_status(status)]
    rows, more = first_rows(ranked, "limits")
    return BriefAnswer(
        conclusion=(f"{report.counts}.",),
        about="",
        table=make_table("", _COLUMNS, rows, space=2, spare=("interval",)),
        notes=tuple(one.line for one in report.of_status("broken")),
        left_out=more,
    )


def markdown(report: CheckReport) -> str:
    """A heading, a table of all outcomes, and the warnings."""
    lines = [
        f"### foltr-audit check: {report.counts}",
        "",
        *table_lines(make_table("", _COLUMNS, report.outcomes).on("page")),
        "",
        *(f"- warning {row.code}: {escape_markdown(row.warning)}" for row in report.warnings),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def append(path: Path, text: str) -> None:
    """Append a text to a file after an empty line; create the file if it does not exist.

    Raises:
        OSError: it cannot be read or written.
    """
    before = path.read_bytes() if path.exists() else b""
    if before.strip():
        before = before.rstrip(b"\n") + b"\n\n"
    atomic_files.write_bytes(path, before + text.encode())


# --- GitHub ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LimitsPlace:
    """The file of limits.

    Attributes:
        name: its path from the working folder, which in a build is the checkout; outside of it, its name.
        lines: the line of each limit, from 1.
    """

    name: str
    lines: Mapping[str, int]

    @classmethod
    def of(cls, path: Path, text: str) -> LimitsPlace:
        """The place of a file with this text."""
        whole, here = path.resolve(), Path.cwd()
        name = whole.relative_to(here).as_posix() if whole.is_relative_to(here) else whole.name
        lines: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            found = re.match(r"\s*[\"']?(\w+)[\"']?\s*=", line)
            if found and found[1] in NAMES:
                lines.setdefault(found[1], number)
        return cls(name, lines)

    def line(self, limit: str) -> int:
        """The line of a limit; the first where it cannot be found."""
        return self.lines.get(limit, 1)


def annotation_lines(report: CheckReport, place: LimitsPlace) -> str:
    """A line for each limit that does not hold and for each warning, and the summary."""
    lines = [
        f"::error file={_property(place.name)},line={place.line(one.limit)},"
        f"title={_property(f'{one.limit}: {one.status}')}::{_message(one.line)}"
        for one in (*report.of_status("broken"), *report.of_status("not judged"))
    ]
    lines += [f"::warning title=foltr-audit check::{_message(str(row.coded))}" for row in report.warnings]
    return "\n".join([*lines, report.counts])


def _message(text: str) -> str:
    """A text in which nothing ends the annotation."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """A text in which nothing ends a property."""
    return _message(text).replace(":", "%3A").replace(",", "%2C")


# --- JUnit ----------------------------------------------------------------------------------------

SUITE = "foltr-audit check"
CLASS = "foltr-audit.check"
_KINDS = {"broken": "failure", "not judged": "error"}


def junit_xml(report: CheckReport) -> bytes:
    """The XML document in UTF-8."""
    counts = {
        "tests": str(len(report.outcomes)),
        "failures": str(len(report.of_status("broken"))),
        "errors": str(len(report.of_status("not judged"))),
        "skipped": "0",
        "time": "0",
    }
    root = Element("testsuites", counts, name=SUITE)
    suite = SubElement(root, "testsuite", counts, name=SUITE)
    for one in report.outcomes:
        _add(suite, one)
    if report.warnings:
        SubElement(suite, "system-out").text = "\n".join(str(row.coded) for row in report.warnings)
    indent(root)
    return bytes(tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add(suite: Element, one: LimitOutcome) -> None:
    case = SubElement(suite, "testcase", classname=CLASS, name=f"{one.limit}: {one.subject}", time="0")
    if one.status in _KINDS:
        SubElement(case, _KINDS[one.status], message=one.line, type=one.limit).text = one.line
    else:
        SubElement(case, "system-out").text = one.line
