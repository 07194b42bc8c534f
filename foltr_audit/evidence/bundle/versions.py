"""What numbers depend on in addition to a Spec: versions of code and libraries, and the kind of machine."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path

from foltr_audit.core.plugins.registry import GROUPS

DISTRIBUTION = "foltr-audit"
LIBRARIES = ("numpy", "numba", "scipy", "polars")
_ROOMS = ("attacks", "defenses", "scenarios", "studies", "recorder")
"""Packages that lie beside the others in a checkout, and among them once installed."""


@cache
def versions() -> Mapping[str, str]:
    """Versions by name; two machines with the same versions must compute the same bytes.

    `code` is the SHA-256 of our own sources; `plug-ins NAME` is the version of another distribution that
    registers plug-ins. Nothing here names a user or a host.
    """
    found = {
        DISTRIBUTION: version(DISTRIBUTION),
        "code": _code(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in LIBRARIES},
        "platform": " ".join(
            part for part in (platform.system(), platform.machine(), *platform.libc_ver()) if part
        ),
        "processor": _processor(),
    }
    return found | _plugins()


def _processor() -> str:
    from llvmlite.binding import get_host_cpu_name  # kernels are compiled for it

    return str(get_host_cpu_name())


def _code() -> str:
    package, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    folders = {"": package}
    for room in _ROOMS:
        spec = find_spec(f"foltr_audit.{room}")
        if spec is not None and spec.origin is not None:
            folders[f"{room}/"] = Path(spec.origin).parent
    files = {
        inside + path.relative_to(folder).as_posix(): path
        for inside, folder in folders.items()
        for path in folder.rglob("*.py")
    }
    for name, path in sorted(files.items()):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _plugins() -> dict[str, str]:
    owners = {point.dist for group in GROUPS.values() for point in entry_points(group=group) if point.dist}
    return {f"plug-ins {owner.name}": owner.version for owner in owners if owner.name != DISTRIBUTION}
