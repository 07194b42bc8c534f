"""Whether the facts that a trace declares explain its messages; no truth is needed for this.

For the right clicks, which are unknown, the declared step reproduces the numbers of a message that noise has
not changed. If not even the best of all click patterns does, a fact is wrong.
"""

from foltr_audit.judge.fact_check.fact_check import FactCheck, check_facts

__all__ = ["FactCheck", "check_facts"]
