"""Writes the outcomes of a check as GitHub annotations, each at its limit in the file of limits.

Source: GitHub, "Workflow commands for GitHub Actions", `error` and `warning`.
"""

from __future__ import annotations

from foltr_audit.evidence.check.limits_place import LimitsPlace
from foltr_audit.evidence.check.report import CheckReport


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
