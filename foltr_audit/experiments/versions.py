"""The versions and the code that results depend on: with the same ones, a Spec gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points, version

from foltr_audit.core.plugins.registry import GROUPS, baselines, foreign_modules
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.utils.code_version import EVERYTHING, code_version, plugin_version

OURS = "foltr-audit"
_NO_RESULTS = ("__init__.py", "__main__.py", "api.py", "cli", "evidence", "report", "studies", "testing")
"""Rooms and modules that compute no number that is stored."""

Code = Mapping[str, str]
"""SHA-256 (hex) of all code behind a result: ours, and each package or module of the plug-ins, by name."""

_loaded: dict[str, tuple[object, str]] = {}
"""The code of modules as it was when they were loaded: a module that is reloaded has another spec."""


def code_of(spec: Spec) -> dict[str, str]:
    """The code that a Spec runs: that of the rooms that compute, and that of each plug-in it uses."""
    table = [spec.table(), list(baselines()) if spec.attack is not None else []]
    plugins = {name.partition(".")[0]: _loaded_code(name) for name in sorted(foreign_modules(table))}
    return {OURS: code_version(EVERYTHING, _NO_RESULTS), **plugins}


def _loaded_code(module: str) -> str:
    loaded = getattr(sys.modules.get(module), "__spec__", None)
    if module not in _loaded or _loaded[module][0] is not loaded:
        _loaded[module] = loaded, plugin_version(module.partition(".")[0])
    return _loaded[module][1]


def code_digest(code: Code) -> str:
    """One SHA-256 (hex) for all code behind a result."""
    return hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()


def cell_name(spec: Spec, code: Code | None = None) -> str:
    """The name of what some code, or the present one, makes of a Spec: the hashes of both."""
    return f"{spec.hash[:12]}-{code_digest(code_of(spec) if code is None else code)[:12]}"


def computed_again(count: int, noun: str) -> str:
    """What users are told of results that are not resumed."""
    return f"other code made {count} {noun}{'s' * (count > 1)}, computed again now"


@cache
def versions() -> dict[str, str]:
    """Versions by name, of no user or host; machines with the same versions must compute the same bytes."""
    from llvmlite.binding import get_host_cpu_name  # kernels are compiled for it

    system = (platform.system(), platform.machine(), *platform.libc_ver())
    owners = {point.dist for group in GROUPS.values() for point in entry_points(group=group) if point.dist}
    return {
        OURS: version(OURS),
        "code": code_version(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in ("numpy", "numba", "scipy", "scikit-learn", "polars")},
        "platform": " ".join(part for part in system if part),
        "processor": str(get_host_cpu_name()),
        **{f"plug-ins {owner.name}": owner.version for owner in owners if owner.name != OURS},
    }
