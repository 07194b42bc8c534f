"""The report of a check, and its forms: tables, Markdown, JUnit XML and annotations of GitHub.

Source of the annotations: GitHub, "Workflow commands for GitHub Actions", `error` and `warning`.

In JUnit XML each limit and row is a test case. GitLab distinguishes cases by class and name and shows only
the text of a failure; other readers show its `message`, so both contain the same line. Some readers fail if
`time` is missing: it is 0.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rich.markup import escape

from foltr_audit.core.results import Estimate
from foltr_audit.errors import TraceError
from foltr_audit.evidence.check.limits import NAMES, PRIVACY_LIMITS
from foltr_audit.evidence.check.outcomes import Checked, LimitOutcome, Status, outcomes, printable
from foltr_audit.experiments.comparison.folder import INDEX, ComparisonFolder
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runs.folder import RESULTS
from foltr_audit.recorder import atomic_files
from foltr_audit.report.attack import AttackReport
from foltr_audit.report.audit import AuditReport
from foltr_audit.report.compare import CompareReport
from foltr_audit.report.documents import Document, Row, Section, nested, one_of
from foltr_audit.report.membership import MembershipReport, UnlearningReport
from foltr_audit.report.settings import GUESSES, WARNING, guess_columns, warning_row
from foltr_audit.report.table import (
    UNKNOWN_TEXT,
    Cell,
    Column,
    Mark,
    Table,
    bound_text,
    columns_of,
    counted,
    estimate_text,
    make_table,
)
from foltr_audit.report.terminal import BriefAnswer, first_rows, print_table
from foltr_audit.report.train import TrainReport
from foltr_audit.utils.formatting import JsonValue, short
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_bytes, json_table

if TYPE_CHECKING:
    from rich.console import Console

Format = Literal["table", "json", "junit", "markdown", "github"]

OUTCOME = Section(
    "limit subject",
    one_of("status", Status),
    "value:num|str|null interval:interval allowed:num|null about attacks:[str]",
    GUESSES,
    "missing",
)
"""The outcome of a limit; the columns of `GUESSES` are known of the limit on attacks alone."""


@dataclass(frozen=True, kw_only=True)
class CheckReport(Document):
    """The outcomes of all limits on all subjects, subject by subject, and what was run or read."""

    SCHEMA: ClassVar[str] = "foltr-audit/check/2"
    MAIN: ClassVar[str] = "outcomes"
    NAMED_BY = ("limit",)
    FIELDS: ClassVar[Section] = Section(
        "holds:bool limits:table", nested("outcomes", OUTCOME), nested("warnings", WARNING), "config:table"
    )

    holds: bool
    limits: Mapping[str, JsonValue]
    outcomes: Sequence[Row]
    warnings: Sequence[Row]
    config: Mapping[str, JsonValue]

    @classmethod
    def of(cls, checked: Checked) -> CheckReport:
        """Hold the limits against what was checked; a `ContradictionError` as of `outcomes`."""
        rows = [outcome_row(outcome) for outcome in outcomes(checked.limits, checked.subjects)]
        warnings = [each._replace(text=printable(each.text)) for each in checked.every_warning()]
        return cls(
            holds=all(row["status"] == "holds" for row in rows),
            limits=checked.limits.table(),
            outcomes=rows,
            warnings=[warning_row(warning) for warning in warnings],
            config=checked.config,
        )

    @property
    def passes(self) -> bool:
        """Whether no limit is broken, and all are judged unless the limits allow otherwise."""
        return self.holds or (self.allows_not_judged and not self.of_status("broken"))

    @property
    def allows_not_judged(self) -> bool:
        return self.limits.get("allow_not_judged") is True

    def of_status(self, status: str) -> list[Row]:
        return [row for row in self.outcomes if row["status"] == status]

    def show(self, console: Console) -> None:
        """Print a table for each subject with the details of its rows, and a summary line."""
        for subject in dict.fromkeys(row["subject"] for row in self.outcomes):
            rows = [row for row in self.outcomes if row["subject"] == subject]
            console.print(escape(subject), style="italic", highlight=False)
            print_table(_table(rows), console)
            for row in rows:
                details = escape(f"{row['limit']}: {_details(row)}")
                console.print(f"  {details}", style="dim", highlight=False)
            console.print()
        console.print(_caption(self.outcomes), style="dim", markup=False, highlight=False)
        console.print(self.counts, style="bold", highlight=False)

    def short_answer(self) -> BriefAnswer:
        """How many limits hold, and each limit that is broken or cannot be judged."""
        ranked = [row for status in ("broken", "not judged", "holds") for row in self.of_status(status)]
        rows, more = first_rows(ranked, "limits")
        return BriefAnswer(
            conclusion=(f"{self.counts}.",),
            about="",
            table=_table(rows, _caption(rows)),
            notes=tuple(outcome_line(row) for row in ranked if row["status"] != "holds"),
            left_out=more,
        )

    @property
    def counts(self) -> str:
        statuses = [row["status"] for row in self.outcomes]
        bad = [f"{statuses.count(bad)} {bad}" for bad in ("broken", "not judged") if bad in statuses]
        subjects = counted(len({row["subject"] for row in self.outcomes}), "row")
        limits = counted(len(statuses), "limit")
        private = any(row["limit"] in PRIVACY_LIMITS for row in self.outcomes)
        silent = "" if private else "; none is about privacy"
        return f"{limits} checked on {subjects}: {', '.join(bad) or 'all hold'}{silent}"


def outcome_row(outcome: LimitOutcome) -> Row:
    return OUTCOME.of(outcome, **guess_columns(outcome.attack))


def outcome_line(row: Row) -> str:
    """An outcome in one line."""
    start = f"{row['limit']}: {row['subject']}"
    if row["status"] == "not judged":
        return f"{start}: {row['missing']}"
    value = f"{_value(row)} {_ends(row)}".rstrip()
    allowed = "" if row["allowed"] is None else f"{_allowed(row)} allowed; "
    return f"{start}: {value}; {allowed}{_details(row)}"


def _details(row: Row) -> str:
    if row["status"] == "not judged":
        return str(row["missing"])
    return str(row["about"]) + _beside_guess(row)


def _beside_guess(row: Row) -> str:
    """How an attack compares with the best guess without a message; empty of other limits."""
    if row["guess"] is None:
        return ""
    shown: Estimate = row["above_guess"]
    above = "; that guess is above the limit itself" if row["guess_auc"] > row["allowed"] else ""
    return (
        f"; less the best guess without a message ({row['guess']}, {short(row['guess_auc'])}): "
        f"{estimate_text(Estimate(shown.value, shown.bounds))}{above}"
    )


def _number(row: Row, value: float | None) -> str:
    if row["limit"].endswith("_eps"):
        return bound_text(value)
    return short(value)


def _value(row: Row) -> str:
    return row["value"] if isinstance(row["value"], str) else _number(row, row["value"])


def _ends(row: Row) -> str:
    if row["interval"] is None:
        return ""
    return f"[{', '.join(_number(row, end) for end in row['interval'])}]"


def _allowed(row: Row) -> str:
    if row["allowed"] is None:
        return UNKNOWN_TEXT
    edge = f"{row['allowed']:g}"
    edge = edge.removeprefix("0") if "." in edge else edge
    return f"at {'least' if row['limit'] == 'min_ndcg' else 'most'} {edge}"


_MARKS: dict[str, Mark] = {"holds": "good", "broken": "bad", "not judged": "warn"}

_COLUMNS = (
    *columns_of("limit:name"),
    *columns_of("row=subject:name", only="page"),
    Column("", lambda row: Cell(row["status"], mark=_MARKS[row["status"]]), "name"),
    Column("value", _value, narrow=lambda text: re.sub("(by|,) ", r"\1\n", text)),
    Column("interval", _ends),
    Column("allowed", _allowed, "name"),
    *columns_of("guess=guess_auc:3"),
    Column("of", _details, "name", only="page"),
)


def _caption(rows: Sequence[Row]) -> str:
    """What numbers mean, of the kinds that there are."""
    limits = {row["limit"].rpartition("_")[2] for row in rows}
    meanings = {
        "auc": "AUC: 1 is perfect; guess: the best AUC without message and grades",
        "eps": "epsilon: ∞ where nothing bounds it",
    }
    named = [text for kind, text in meanings.items() if kind in limits]
    return "; ".join(["in brackets: one-sided 95 % bounds", *named])


def _table(rows: Sequence[Row], caption: str = "") -> Table:
    return make_table("", _COLUMNS, rows, caption=caption, space=2, spare=("interval",))


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows literally.

    >>> escape_markdown("a|b<c>*d*")
    'a\\|b&lt;c&gt;\\*d\\*'
    """
    plain = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~#$])", r"\\\1", plain)


