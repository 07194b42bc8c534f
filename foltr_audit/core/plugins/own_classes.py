"""Plug-ins of the user's own code, which no entry point registers, and how Specs name them.

A class of a module is `MODULE:CLASS` in a Spec, e.g. `my_attacks:Trimmed:keep=0.5`. A class that only this
process has, of a notebook, a script or a function, is its bare name: such a Spec can run here, but nothing
that outlives the process or runs in another one may hold it.

A text imports nothing: it may come from a file. A class is known once the user gives it, in Python as a class
or an object, on the command line as `MODULE:CLASS`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from foltr_audit.core.plugins.base import Plugin, name_in, spec_names
from foltr_audit.errors import PluginError, message_of
from foltr_audit.privacy.noise.parse import parts

NOT_SAVED = "what is saved could not be read again; expected no folder, or a class of a module"
"""Why a class that only this process has cannot be part of what is saved."""

_known: dict[tuple[type[Plugin], str], type[Plugin]] = {}


@contextmanager
def at_hand(base: type[Plugin], cls: type[Plugin]) -> Iterator[None]:
    """Have a class found under its `name` inside a `with` block, whatever is registered: for tests of it."""
    place = (base, getattr(cls, "name", ""))
    before = _known.get(place)
    _known[place] = cls
    try:
        yield
    finally:
        _known.pop(place)
        if before is not None:
            _known[place] = before


def own_class(base: type[Plugin], name: str) -> type[Plugin] | None:
    """The user's class that Specs call `name`; None if none was given."""
    return _known.get((base, name))


def make_known(base: type[Plugin], cls: type[Plugin]) -> str:
    """Have a class found in this process, and return what Specs call it.

    A class that is defined once more, as in a notebook, takes the place of the former one.
    """
    name = f"{cls.__module__}:{cls.__qualname__}" if is_importable(cls) else cls.__name__
    if "name" not in vars(cls):
        cls.name = cls.__name__
    spec_names[cls] = name
    _known[base, name] = cls
    return name


def is_importable(cls: type) -> bool:
    """Whether another process finds a class by its module and name."""
    found: object = sys.modules.get(cls.__module__)
    if cls.__module__ == "__main__" or found is None:
        return False
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not None and getattr(found, "__qualname__", None) == cls.__qualname__


def import_class(reference: str) -> type[Plugin]:
    """Import a class that the user names as `MODULE:CLASS`, which runs the module.

    Raises:
        PluginError: there is no such module or class, it is no plug-in, or its module raises.
    """
    module, _, name = reference.partition(":")
    try:
        found: object = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module raises is for its author
        raise PluginError(f"{reference}: importing {module} failed: {message_of(error)}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        what = "has no such class" if found is None else "has it, but it is no plug-in"
        raise PluginError(
            f"{reference}: {module} {what}; expected a subclass of a class of foltr_audit.plugins"
        )
    return found


def own_names(table: object) -> dict[str, type[Plugin]]:
    """The user's classes that the texts of a plain table name, by what Specs call them."""
    if isinstance(table, str):
        called = {name_in(part) for part in parts(table)}
        return {name: cls for (_, name), cls in _known.items() if name in called and cls in spec_names}
    inner: Sequence[object] = ()
    if isinstance(table, Mapping):
        inner = list(table.values())
    elif isinstance(table, list | tuple):
        inner = table
    return {name: cls for one in inner for name, cls in own_names(one).items()}


def refuse_fleeting(table: object, why: str) -> None:
    """Refuse a table that names a class which only this process has.

    Args:
        table: the plain table of a Spec, plan or grid.
        why: who could not find the class again, for the message.

    Raises:
        PluginError: it names one.
    """
    for name, cls in own_names(table).items():
        if not is_importable(cls):
            where = "a function" if "<locals>" in cls.__qualname__ else cls.__module__
            raise PluginError(f"{name} is a class of {where}: {why}")


def importable_names() -> tuple[str, ...]:
    """The classes of this process that another one can import, as `import_class` takes them."""
    return tuple(name for (_, name), cls in _known.items() if ":" in name and is_importable(cls))
