"""The packages of the extras, such as `foltr-audit[merge]`, imported when they are needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from foltr_audit.errors import UsageError

EXTRAS = {
    "dask": ("distributed",),
    "merge": ("lightgbm", "optuna"),
    "plot": ("matplotlib",),
    "recommend": ("optuna",),
    "torch": ("torch",),
}
"""The packages that what needs an extra imports."""


def require(extra: str, needed_by: str | None = None) -> None:
    """Refuse before any work is done where an extra is not installed.

    Raises:
        UsageError: one of its packages is missing.
    """
    for name in EXTRAS[extra]:
        package(name, extra, needed_by)


def package(name: str, extra: str, needed_by: str | None = None) -> ModuleType:
    """A package of an extra, which an option or a call needs, or else the command with the extra's name.

    Raises:
        UsageError: it is not installed, or its libraries are missing.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{needed_by or extra}: the package {name} is not installed; pip install 'foltr-audit[{extra}]'"
        ) from error
    # LightGBM loads its compiled library by ctypes: where libgomp is missing, that is no ImportError.
    except OSError as error:
        raise UsageError(f"{needed_by or extra}: the package {name} cannot be loaded: {error}") from error


@contextmanager
def quiet(optuna: ModuleType) -> Iterator[None]:
    """Optuna without its log on stderr and its warnings of features that may change; both are restored.

    The log would also hold a traceback of each trial that Ctrl-C interrupts.
    """
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
