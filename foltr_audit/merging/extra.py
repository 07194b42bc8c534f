"""The packages of the extra `foltr-audit[merge]`, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from foltr_audit.errors import UsageError

PACKAGES = ("lightgbm", "optuna")
"""What the extra installs."""


def require() -> None:
    """Refuse before any work is done where the extra is not installed.

    Raises:
        UsageError: one of `PACKAGES` is missing.
    """
    for name in PACKAGES:
        package(name)


def package(name: str) -> Any:
    """One of `PACKAGES`.

    Raises:
        UsageError: it is not installed, or its libraries are missing.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"merge: the package {name} is not installed; pip install 'foltr-audit[merge]'"
        ) from error
    except OSError as error:
        raise UsageError(f"merge: the package {name} cannot be loaded: {error}") from error
