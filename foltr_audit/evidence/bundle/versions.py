"""What numbers depend on in addition to a Spec: versions of code and libraries, and the kind of machine."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points, version
from pathlib import Path

from foltr_audit.core.plugins.registry import GROUPS

DISTRIBUTION = "foltr-audit"
LIBRARIES = ("numpy", "numba", "scipy", "polars")
_LINKED = ("attacks", "defenses", "scenarios")


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


def differing(packed: Mapping[str, str], here: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The versions that differ, by name, packed and here; None where one side has none."""
    names = sorted({*packed, *here})
    return {name: (packed.get(name), here.get(name)) for name in names if packed.get(name) != here.get(name)}


def _processor() -> str:
    from llvmlite.binding import get_host_cpu_name  # kernels are compiled for it

    return str(get_host_cpu_name())


def _code() -> str:
    package, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    # rglob does not follow the links of a checkout, and an installed package has folders in their place.
    folders = (package, *(package / name for name in _LINKED))
    for path in sorted({path for folder in folders for path in folder.rglob("*.py")}):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _plugins() -> dict[str, str]:
    owners = {point.dist for group in GROUPS.values() for point in entry_points(group=group) if point.dist}
    return {f"plug-ins {owner.name}": owner.version for owner in owners if owner.name != DISTRIBUTION}
