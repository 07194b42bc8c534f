"""The leak lint: what the messages of a trace give away beside their payload, without truth or data set.

Each check is a class in a module of its own, and stands in `CHECKS`. A check that could not look, or not at
everything that it promises, says so: only what was compared is called clean.
"""

from foltr_audit.trace.lint.base import Check
from foltr_audit.trace.lint.checks import CHECKS
from foltr_audit.trace.lint.declared import DeclaredNoise
from foltr_audit.trace.lint.findings import Finding
from foltr_audit.trace.lint.linter import Linted, Linter, lint
from foltr_audit.trace.lint.outcome import Gap, Outcome
from foltr_audit.trace.lint.probabilities import concentration, probability_within
from foltr_audit.trace.lint.rounds import Seen

__all__ = [
    "CHECKS",
    "Check",
    "DeclaredNoise",
    "Finding",
    "Gap",
    "Linted",
    "Linter",
    "Outcome",
    "Seen",
    "concentration",
    "lint",
    "probability_within",
]
