"""The versions that results depend on: with the same ones, a Spec gives the same bytes."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import entry_points, version

from foltr_audit.core.plugins.registry import GROUPS
from foltr_audit.utils.code_version import code_version


@cache
def versions() -> dict[str, str]:
    """Versions by name, of no user or host; machines with the same versions must compute the same bytes."""
    from llvmlite.binding import get_host_cpu_name  # kernels are compiled for it

    system = (platform.system(), platform.machine(), *platform.libc_ver())
    owners = {point.dist for group in GROUPS.values() for point in entry_points(group=group) if point.dist}
    return {
        "foltr-audit": version("foltr-audit"),
        "code": code_version(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in ("numpy", "numba", "scipy", "polars")},
        "platform": " ".join(part for part in system if part),
        "processor": str(get_host_cpu_name()),
        **{f"plug-ins {owner.name}": owner.version for owner in owners if owner.name != "foltr-audit"},
    }
