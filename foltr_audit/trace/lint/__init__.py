"""The leak lint: what the messages of a trace leak in addition to their payload, without truth or data set.

Each check is a class in a module of its own, and listed in `CHECKS`. A check that could not look, or not at
everything that it promises, says so: only what was compared is called clean.
"""

from foltr_audit.trace.lint.all_checks import CHECKS
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import LintFinding
from foltr_audit.trace.lint.linter import Linter, LintResult, lint
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap, LintOutcome
from foltr_audit.trace.lint.rounds import ServerView

__all__ = [
    "CHECKS",
    "CoverageGap",
    "LintCheck",
    "LintFinding",
    "LintOutcome",
    "LintResult",
    "Linter",
    "NoiseDeclaration",
    "ServerView",
    "lint",
]
