"""Warnings with their codes: one for each kind, and what `foltr-audit list warnings CODE` says of it.

`FA1..` are about what a system declares, `FA2..` about recorded traces and attacks on them, `FA3..` about
measurements, `FA4..` about what a command left out. A code never changes its meaning: `warnings.toml` has
all of them, `docs/pitfalls.md` has examples, and the site a page of all codes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from foltr_audit.errors import UsageError, suggest_name


class WarningKind(NamedTuple):
    """A kind of warnings.

    Attributes:
        code: what never changes, e.g. `FA101`.
        name: what the code calls it; of a check of declarations its name.
        title: what is wrong, in a few words.
        text: what it means, and what to do.
        section: the heading in `docs/pitfalls.md` with an example; empty without one.
    """

    code: str
    name: str
    title: str
    text: str
    section: str = ""

    @property
    def explanation(self) -> str:
        """Title and text, and where an example is."""
        more = f'\n\nExample: docs/pitfalls.md, "{self.section}".' if self.section else ""
        return f"{self.code}: {self.title}\n\n{self.text}{more}"


def _kinds() -> dict[str, WarningKind]:
    found = tomllib.loads((Path(__file__).parent / "warnings.toml").read_text(encoding="utf-8"))
    kinds = {code: WarningKind(code, **kind) for code, kind in found.items()}
    return {code: kind._replace(text=" ".join(kind.text.split())) for code, kind in kinds.items()}


WARNINGS = _kinds()
"""Every kind of warnings by its code."""


class CodedWarning(NamedTuple):
    """A warning with its code."""

    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    def about(self, subject: str) -> CodedWarning:
        """The warning after what it is about."""
        return self._replace(text=f"{subject}: {self.text}")

    @classmethod
    def parse(cls, line: str) -> CodedWarning:
        """The warning of a stored line, as `str` writes it.

        >>> CodedWarning.parse("FA104: last bits")
        CodedWarning(code='FA104', text='last bits')

        Raises:
            ValueError: it has no known code.
        """
        code, _, text = line.partition(": ")
        if code not in WARNINGS:
            raise ValueError("expected a warning with its code")
        return cls(code, text)


def warning_lines(warnings: Iterable[CodedWarning], how: str = "--full") -> list[str]:
    """All warnings in one line with their codes, and `how` one reads them; no line without a warning.

    >>> warning_lines([CodedWarning("FA104", "last bits"), CodedWarning("FA101", "too small")])
    ['2 warnings: FA101 FA104 (--full shows them; foltr-audit list warnings FA101 explains one)']
    """
    codes = [warning.code for warning in dict.fromkeys(warnings)]
    if not codes:
        return []
    named = sorted(set(codes))
    return [
        f"{len(codes)} warning{'s' * (len(codes) > 1)}: {' '.join(named)} "
        f"({how} shows them; foltr-audit list warnings {named[0]} explains one)"
    ]


_BY_NAME = {kind.name: kind for kind in WARNINGS.values()}


def warning_code(name: str) -> str:
    return _BY_NAME[name].code


def coded(name: str, text: str) -> CodedWarning:
    return CodedWarning(warning_code(name), text)


def warning_kind(code: str) -> WarningKind:
    """The kind of warnings of a code, in upper or lower case.

    Raises:
        UsageError: there is no such code.
    """
    found = WARNINGS.get(code.upper())
    if found is None:
        raise UsageError(f"CODE: unknown code {code[:40]!r}; {suggest_name(code.upper(), WARNINGS)}")
    return found
