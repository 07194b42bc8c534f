"""The outcomes of a check as Markdown, for the summary page of a build."""

from __future__ import annotations

import re
from pathlib import Path

from foltr_audit import atomic
from foltr_audit.checking.outcomes import Outcome
from foltr_audit.checking.report import CheckReport

_MARKS = re.compile(r"([\\`*_\[\]|~<>&$#])")
_STATUS = {"holds": "holds", "broken": "**broken**", "not judged": "**not judged**"}


def markdown(report: CheckReport) -> str:
    """A heading, a table of all outcomes, and the warnings."""
    lines = [
        f"### foltr-audit check: {report.summary}",
        "",
        "| limit | row | | value | interval | allowed | of |",
        "|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(_cells(one))} |" for one in report.outcomes),
        "",
        *(f"- warning: {escaped(text)}" for text in report.warnings),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _cells(one: Outcome) -> tuple[str, ...]:
    about = one.missing if one.status == "not judged" else one.about
    told = (one.value_text, one.interval_text(), one.allowed_text, about)
    return (escaped(one.limit), escaped(one.subject), _STATUS[one.status], *(escaped(text) for text in told))


def escaped(text: str) -> str:
    r"""A text as one line without marks of Markdown or HTML.

    >>> print(escaped("a|b <i> max_eps"))
    a\|b \<i\> max\_eps
    """
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def append(path: Path, text: str) -> None:
    """Add a text to the end of a file, after an empty line; a file that is not there is made.

    Raises:
        OSError: it cannot be read or written.
    """
    before = path.read_bytes() if path.exists() else b""
    if before.strip():
        before = before.rstrip(b"\n") + b"\n\n"
    atomic.write_bytes(path, before + text.encode())
