"""The forms in which `check` tells its outcomes, on stdout or in files: option `--format`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from foltr_audit.cli.output import print_line, refuse_place, stdout_console, write_file
from foltr_audit.errors import FoltrAuditError, UsageError, suggest_name

if TYPE_CHECKING:
    from foltr_audit.evidence.check.report import CheckReport, LimitsPlace

Format = Literal["table", "json", "junit", "markdown", "github"]
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True)
class CheckOutputs:
    """Where the outcomes go.

    Attributes:
        shown: the form on stdout.
        files: the form of each file; Markdown is added to the end of its file, all others replace it.
    """

    shown: Format
    files: tuple[tuple[Format, Path], ...]

    @classmethod
    def of(cls, texts: Sequence[str], *, json: bool) -> CheckOutputs:
        """What `--format` asks for; stdout shows a table unless a form without a file is named.

        Raises:
            UsageError: an unknown form, two on stdout, or a file that cannot be written.
        """
        shown: list[Format] = ["json"] if json else []
        files = []
        for text in texts:
            name, equals, file = text.partition("=")
            if name not in FORMATS:
                raise UsageError(f"--format: unknown {name!r}; {suggest_name(name, FORMATS)}")
            form: Format = name
            if not equals:
                shown.append(form)
                continue
            if form == "table":
                raise UsageError(f"--format: {text}: a table is for stdout; expected markdown={file}")
            refuse_place("--format", Path(file))
            files.append((form, Path(file)))
        if len(shown) > 1:
            raise UsageError(
                f"--format: {shown[0]} and {shown[1]} both go to stdout; expected a file for one of them, "
                f"e.g. --format {shown[1]}=FILE"
            )
        return cls(shown[0] if shown else "table", tuple(files))

    def write(self, report: CheckReport, place: LimitsPlace) -> FoltrAuditError | None:
        """Write the files, then show the outcomes.

        An error of a file is returned, so that the verdict is not lost with it.
        """
        problem = None
        for form, file in self.files:
            try:
                write_file("--format", file, partial(_write, form, report, place))
            except FoltrAuditError as error:
                problem = problem or error
        if self.shown == "table":
            from foltr_audit.evidence.check.report import print_check

            print_check(report, stdout_console())
        else:
            print_line(_text(self.shown, report, place).rstrip("\n"))
        return problem


def _write(form: Format, report: CheckReport, place: LimitsPlace, file: Path) -> None:
    from foltr_audit.evidence.check.report import append
    from foltr_audit.recorder import atomic_files

    text = _text(form, report, place)
    if form == "markdown":
        append(file, text)
    else:
        atomic_files.write_text(file, text.rstrip("\n") + "\n")


def _text(form: Format, report: CheckReport, place: LimitsPlace) -> str:
    from foltr_audit.evidence.check.report import annotation_lines, junit_xml, markdown

    if form == "json":
        return report.json()
    if form == "junit":
        return junit_xml(report).decode()
    if form == "github":
        return annotation_lines(report, place)
    return markdown(report)
