"""Whether the facts that a trace declares explain its messages: no truth is needed for that.

For the right clicks, unknown as they are, the declared step reproduces the numbers of a message that noise
has left alone. If not even the best of all click patterns does, a fact is wrong.
"""

from foltr_audit.judge.fact_check.fact_check import FactCheck, check_facts

__all__ = ["FactCheck", "check_facts"]
