"""Finds functions and plug-ins of the user's own code, which the command line names.

The module that is named is run, as `import` runs it. Nothing else is.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from foltr_audit.errors import PluginError, UsageError, message_of, suggest_name

if TYPE_CHECKING:
    from foltr_audit.core.plugins import ClientStep

Function = Callable[..., object]


def named_function(text: str, option: str, *, anew: bool = False) -> Function:
    """The function that `MODULE:FUNCTION` or `FILE.py:FUNCTION` names.

    A module is looked for in the current folder, then among installed packages; with `anew` it is run once
    more if it was imported before.
    """
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise UsageError(f"{option}: {text!r}; expected MODULE:FUNCTION or FILE.py:FUNCTION")
    module = _module(place, option, anew=anew)
    function: object = module
    for part in name.split("."):
        if not hasattr(function, part):
            known = [own for own in vars(module) if not own.startswith("_") and callable(vars(module)[own])]
            raise UsageError(f"{option}: {place} has no {name!r}; {suggest_name(name, known)}")
        function = getattr(function, part)
    if not callable(function):
        raise UsageError(f"{option}: {text} is of type {type(function).__name__}; expected a function")
    return function


def named_client_step(text: str | None) -> ClientStep | None:
    """The client step that `--client-step` names: a registered one, or a function; None without a name."""
    from foltr_audit.core.client_steps import as_client_step
    from foltr_audit.core.plugins import ClientStep
    from foltr_audit.core.plugins.registry import make, names

    if text is None:
        return None
    if ":" not in text or text.partition(":")[0] in names(ClientStep):
        return make(ClientStep, text)
    with no_result_printed():
        return as_client_step(named_function(text, "--client-step"), text)


PLUGIN_OPTIONS = {
    "method": "Attack",
    "defense": "Defense",
    "click_model": "ClickModel",
    "train_click_model": "ClickModel",
    "learner": "Learner",
    "scenario": "Scenario",
    "poisoning": "Poisoning",
    "server": "Server",
}
"""Parameters whose values name plug-ins, and the class of the plug-ins."""

_OWN = re.compile(r"(?P<place>[^:+,=\s][^:+,=]*):(?P<name>[A-Za-z_][\w.]*)(?=[:+,\s]|$)")


def with_own_plugins(given: dict[str, Any]) -> dict[str, Any]:
    """The values of options, after the import of the plug-ins that they name as `MODULE:CLASS`.

    Values that name a file, as `FILE.py:CLASS`, name its module afterwards.
    """
    options = dict(given)
    for option, kind in PLUGIN_OPTIONS.items():
        value = given.get(option)
        if isinstance(value, str):
            options[option] = _named_in(value, option, kind)
        elif isinstance(value, list):
            options[option] = [_named_in(text, option, kind) for text in value]
    return options


def _named_in(text: str, option: str, kind: str) -> str:
    from foltr_audit.core import plugins
    from foltr_audit.core.plugins.registry import called

    def named(match: re.Match[str]) -> str:
        own = called(getattr(plugins, kind), match[0]) == match[0]  # else a registered name and a parameter
        return import_plugin(match[0], f"--{option.replace('_', '-')}") if own else match[0]

    return _OWN.sub(named, text)


def import_plugin(reference: str, option: str) -> str:
    """Import a plug-in that the user names as `MODULE:CLASS` or `FILE.py:CLASS`; returns its name in Specs.

    A module is looked for in the current folder, then among installed packages.
    """
    from foltr_audit.core.plugins.registry import import_class, use_plugin

    place, colon, name = reference.partition(":")
    if not place or not colon or not name:
        raise UsageError(f"{option}: {reference!r}; expected MODULE:CLASS or FILE.py:CLASS")
    path = Path(place).resolve() if place.endswith(".py") else None
    if path is not None and not path.is_file():
        raise UsageError(f"{option}: {place}: no such file")
    _look_in(place)
    module = place if path is None else path.stem
    try:
        with no_result_printed():
            cls = import_class(f"{module}:{name}")
    except PluginError as error:
        raise UsageError(f"{option}: {error}") from error
    imported = getattr(sys.modules[module], "__file__", None)
    if path is not None and (imported is None or Path(imported).resolve() != path):
        raise UsageError(f"{option}: {place}: another module is called {module}; expected another file name")
    return use_plugin(cls)


def no_result_printed() -> AbstractContextManager[object]:
    """While it lasts, what the user's code prints goes to stderr, since it is no result."""
    return contextlib.redirect_stdout(sys.stderr)


def _look_in(place: str) -> str:
    """Have Python look for modules in the folder of a file, or in the current one; which that is."""
    folder = str(Path(place).resolve().parent) if place.endswith(".py") else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # a file may be newer than what the interpreter has seen of its folder
    return folder


def _module(place: str, option: str, *, anew: bool) -> ModuleType:
    folder = _look_in(place)
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
