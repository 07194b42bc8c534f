"""The leak lint: what the messages of a trace give away beside their payload, without truth or data set.

Each check is a class in a module of its own, and stands in `CHECKS`.
"""

from foltr_audit.lint.check import Check
from foltr_audit.lint.checks import CHECKS
from foltr_audit.lint.declared import DeclaredNoise, probability_within
from foltr_audit.lint.finding import Finding
from foltr_audit.lint.linted import Linted, lint
from foltr_audit.lint.seen import Seen

__all__ = ["CHECKS", "Check", "DeclaredNoise", "Finding", "Linted", "Seen", "lint", "probability_within"]
