"""Facts of a trace that its messages tell by themselves, and how sure they are; no truth is needed."""

from foltr_audit.judge.fact_inference.estimate import FactEstimate
from foltr_audit.judge.fact_inference.inference import infer_facts

__all__ = ["FactEstimate", "infer_facts"]
