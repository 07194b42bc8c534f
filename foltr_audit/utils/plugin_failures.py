"""Exceptions in plug-ins of the user's: who failed, where, and which frames of a traceback are the user's.

A traceback goes from our frames to those of the user's code, and perhaps on to ours or a library's. The
object whose method a frame runs says whose it is: its class derives from one of ours, and is the user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from traceback import StackSummary, walk_tb
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from foltr_audit.errors import FoltrAuditError, PluginError, message_of

P = ParamSpec("P")
R = TypeVar("R")

_OURS = frozenset({"foltr_audit", "foltr_audit_recorder"})
_SAID = (FoltrAuditError, MemoryError, BrokenPipeError, SystemError)
"""Errors of ours, of the machine, of a reader that has gone, and of Ctrl-C inside a compiled kernel."""

Place = tuple[FrameType, int]
"""A frame, and the number of the line that it has come to."""


def names_plugins(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, which raises a `PluginError` where a plug-in of the user's fails inside of it."""

    @wraps(function)
    def named(*given: P.args, **words: P.kwargs) -> R:
        try:
            return function(*given, **words)
        except (Exception, SystemExit) as error:
            failure = plugin_failure(error)
            if failure is None:
                raise
            raise failure from error

    return named


def plugin_failure(error: BaseException) -> PluginError | None:
    """The error to raise for an exception of a user's plug-in; None if it is of no plug-in.

    The error is one line, such as `attack Oops failed in bad.py:10: ZeroDivisionError: division by zero`, and
    its note has the frames of the user's files. For a cause it is the same: typer hides an `EOFError` in one.
    """
    if isinstance(error, _SAID):
        return None
    for raised in filter(None, (error, error.__cause__)):
        who, places = _failed(raised.__traceback__)
        if places:
            frame, line = places[-1]
            what = f"{type(raised).__name__}: {message_of(raised)}"
            failure = PluginError(f"{who} failed in {_short_path(frame)}:{line}: {what}")
            failure.add_note("".join(StackSummary.extract(iter(places)).format()).rstrip())
            return failure
    return None


def _failed(trace: TracebackType | None) -> tuple[str, list[Place]]:
    """Which plug-in failed, and the frames of its files; none if no plug-in of the user's did."""
    places = list(walk_tb(trace))
    for first in reversed(range(len(places))):
        who, modules = _plugin_of(places[first][0])
        inner = [frame for frame, _ in places[first:] if _module(frame) in modules]
        if inner:
            folders = {_folder(frame) for frame in inner}
            return who, [
                (frame, line)
                for frame, line in places
                if _module(frame) in modules or (_module(frame) not in _OURS and _folder(frame) in folders)
            ]
    return "", []


def _plugin_of(frame: FrameType) -> tuple[str, set[str]]:
    """What to call the plug-in whose method a frame runs, and the user's modules that its code is in."""
    code = frame.f_code
    actor = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    cls = actor if isinstance(actor, type) else type(actor)
    ours = [base for base in cls.__mro__ if _top(base.__module__) in _OURS and base.__name__ != "Plugin"]
    if not ours:
        return "", set()
    modules = {base.__module__ for base in cls.__mro__ if base not in ours[0].__mro__}
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", ours[-1].__name__).lower()
    name = getattr(actor, "name", cls.__name__)
    if cls is ours[0]:  # it may call a function of the user's
        held = getattr(actor, "__dict__", {}).values() if hasattr(cls, "text") else ()
        modules |= {str(getattr(value, "__module__", None)) for value in held if callable(value)}
        name = getattr(actor, "text", name)
    return f"{kind} {name}", {_top(module) for module in modules} - _OURS


def _top(module: str) -> str:
    """The package of a module; a file that an option names is a module of its own."""
    return module if ":" in module else module.partition(".")[0]


def _module(frame: FrameType) -> str:
    return _top(str(frame.f_globals.get("__name__", "")))


def _folder(frame: FrameType) -> str:
    """The folder of the file of a frame; what is no file, as `<stdin>`, stands alone."""
    file = frame.f_code.co_filename
    return file if file.startswith("<") else str(Path(file).parent)


def _short_path(frame: FrameType) -> str:
    """The file of a frame, with the folders of its package alone."""
    name = str(frame.f_globals.get("__name__", ""))
    packages = 0 if ":" in name else name.count(".")
    return "/".join(Path(frame.f_code.co_filename).parts[-1 - packages :])
