"""foltr-audit: what federated online learning to rank leaks, and whether its privacy claims hold.

Example:
    >>> import foltr_audit as fa
    >>> spec = fa.Spec(
    ...     data={"source": "synthetic:mq2007:60"},
    ...     population={"clients": 50},
    ...     train={"rounds": 2},
    ...     defense=fa.published_chain(eps=1.2),
    ...     attack={"methods": ["olsr"]},
    ... )
    >>> report = fa.attack(spec)
    >>> report.to_frame().columns[:3]
    ['method', 'baseline', 'click_model']
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
"""Idle threads sleep: spinning costs more than half of a busy machine. OpenMP reads this variable when it is
loaded, which is later; a value that is already set stays."""

if TYPE_CHECKING:
    from foltr_audit.api import (
        attack,
        attack_trace,
        audit,
        audit_mechanism,
        audit_trace,
        compare,
        lint,
        load_data,
        membership,
        simulate,
    )
    from foltr_audit.core.published_chain import published_chain
    from foltr_audit.core.records import Collection, Dataset, RoundRecord, RoundTruth
    from foltr_audit.core.spec.experiment import Spec
    from foltr_audit.errors import FoltrAuditError
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.trace import Trace, TraceDataset, TraceHeader, TraceWriter

_WHERE = {
    "attack": "api",
    "attack_trace": "api",
    "audit": "api",
    "audit_mechanism": "api",
    "audit_trace": "api",
    "compare": "api",
    "lint": "api",
    "load_data": "api",
    "membership": "api",
    "simulate": "api",
    "published_chain": "core.published_chain",
    "FoltrAuditError": "errors",
    "Plan": "experiments.plan",
    "Collection": "core.records",
    "Dataset": "core.records",
    "RoundRecord": "core.records",
    "RoundTruth": "core.records",
    "Spec": "core.spec.experiment",
    "Trace": "trace",
    "TraceDataset": "trace",
    "TraceHeader": "trace",
    "TraceWriter": "trace",
}

__all__ = [
    "Collection",
    "Dataset",
    "FoltrAuditError",
    "Plan",
    "RoundRecord",
    "RoundTruth",
    "Spec",
    "Trace",
    "TraceDataset",
    "TraceHeader",
    "TraceWriter",
    "attack",
    "attack_trace",
    "audit",
    "audit_mechanism",
    "audit_trace",
    "compare",
    "lint",
    "load_data",
    "membership",
    "published_chain",
    "simulate",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `foltr-audit --help` starts at once."""
    if name not in _WHERE:
        raise AttributeError(f"module 'foltr_audit' has no attribute {name!r}")
    return getattr(import_module(f"foltr_audit.{_WHERE[name]}"), name)
