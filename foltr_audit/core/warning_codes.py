"""Warnings with their codes; `core/warning_kinds.py` has the table of all codes."""

from __future__ import annotations

from typing import NamedTuple

from foltr_audit.core.warning_kinds import WARNINGS, WarningKind
from foltr_audit.errors import UsageError, suggest_name


class CodedWarning(NamedTuple):
    """A warning with its code.

    Attributes:
        code: one of `WARNINGS`.
        text: what is warned of.
    """

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


_BY_NAME = {kind.name: kind for kind in WARNINGS.values()}


def warning_code(name: str) -> str:
    """The code of a kind of warnings."""
    return _BY_NAME[name].code


def coded(name: str, text: str) -> CodedWarning:
    """A warning of a kind, by the kind's name."""
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
