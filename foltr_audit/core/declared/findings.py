"""What a check finds: a declaration, what follows from it, the right number, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from foltr_audit.core.warning_codes import CodedWarning, warning_code
from foltr_audit.utils.rows import ResultRow

FindingSeverity = Literal["error", "warning"]
"""`error`: the claim does not follow from what is declared; `warning`: it may be weaker than it reads."""


@dataclass(frozen=True, kw_only=True)
class DeclarationFinding(ResultRow):
    """One declaration that does not agree with what follows from the others.

    Attributes:
        check: name of the check.
        code: its code, see `foltr-audit explain`.
        severity: `error` or `warning`.
        field: what it is about: a defense, or a field of a description.
        declared: what is declared, in a few words.
        follows: what follows instead, in a sentence without its subject.
        right: the number that would hold; None where no number would.
        mend: how to mend it.
    """

    check: str
    code: str = field(init=False)
    severity: FindingSeverity
    field: str
    declared: str
    follows: str
    right: float | None
    mend: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", warning_code(self.check))

    @property
    def warning(self) -> CodedWarning:
        """The finding as one line, with how to mend it."""
        return CodedWarning(self.code, f"{self.field}: {self.follows}; {self.mend}")


def digits(value: float) -> str:
    """A number for people: three digits from 1 on, four below 1.

    >>> digits(40.693), digits(3.0), digits(0.00123456)
    ('40.7', '3', '0.001235')
    """
    return f"{value:.3g}" if 1 <= abs(value) < 1000 else f"{value:.4g}"