def _in_bold(cell: Cell) -> str:
    """The text of a cell, in bold where it is marked as bad."""
    text = escape_markdown(cell.text)
    return f"**{text}**" if cell.mark in ("bad", "warn") else text


def markdown(report: CheckReport) -> str:
    table = _table(report.outcomes).on("page")
    heads = [column.header for column in table.columns]
    rows = [heads, ["---"] * len(heads), *([*map(_in_bold, line.cells)] for line in table.lines)]
    lines = [
        f"### foltr-audit check: {report.counts}",
        "",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        *(f"- warning {row['code']}: {escape_markdown(row['warning'])}" for row in report.warnings),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


class LimitsPlace(NamedTuple):
    """The file of limits.

    Attributes:
        name: its path from the working folder, which in a build is the checkout; outside of it, its name.
        lines: the line of each limit, from 1.
    """

    name: str
    lines: Mapping[str, int]

    @classmethod
    def of(cls, path: Path, text: str) -> LimitsPlace:
        whole, here = path.resolve(), Path.cwd()
        name = whole.relative_to(here).as_posix() if whole.is_relative_to(here) else whole.name
        lines: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            found = re.match(r"\s*[\"']?(\w+)[\"']?\s*=", line)
            if found and found[1] in NAMES:
                lines.setdefault(found[1], number)
        return cls(name, lines)


def annotation_lines(report: CheckReport, place: LimitsPlace) -> str:
    """A line for each limit that does not hold and for each warning, and the summary."""
    levels = {"broken": "error", "not judged": "warning" if report.allows_not_judged else "error"}
    lines = [
        f"::{level} file={_property(place.name)},line={place.lines.get(row['limit'], 1)},"
        f"title={_property(': '.join((row['limit'], row['status'])))}::{_message(outcome_line(row))}"
        for status, level in levels.items()
        for row in report.of_status(status)
    ]
    lines += [
        f"::warning title=foltr-audit check::{_message(str(warning))}" for warning in report.coded_warnings
    ]
    return "\n".join([*lines, report.counts])


def _message(text: str) -> str:
    """A text in which nothing ends the annotation."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """A text in which nothing ends a property."""
    return _message(text).replace(":", "%3A").replace(",", "%2C")


SUITE = "foltr-audit check"
CLASS = "foltr-audit.check"


def junit_xml(report: CheckReport) -> str:
    not_judged = "skipped" if report.allows_not_judged else "error"
    kinds = {"broken": "failure", "not judged": not_judged}
    tags = [kinds.get(row["status"]) for row in report.outcomes]
    counts = {
        "tests": str(len(tags)),
        "failures": str(tags.count("failure")),
        "errors": str(tags.count("error")),
        "skipped": str(tags.count("skipped")),
        "time": "0",
    }
    root = Element("testsuites", counts, name=SUITE)
    suite = SubElement(root, "testsuite", counts, name=SUITE)
    for row in report.outcomes:
        name, line = f"{row['limit']}: {row['subject']}", outcome_line(row)
        case = SubElement(suite, "testcase", classname=CLASS, name=name, time="0")
        if row["status"] in kinds:
            SubElement(case, kinds[row["status"]], message=line, type=row["limit"]).text = line
        else:
            SubElement(case, "system-out").text = line
    if report.warnings:
        SubElement(suite, "system-out").text = "\n".join(map(str, report.coded_warnings))
    indent(root)
    return str(tostring(root, encoding="utf-8", xml_declaration=True), "utf-8") + "\n"


def text_in(form: Format, report: CheckReport, place: LimitsPlace) -> str:
    if form == "json":
        return report.json()
    if form == "junit":
        return junit_xml(report)
    return annotation_lines(report, place) if form == "github" else markdown(report)


def write(form: Format, report: CheckReport, place: LimitsPlace, file: Path) -> None:
    """Write the report into a file; Markdown is added after an empty line to what it holds."""
    text = text_in(form, report, place).rstrip("\n") + "\n"
    before = file.read_bytes().rstrip() if form == "markdown" and file.exists() else b""
    atomic_files.write_bytes(file, (before + b"\n\n" if before else b"") + text.encode())


# --- Packed results: how they are made again to be compared, and what a check of them prints -------

_KINDS = (AttackReport, AuditReport, MembershipReport, TrainReport, UnlearningReport)
_REPORTS: dict[object, Any] = {kind.SCHEMA: kind for kind in _KINDS}


def remake_results(root: Path, runs: Sequence[Run], into: Path, progress: Progress = SILENT) -> None:
    """Write the results of a comparison's folder, or of Runs that were run again, as their command did."""
    stored = json_table(file_bytes(root / RESULTS, TraceError), RESULTS, TraceError)
    if (root / INDEX).is_file():
        folder = ComparisonFolder(root)
        report = CompareReport.of(folder, folder.failures(), progress)
    else:
        report = _REPORTS[stored["schema"]].of(Plan(tuple(run.spec for run in runs)), runs)
    # Figures of a preset come from no report.
    text = report.json({name: stored[name] for name in ("published",) if name in stored})
    (into / RESULTS).write_text(text + "\n", encoding="utf-8")
    if isinstance(report, TrainReport):
        report.save_rounds(into)


def print_verification(outcome: dict[str, Any], console: Console) -> None:
    """Print the checks, the versions that differ, and the verdict."""
    unfinished = ", partial: it was packed unfinished" if outcome["partial"] else ""
    head = f"{outcome['bundle']}: a {outcome['kind']}{unfinished}\nSHA-256 {outcome['sha256']}\n"
    console.print(escape(head), highlight=False, soft_wrap=True)
    columns = [
        *columns_of("check:line; result=state:line"),
        Column("found", lambda row: "\n".join(row["found"]), "fold"),
    ]
    print_table(make_table("Checks", columns, outcome["checks"]), console)
    lines = [""]
    if outcome["versions_differ"]:
        near = "relative {relative:g}, absolute {absolute:g}".format(**outcome["tolerance"])
        lines.append(f"Versions differ: numbers had to agree within {near}; what was found again of n lists,")
        lines.append("within 1/n, since scores that tie may fall the other way.")
    for name, pair in outcome["versions_differ"].items():
        there, here = ("none" if text is None else ascii(text)[1:-1][:40] for text in pair.values())
        lines.append(f"  {name}: packed with {there}, here {here}")
    if 0 < len(outcome["rerun"]) < outcome["of"]:
        lines.append(
            f"Re-run: {len(outcome['rerun'])} of {outcome['of']}, drawn with --seed {outcome['seed']}."
        )
    console.print(escape("\n".join(lines)), highlight=False)
    bare = ", nothing re-run" if outcome["verdict"] == "verified" and not outcome["rerun"] else ""
    console.print(f"Verdict: {outcome['verdict']}{bare}", style="bold", highlight=False)
