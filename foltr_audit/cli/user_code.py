"""Finds functions of the user's own code, which the command line names.

The module that is named is run, as `import` runs it. Nothing else is.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from foltr_audit.errors import UsageError, message_of, suggest_name

if TYPE_CHECKING:
    from foltr_audit.core.plugins import ClientStep

Function = Callable[..., object]


def named_function(text: str, option: str, *, anew: bool = False) -> Function:
    """The function that `MODULE:FUNCTION` or `FILE.py:FUNCTION` names.

    A module is looked for in the current folder, then among installed packages.

    Args:
        text: the names.
        option: what names them in messages.
        anew: run the module once more, even if it was imported before.

    Raises:
        UsageError: there is no such module, file or function, or the module raises when it is imported.
    """
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise UsageError(f"{option}: {text!r}; expected MODULE:FUNCTION or FILE.py:FUNCTION")
    module = _module(place, option, anew=anew)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [one for one in vars(module) if not one.startswith("_") and callable(vars(module)[one])]
            raise UsageError(f"{option}: {place} has no {name!r}; {suggest_name(name, known)}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{option}: {text} is a {type(found).__name__}; expected a function")
    return found


def named_client_step(text: str | None) -> ClientStep | None:
    """The client step that `--client-step` names: a registered one, or a function; None without a name.

    Raises:
        UsageError: there is no such module, file or function.
        PluginError: a parameter of a registered step is wrong.
    """
    from foltr_audit.core.client_steps.function_step import as_client_step
    from foltr_audit.core.plugins import ClientStep
    from foltr_audit.core.plugins.registry import make, names

    if text is None:
        return None
    if ":" not in text or text.partition(":")[0] in names(ClientStep):
        return make(ClientStep, text)
    with no_result_printed():
        return as_client_step(named_function(text, "--client-step"), text)


def no_result_printed() -> AbstractContextManager[object]:
    """While it lasts, what the user's code prints goes to stderr, since it is no result."""
    return contextlib.redirect_stdout(sys.stderr)


def _module(place: str, option: str, *, anew: bool) -> ModuleType:
    folder = str(Path(place).resolve().parent) if place.endswith(".py") else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # a file may be newer than what the interpreter has seen of its folder
    try:
        if not anew and not place.endswith(".py"):
            return importlib.import_module(place)
        return _run_module(place, option, anew=anew)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # whatever the module raises is for its author
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{place}.".startswith(f"{missing}."):
            raise UsageError(
                f"{option}: no module {place!r} in {folder} or among installed packages; "
                "expected MODULE:FUNCTION or FILE.py:FUNCTION"
            ) from error
        raise UsageError(
            f"{option}: importing {place} raised {type(error).__name__}: {message_of(error)}"
        ) from error


def _run_module(place: str, option: str, *, anew: bool) -> ModuleType:
    """The module of a file, or another copy of a module."""
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise UsageError(f"{option}: {place}: no such file")
        # Not the name of the file: it may be that of a module which is in use.
        name = f"{__name__}:{path}"
        spec = importlib.util.spec_from_file_location(name, path)
    else:
        name = place
        spec = importlib.util.find_spec(place)
    if name in sys.modules and not anew:
        return sys.modules[name]
    if spec is None or spec.loader is None:
        raise UsageError(f"{option}: {place}: cannot be imported; expected a Python file")
    module, before = importlib.util.module_from_spec(spec), sys.modules.get(name)
    sys.modules[name] = module  # where dataclasses look for the module of a class
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        if before is not None:
            sys.modules[name] = before
    return module
