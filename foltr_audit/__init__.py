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

# Names with `_`, so that `fa.` completes to public ones in editors, too.
import logging as _logging
import os as _os
import typing as _typing
from importlib import import_module as _import_module

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
"""What `foltr_audit` logs stays silent unless a program asks for it."""

_os.environ.setdefault("OMP_WAIT_POLICY", "passive")
"""Idle threads sleep: spinning costs more than half of a busy machine. OpenMP reads this variable when it is
loaded, which is later; a value that is already set stays."""

if _typing.TYPE_CHECKING:
    __version__: str
    from foltr_audit.api import (
        attack,
        attack_trace,
        audit,
        audit_mechanism,
        check,
        compare,
        lint,
        load_data,
        membership,
        recommend,
        simulate,
        unlearn,
    )
    from foltr_audit.core.client_steps import numpy_step, torch_module_step, torch_step
    from foltr_audit.core.defense_chain import published_chain
    from foltr_audit.core.plugins import ClientStep, FirstLayer
    from foltr_audit.core.plugins.registry import use_plugin
    from foltr_audit.core.records import Collection, Dataset, RoundRecord, RoundTruth
    from foltr_audit.core.settings.experiment import Spec
    from foltr_audit.core.settings.fields import GridFields, SpecFields
    from foltr_audit.data.arrays import make_data, make_data_of_qrels
    from foltr_audit.errors import FoltrAuditError
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.report.attack import AttackReport
    from foltr_audit.report.audit import AuditReport
    from foltr_audit.report.calibrate import NoiseCalibrationReport, calibrate
    from foltr_audit.report.check import CheckReport
    from foltr_audit.report.compare import CompareReport
    from foltr_audit.report.lists import list_attacks, list_click_models, list_defenses, list_names
    from foltr_audit.report.ranker import FederatedRanker
    from foltr_audit.report.recommend import RecommendReport
    from foltr_audit.report.train import TrainReport
    from foltr_audit.trace import Trace, TraceDataset, TraceHeader, TraceWriter

_NAMES = {
    "api": (
        "attack attack_trace audit audit_mechanism check compare lint load_data membership "
        "recommend simulate unlearn"
    ),
    "core.client_steps": "numpy_step torch_module_step torch_step",
    "core.defense_chain": "published_chain",
    "core.plugins": "ClientStep FirstLayer",
    "core.plugins.registry": "use_plugin",
    "core.records": "Collection Dataset RoundRecord RoundTruth",
    "core.settings.experiment": "Spec",
    "core.settings.fields": "GridFields SpecFields",
    "data.arrays": "make_data make_data_of_qrels",
    "errors": "FoltrAuditError",
    "experiments.plan": "Plan",
    "report.attack": "AttackReport",
    "report.audit": "AuditReport",
    "report.calibrate": "NoiseCalibrationReport calibrate",
    "report.check": "CheckReport",
    "report.compare": "CompareReport",
    "report.lists": "list_attacks list_click_models list_defenses list_names",
    "report.ranker": "FederatedRanker",
    "report.recommend": "RecommendReport",
    "report.train": "TrainReport",
    "trace": "Trace TraceDataset TraceHeader TraceWriter",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AttackReport",
    "AuditReport",
    "CheckReport",
    "ClientStep",
    "Collection",
    "CompareReport",
    "Dataset",
    "FederatedRanker",
    "FirstLayer",
    "FoltrAuditError",
    "GridFields",
    "NoiseCalibrationReport",
    "Plan",
    "RecommendReport",
    "RoundRecord",
    "RoundTruth",
    "Spec",
    "SpecFields",
    "Trace",
    "TraceDataset",
    "TraceHeader",
    "TraceWriter",
    "TrainReport",
    "attack",
    "attack_trace",
    "audit",
    "audit_mechanism",
    "calibrate",
    "check",
    "compare",
    "lint",
    "list_attacks",
    "list_click_models",
    "list_defenses",
    "list_names",
    "load_data",
    "make_data",
    "make_data_of_qrels",
    "membership",
    "numpy_step",
    "published_chain",
    "recommend",
    "simulate",
    "torch_module_step",
    "torch_step",
    "unlearn",
    "use_plugin",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `foltr-audit --help` starts at once."""
    if name == "__version__":
        from importlib.metadata import version

        return version("foltr-audit")
    if name not in _WHERE:
        raise AttributeError(f"module 'foltr_audit' has no attribute {name!r}")
    return getattr(_import_module(f"foltr_audit.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for completion in a notebook."""
    return ["__version__", *__all__]
