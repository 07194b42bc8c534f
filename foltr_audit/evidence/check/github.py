"""Writes the outcomes of a check as GitHub annotations, each at its limit in the file of limits.

Source: GitHub, "Workflow commands for GitHub Actions", `error` and `warning`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foltr_audit.evidence.check.limits import NAMES
from foltr_audit.evidence.check.report import CheckReport


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
