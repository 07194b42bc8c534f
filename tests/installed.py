"""Distributions of other people, as an installer leaves them in a folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from foltr_audit.core.plugins import registry


@dataclass(frozen=True)
class Installer:
    """Puts distributions on the path, and has the registry read its entry points anew.

    Attributes:
        patch: puts the path back.
        modules: names of the modules that were put there.
    """

    patch: pytest.MonkeyPatch
    modules: set[str] = field(default_factory=set)

    def __call__(
        self, folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], modules: Mapping[str, str]
    ) -> None:
        """Install a distribution: its entry points by group, and its modules with their source."""
        info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [
            line
            for group, points in groups.items()
            for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for module, source in modules.items():
            (folder / f"{module}.py").write_text(source)
        (info / "RECORD").write_text("".join(f"{module}.py,,\n" for module in modules))
        self.patch.syspath_prepend(str(folder))
        self.modules.update(modules)
        self.forget()

    def forget(self) -> None:
        """Have nothing of entry points and these modules in memory."""
        registry._registered.cache_clear()
        registry._load.cache_clear()
        registry.unloadable.cache_clear()
        for module in self.modules:
            sys.modules.pop(module, None)
