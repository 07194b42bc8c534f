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
    __version__: str
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
        unlearn,
    )
    from foltr_audit.core.client_steps.function_step import numpy_step
    from foltr_audit.core.client_steps.jax_step import jax_step
    from foltr_audit.core.client_steps.torch_step import torch_step
    from foltr_audit.core.client_steps.torch_training import torch_module_step
    from foltr_audit.core.plugins import ClientStep, FirstLayer
    from foltr_audit.core.published_chain import published_chain
    from foltr_audit.core.records import Collection, Dataset, RoundRecord, RoundTruth
    from foltr_audit.core.spec.experiment import Spec
    from foltr_audit.errors import FoltrAuditError
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.trace import Trace, TraceDataset, TraceHeader, TraceWriter

_WHERE = {
    "jax_step": "core.client_steps.jax_step",
    "torch_module_step": "core.client_steps.torch_training",
    "torch_step": "core.client_steps.torch_step",
    "FirstLayer": "core.plugins",
    "ClientStep": "core.plugins",
    "numpy_step": "core.client_steps.function_step",
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
    "unlearn": "api",
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
    "ClientStep",
    "Collection",
    "Dataset",
    "FirstLayer",
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
    "jax_step",
    "lint",
    "load_data",
    "membership",
    "numpy_step",
    "published_chain",
    "simulate",
    "torch_module_step",
    "torch_step",
    "unlearn",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `foltr-audit --help` starts at once."""
    if name == "__version__":
        from importlib.metadata import version

        return version("foltr-audit")
    if name not in _WHERE:
        raise AttributeError(f"module 'foltr_audit' has no attribute {name!r}")
    return getattr(import_module(f"foltr_audit.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for completion in a notebook."""
    return ["__version__", *__all__]
